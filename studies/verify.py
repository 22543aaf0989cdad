"""Scores a run of a study again from its weights and compares with its record.

    python -m studies.verify --run=runs/studies/leaderboard/final-... [--tolerance=1e-6]
        [--record=studies/results/runs/leaderboard/final-...] [--weights=model.keras]

The weights are those of the run's chosen checkpoint. With `--weights` they come from a
file of `models.save_pretrained`, whose half precision moves scores in the third digit:
give a tolerance. The record is the run's own `metrics.json`, or what a study keeps of
it. Nothing is written. Exit code 1 if a score differs by more than the tolerance.
"""

import argparse
import math
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import models
from experiments.reporting.summary import format_table, load_run
from experiments.running.rescoring import load_trained
from experiments.running.scoring import score_run
from experiments.running.setup import build_model, configure_tensorflow, load_dataset
from experiments.storage.run_directory import RunDirectory

# What threads and instruction sets of another machine may change.
TOLERANCE = 1e-6


@dataclass(frozen=True)
class Comparison:
    """One score, recorded and computed again.

    Attributes:
        score: Its name.
        recorded: What the record says.
        again: What the weights give; NaN if they give none.
    """

    score: str
    recorded: float
    again: float

    @property
    def difference(self) -> float:
        """How far both are apart; 0 if both are not finite."""
        if not (math.isfinite(self.recorded) or math.isfinite(self.again)):
            return 0.0
        return abs(self.recorded - self.again)


def verify(
    run: Path, record: Path | None = None, weights: Path | None = None
) -> list[Comparison]:
    """Recorded scores beside those of the weights.

    Args:
        run: Folder of a finished run.
        record: Folder with its `config.json` and `metrics.json`; by default the run's.
        weights: File or folder of `models.save_pretrained`; by default the run's chosen
            checkpoint.

    Example:

    ```python
    worst = max(verify(Path("runs/qlae-0")), key=lambda found: found.difference)
    ```
    """
    recorded = load_run(record or run)
    config, directory = recorded.config, RunDirectory(run)
    configure_tensorflow(config)
    dataset = load_dataset(config)
    if weights is None:
        model = build_model(config, dataset)
        load_trained(directory, config, model, report=_be_quiet)
    else:
        model = models.load_pretrained(weights)
    settings = recorded.metrics["settings"]
    with tempfile.TemporaryDirectory() as scratch:
        found = score_run(
            config,
            RunDirectory(Path(scratch)),
            model,
            dataset,
            recorded.metrics["checkpoint"],
            _be_quiet,
            settings["metrics"],
            settings["protocol"],
            settings["scores"],
        )
    return compare(recorded.metrics["scores"], found.scores)


def compare(
    recorded: Mapping[str, float | None], again: Mapping[str, float]
) -> list[Comparison]:
    """Every recorded score beside the one computed again."""
    return [
        Comparison(
            name, math.nan if value is None else value, again.get(name, math.nan)
        )
        for name, value in recorded.items()
    ]


def _be_quiet(text: str) -> None:
    """Drops a line that is meant for the user of a run."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the comparison; 1 if a score is off."""
    parser = argparse.ArgumentParser("python -m studies.verify", None, __doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--run", type=Path, required=True, help="folder of the run")
    parser.add_argument("--record", type=Path, help="default: the run's own")
    parser.add_argument("--weights", type=Path, help="default: the run's checkpoint")
    parser.add_argument("--tolerance", type=float, default=TOLERANCE)
    given = parser.parse_args(arguments)
    found = verify(given.run, given.record, given.weights)
    rows = [
        [c.score, f"{c.recorded:.6f}", f"{c.again:.6f}", f"{c.difference:.1e}"]
        for c in found
    ]
    print(format_table(["score", "recorded", "again", "difference"], rows))
    # Not "greater than": a score that is missing now is NaN.
    off = [c.score for c in found if not c.difference <= given.tolerance]
    print(f"Off by more than {given.tolerance:g}: {', '.join(off) or 'none'}.")
    return 1 if off else 0


if __name__ == "__main__":
    sys.exit(main())
