"""Stores the weights of a study's final runs in half precision, with their checksums.

    python -m studies.store_weights leaderboard [--output=runs/weights/leaderboard]

Each finished run `final-...` in `runs/studies/leaderboard` becomes a folder of the same
name that `models.load_pretrained` reads, some 0.6 MB. All of a study are too large for
the repository's history: they are for a release beside it. What is committed is the
list of their checksums, `studies/results/weights/leaderboard.json`, so that whoever has
a file can tell whether it is the one behind a record, and score it again:

    python -m studies.verify --run=studies/results/runs/leaderboard/final-...
        --weights=runs/weights/leaderboard/final-.../model.keras --tolerance=0.01

Runs that are stored already are passed over.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import models
from experiments.running.rescoring import load_trained
from experiments.running.setup import build_model, load_dataset
from experiments.storage.files import read_json, write_json
from experiments.storage.run_directory import RunDirectory
from models.latent_model import LatentModel
from studies.study import ROOT

_PREFIX = "final-"
_LISTED = ("bytes", "checksum", "precision")


def trained_model(run: Path) -> LatentModel:
    """The model of a finished run, with its chosen weights and without optimizers.

    Args:
        run: Folder of the run.
    """
    directory = RunDirectory(run)
    config = directory.load_config()
    trained = build_model(config, load_dataset(config))
    load_trained(directory, config, trained)
    model = models.build(**trained.get_config())
    for ours, theirs in zip(
        model.graph.variables, trained.graph.variables, strict=True
    ):
        ours.assign(theirs)
    return model


def store(study: Path, output: Path, listed: Path) -> dict[str, Any]:
    """Stores the final runs of a study and lists them.

    Args:
        study: Folder of the study's runs.
        output: Where the weights go.
        listed: The list of checksums; runs that are elsewhere now stay in it.

    Returns:
        Name -> size, checksum and precision.
    """
    found = read_json(listed) if listed.exists() else {}
    for run in sorted(study.glob(f"{_PREFIX}*")):
        is_stored = run.name in found and (output / run.name).is_dir()
        if is_stored or not RunDirectory(run).is_finished():
            continue
        facts = {"run": run.name, "study": study.name}
        card = models.save_pretrained(trained_model(run), output / run.name, facts)
        found[run.name] = {name: card[name] for name in _LISTED}
        listed.parent.mkdir(parents=True, exist_ok=True)
        write_json(listed, found)
        print(f"{run.name}: {card['bytes'] / 1e6:.2f} MB", flush=True)
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser("python -m studies.store_weights", None, __doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("study", help="name of its folder in runs/studies")
    parser.add_argument("--output", type=Path, help="default: runs/weights/STUDY")
    given = parser.parse_args(arguments)
    output = given.output or ROOT / "runs" / "weights" / given.study
    listed = ROOT / "studies" / "results" / "weights" / f"{given.study}.json"
    found = store(ROOT / "runs" / "studies" / given.study, output, listed)
    print(f"{len(found)} runs are listed in {listed}.")


if __name__ == "__main__":
    main()
