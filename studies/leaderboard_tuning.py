"""How the key weight of each row of the leaderboard is chosen."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments.reporting.summary import FinishedRun
from experiments.storage.files import read_json
from experiments.sweeps.plan import Trial
from studies.leaderboard_entries import SHORT_ENTRIES, Entry
from studies.leaderboard_plan import plan_entry, settings_of
from studies.study import Study

TUNING_STEPS = 1_500
TUNING_BATCH_SHARE = 0.5
TUNING_PSNR = 18.0  # in dB; candidates below it are chosen by PSNR
TUNING_SEED = 100


def choose(
    entry: Entry, runs: Mapping[float, FinishedRun], tuning_psnr: float = TUNING_PSNR
) -> float:
    """The candidate whose tuning run is best, see the module's text.

    Args:
        entry: The row.
        runs: Tuning run of each candidate.
        tuning_psnr: In dB; candidates below it are chosen by PSNR.
    """
    found = {value: run.metrics["scores"] for value, run in runs.items()}
    quality = {v: s.get("psnr/psnr", float("-inf")) for v, s in found.items()}
    modularity = {v: s["infomec/modularity"] for v, s in found.items()}
    if entry.is_adversarial:
        return max(modularity, key=modularity.__getitem__)
    passing = [value for value in found if quality[value] >= tuning_psnr]
    if passing:
        return max(passing, key=modularity.__getitem__)
    return max(quality, key=quality.__getitem__)


def recorded_choices(path: Path, entries: Sequence[Entry]) -> dict[str, Any]:
    """What the record of regime `short` chose for rows that differ in their name alone.

    A row with other fixed or shared weights was not tried there.

    Args:
        path: The record.
        entries: The rows.
    """
    if not path.exists():
        return {}
    found = read_json(path)["findings"]["tuning"]
    chosen = {}
    for entry in entries:
        for tried in SHORT_ENTRIES:
            is_same = dataclasses.replace(tried, label=entry.label) == entry
            if is_same and _was_tried(tried, found):
                chosen[entry.label] = {**found[tried.label], "record": path.stem}
    return chosen


def _was_tried(entry: Entry, found: Mapping[str, Any]) -> bool:
    """Whether the record has these very candidates."""
    row = found.get(entry.label, {"key": None, "candidates": []})
    values = [candidate["value"] for candidate in row["candidates"]]
    return (row["key"], values) == (entry.key, list(entry.candidates))


def tune(
    study: Study, entries: Sequence[Entry], found: dict[str, Any]
) -> list[FinishedRun]:
    """Runs the candidates of all rows (two with `--quick`) and chooses.

    Rows that share another's weight come after it.

    Args:
        study: The study.
        entries: The rows.
        found: Chosen value and all scores by label; rows that are not in it are added.

    Returns:
        The tuning runs.
    """
    runs: list[FinishedRun] = []
    left = [e for e in entries if e.candidates and e.label not in found]
    for shares in (False, True):
        some = [e for e in left if (e.shares is not None) == shares]
        runs += _tune(study, some, found)
    return runs


def tuning_trials(
    study: Study, entry: Entry, found: Mapping[str, Any]
) -> dict[float, Trial]:
    """The run of each candidate of a row.

    Args:
        study: The study.
        entry: The row.
        found: What was chosen for the rows before it.
    """
    settings = settings_of(
        entry,
        1 if study.quick else TUNING_STEPS,
        TUNING_BATCH_SHARE,
        study.options.select,
        study.quick,
    )
    shared = shared_weight(entry, found)
    return {
        value: plan_entry(entry, [TUNING_SEED], settings, value, "tune", shared)[0]
        for value in entry.candidates[: 2 if study.quick else None]
    }


def is_tuned(study: Study, entry: Entry, found: Mapping[str, Any]) -> bool:
    """Whether no run is left to choose a row's weight."""
    if entry.label in found or not entry.candidates:
        return True
    trials = list(tuning_trials(study, entry, found).values())
    return study.finished({entry.label: trials}) == {entry.label: trials}


def _tune(
    study: Study, entries: Sequence[Entry], found: dict[str, Any]
) -> list[FinishedRun]:
    planned = {
        (entry.label, value): trial
        for entry in entries
        for value, trial in tuning_trials(study, entry, found).items()
    }
    runs = study.run(list(planned.values()))
    finished = {run.path.name: run for run in runs}
    for entry in entries:
        tried = {
            value: finished[trial.name]
            for (label, value), trial in planned.items()
            if label == entry.label and trial.name in finished
        }
        if not tried:
            raise RuntimeError(f"All candidates of {entry.label} diverged.")
        found[entry.label] = {
            "key": entry.key,
            "chosen": choose(entry, tried),
            "seed": TUNING_SEED,
            "candidates": [
                {
                    "value": value,
                    "infomec/modularity": run.metrics["scores"]["infomec/modularity"],
                    "psnr/psnr": run.metrics["scores"].get("psnr/psnr"),
                }
                for value, run in tried.items()
            ],
        }
    return runs


def shared_weight(entry: Entry, tuned: Mapping[str, Any]) -> dict[str, Any]:
    """The weight of another row that this one has too."""
    if entry.shares is None or entry.shares not in tuned:
        return {}
    return {tuned[entry.shares]["key"]: tuned[entry.shares]["chosen"]}
