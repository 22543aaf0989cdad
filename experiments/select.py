"""Ranks trained runs without labels: by straight-through gap, or by agreement (UDR).

    python -m experiments.select --workdir=runs/sweep
    python -m experiments.select --workdir=runs/sweep --by=udr --similarity=lasso

Prints the runs of each dataset in order, and how each criterion's ranks agree with
those of every score that the runs have. A useful gap correlates negatively with
disentanglement, a useful UDR positively. `--by=labels` takes the supervised loss on
labels that runs kept for validation (`--label_validation`). Writes `select.md` and
`select.json`.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from absl import flags

from experiments.settings.command_line import launch

if TYPE_CHECKING:
    from experiments.reporting.summary import FinishedRun

FLAGS = flags.FLAGS
flags.DEFINE_list("workdir", None, "Folders of runs or sweeps.", required=True)
flags.DEFINE_enum("by", "gap", ["gap", "udr", "labels"], "Criterion of the order.")
flags.DEFINE_bool(
    "udr", True, "Whether to compute UDR, which encodes images with every model."
)
flags.DEFINE_integer("udr_images", 1_000, "Images of UDR.", lower_bound=10)
flags.DEFINE_enum(
    "similarity", "spearman", ["spearman", "lasso"], "UDR: rank correlation or Lasso."
)
flags.DEFINE_string("output", None, "Folder to write to. Default: the first workdir.")


def main(arguments: Sequence[str]) -> int | None:
    from experiments.reporting.ranking import (
        CRITERIA,
        rank_runs,
        ranking_text,
        trained_runs,
    )
    from experiments.reporting.summary import find_runs, group_runs
    from experiments.storage.files import write_json
    from qlayers.files import write_text

    finished, unfinished = find_runs(FLAGS.workdir)
    trained, untrained = trained_runs(finished)
    groups = group_runs(trained)
    runs = [run for group in groups for run in group.runs]
    if not runs:
        raise ValueError(f"There is no finished run in {', '.join(FLAGS.workdir)}.")
    if FLAGS.by == "udr" and not FLAGS.udr:
        raise ValueError("--by=udr needs --udr.")
    udr = _agreement(runs) if FLAGS.udr else {}
    rankings = rank_runs(runs, udr, CRITERIA[FLAGS.by])
    texts = [ranking_text(ranking) for ranking in rankings]
    print("\n".join(texts))
    for path in unfinished:
        print(f"Not finished, left out: {path}")
    for run in (run for group in groups for run in group.repeated):
        print(f"The same settings and seed again, left out: {run.path}")
    for run in untrained:
        print(f"Reports step 0, which was never trained, left out: {run.path}")
    for ranking in rankings:
        best = "none has one" if ranking.best is None else ranking.best.path
        print(f"Best by {FLAGS.by} on {ranking.dataset} ({ranking.loss}): {best}")
    folder = Path(FLAGS.output or FLAGS.workdir[0])
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / "select.md", "\n".join(texts))
    write_json(folder / "select.json", [ranking.to_dict() for ranking in rankings])
    print(f"Written: {folder / 'select.md'}, select.json.")
    return None


def _agreement(runs: "Sequence[FinishedRun]") -> dict[Path, float]:
    """UDR of every run that has others of the same settings."""
    from experiments.running.agreement import run_agreement

    # Whatever they were scored by, later on: UDR looks at the models.
    groups: dict[str, dict[int, FinishedRun]] = {}
    for run in runs:
        key = json.dumps(run.training(), sort_keys=True)
        groups.setdefault(key, {}).setdefault(run.config.seed, run)
    found: dict[Path, float] = {}
    for by_seed in groups.values():
        folders = [run.path for run in by_seed.values()]
        if len(folders) < 2:
            print(f"No UDR of {folders[0]}: it needs runs that differ in their seed.")
            continue
        try:
            found |= run_agreement(
                folders,
                num_images=FLAGS.udr_images,
                similarity=FLAGS.similarity,
                report=lambda text: print(text, flush=True),
            )
        except ValueError as error:
            print(f"No UDR of {', '.join(map(str, folders))}: {error}")
    return found


if __name__ == "__main__":
    launch(main)
