"""Scores of runs that differ in their seed: intervals, differences and tables."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from experiments.reporting.summary import (
    FinishedRun,
    Interval,
    format_table,
    interval,
)
from experiments.storage.run_directory import RunDirectory
from studies.trials import read_spent

LEVEL = 0.95


def summarise(
    label: str,
    runs: Sequence[FinishedRun],
    further: Sequence[Mapping[str, float]] | None = None,
) -> dict[str, Any]:
    """Scores of runs that differ in their seed, with means and 95 % t-intervals.

    Args:
        label: Name of the group.
        runs: Its runs.
        further: More scores of each run, by name.

    Example:

    ```python
    group = summarise("Cliff", runs)
    group["scores"]["mcc/mcc"]["mean"], group["scores"]["mcc/mcc"]["half_width"]
    ```
    """
    further = further or [{} for _ in runs]
    rows: list[dict[str, Any]] = [
        {
            "seed": run.config.seed,
            "scores": {**run.metrics["scores"], **more},
            "processor": ", then ".join(_seen(run, "processor")) or None,
            **read_spent(run.path),
        }
        for run, more in zip(runs, further, strict=True)
    ]
    names = sorted({name for row in rows for name in row["scores"]})
    config = runs[0].config.to_dict()
    for name in ("seed", "data_dir"):  # no result depends on where data lie
        config.pop(name)
    return {
        "label": label,
        "config": config,
        "runs": rows,
        "scores": {n: spread([row["scores"].get(n) for row in rows]) for n in names},
        "notes": _notes(runs),
        "code": sorted({version for run in runs for version in _versions(run)}),
    }


def _seen(run: FinishedRun, name: str) -> list[str]:
    return RunDirectory(run.path).conditions_seen(name)


def _versions(run: FinishedRun) -> set[str]:
    """Versions of the code that trained a run and that scored it."""
    return {*_seen(run, "code"), str(run.metrics["provenance"]["code"])}


def _notes(runs: Sequence[FinishedRun]) -> dict[str, str]:
    """What InfoMEC says of the scores of runs; of notes alike, the largest figures."""
    found = {
        re.sub(r"\d[\d.]*", "#", note): note
        for note in sorted(
            note
            for run in runs
            for note in run.metrics.get("results", {})
            .get("infomec", {})
            .get("notes", [])
        )
    }
    return {"infomec": "; ".join(found.values())} if found else {}


def spread(values: Sequence[float | None]) -> dict[str, Any]:
    """Mean, half width of the 95 % t-interval, standard error and number of values.

    Values that are None or not finite are left out.
    """
    found = interval([v for v in values if v is not None], LEVEL)
    kept = np.asarray([v for v in values if v is not None], float)
    kept = kept[np.isfinite(kept)]
    error = float(kept.std(ddof=1) / len(kept) ** 0.5) if len(kept) > 1 else None
    return {
        "mean": found.mean,
        "half_width": found.half_width,
        "standard_error": error,
        "count": found.count,
    }


def as_text(value: Mapping[str, Any]) -> str:
    """`mean ± half width` of what `spread` returned."""
    return str(Interval(value["mean"], value["half_width"], value["count"]))


def signed(difference: float, half_width: float | None) -> str:
    """A difference with its sign; one seed has a difference but no interval.

    Args:
        difference: The mean.
        half_width: Of its interval, or None.

    Example:

    ```python
    signed(0.1, 0.04)  # "+0.10 ± 0.04"
    ```
    """
    return f"{difference:+.2f}" + (f" ± {half_width:.2f}" if half_width else "")


def score_table(
    groups: Sequence[Mapping[str, Any]],
    columns: Mapping[str, str],
    further: Mapping[str, Callable[[Mapping[str, Any]], str]] | None = None,
) -> str:
    """A row for each group: means with 95 % t-intervals of its seeds.

    Args:
        groups: Groups of runs as `summarise` makes them.
        columns: Headings by score.
        further: What else a row shows, by heading.
    """
    further = further or {}
    rows = []
    for group in groups:
        values = [group["scores"].get(name) for name in columns]
        cells = [as_text(value) if value else "" for value in values]
        cells += [text(group) for text in further.values()]
        rows.append([group["label"], str(len(group["runs"])), *cells])
    return format_table(["method", "runs", *columns.values(), *further], rows)


def paired_difference(
    first: Mapping[str, Any], second: Mapping[str, Any], score: str
) -> dict[str, Any]:
    """`spread` of first minus second over the seeds whose runs both have the score."""
    ours, theirs = (
        {
            row["seed"]: row["scores"][score]
            for row in group["runs"]
            if row["scores"].get(score) is not None
        }
        for group in (first, second)
    )
    both = sorted(set(ours) & set(theirs))
    if not both:
        raise ValueError("Only runs of the same seeds can be paired.")
    return spread([ours[seed] - theirs[seed] for seed in both])
