"""Means and confidence intervals of runs that differ in nothing but their seed."""

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from experiments.reporting.comparison import Comparison, compare_with_papers
from experiments.settings.config import RunConfig
from experiments.settings.scores import COLUMNS
from experiments.storage.run_directory import RunDirectory
from models import METHODS
from qlayers import datasets
from qlayers.files import DamagedFileError

# Runs that differ in these alone belong together: the seed, and where the settings come
# from.
_NO_SETTING = ("seed", "profile")
_MOST_DECIMALS = 6


@dataclass(frozen=True)
class FinishedRun:
    """A run with its scores.

    Attributes:
        path: Its folder.
        config: Its settings.
        metrics: The content of its `metrics.json`.
    """

    path: Path
    config: RunConfig
    metrics: dict[str, Any]

    @property
    def protocol(self) -> str:
        """The protocol that InfoMEC was taken with, by training or a later command."""
        settings = self.metrics.get("settings", {})
        return settings.get("protocol") or self.config.protocol

    @property
    def data(self) -> str | None:
        """Which own images were scored; None where the dataset's name says all."""
        return self.metrics.get("settings", {}).get("data")

    def training(self) -> dict[str, Any]:
        """What decides the model, but for the seed; hyperparameters by their names."""
        values = self.config.deciding()
        for name in _NO_SETTING:
            del values[name]
        hyperparameters = values.pop("hyperparameters")
        return {**values, **hyperparameters}

    def settings(self) -> dict[str, Any]:
        """What decides the scores, but for the seed."""
        values = {**self.training(), "protocol": self.protocol}
        return values if self.data is None else {**values, "data": self.data}


@dataclass(frozen=True)
class Interval:
    """A mean and its 95 % t-interval.

    Attributes:
        mean: Mean over runs.
        half_width: Half width of the interval; None for a single run.
        count: Number of runs.
    """

    mean: float
    half_width: float | None
    count: int

    def __str__(self) -> str:
        digits = _decimals(self.mean)
        text = f"{self.mean:.{digits}f}"
        if self.half_width is not None:
            text += f" ± {self.half_width:.{digits}f}"
        return text


def _decimals(mean: float) -> int:
    """Decimals of a mean: one of decibels, two of scores, more of small errors."""
    size = abs(mean)
    if size >= 10:
        return 1
    if not 0 < size < 0.01:
        return 2
    return min(1 - math.floor(math.log10(size)), _MOST_DECIMALS)


@dataclass(frozen=True)
class Group:
    """Runs that differ in their seed alone.

    Attributes:
        label: Method, and what distinguishes it from other groups of the method.
        runs: The runs, by seed, one of each.
        repeated: Further runs of these seeds, which are not counted: the same seed
            again is no new evidence.
        scores: Interval of each score.
        papers: What the papers print for the method and dataset, each with what keeps
            it apart.
    """

    label: str
    runs: tuple[FinishedRun, ...]
    scores: dict[str, Interval]
    papers: tuple[Comparison, ...]
    repeated: tuple[FinishedRun, ...] = ()

    @property
    def dataset(self) -> str:
        """Name of the dataset."""
        return self.runs[0].config.dataset


def passes_filter(metrics: dict[str, Any]) -> bool | None:
    """Whether a run passed the reconstruction filter; None if it had none.

    Args:
        metrics: Content of a run's `metrics.json`.

    Example:

    ```python
    passes_filter({"settings": {"psnr_threshold": None}})  # None
    ```
    """
    settings = metrics.get("settings", {})
    if settings.get("psnr_threshold") is None or settings.get("selection") == "last":
        return None
    return "value" in metrics["checkpoint"]


def find_runs(folders: Iterable[str | Path]) -> tuple[list[FinishedRun], list[Path]]:
    """Finished and unfinished runs in folders, however deep, each once.

    Args:
        folders: Folders of runs or of sweeps.
    """
    finished, unfinished = [], []
    seen: set[Path] = set()
    for root in folders:
        root = Path(root)
        if not root.is_dir():
            raise ValueError(f"There is no folder {root}.")
        for file in sorted(root.rglob("config.json")):
            place = file.parent.resolve()
            if place in seen:  # one folder lies in another, or is named twice
                continue
            seen.add(place)
            try:
                finished.append(load_run(file.parent))
            except (ValueError, OSError):  # not finished, damaged or just deleted
                unfinished.append(file.parent)
    return finished, unfinished


def why_unfinished(folder: Path) -> str:
    """Why a run has no scores: damaged, diverged, failed, or under way.

    Args:
        folder: Folder of the run.

    Example:

    ```python
    why_unfinished(Path("runs/qlae-0"))  # "running: 4 of 12 steps"
    ```
    """
    directory = RunDirectory(folder)
    try:
        config = directory.load_config()
        _check_names(config, directory)
        directory.load_metrics()
    except (ValueError, OSError) as error:
        return f"damaged: {error}"
    status = directory.load_status()
    reason = status.get("reason", status.get("state"))
    if reason in ("diverged", "failed", "timeout"):
        return str(reason)
    rows = directory.history.read()
    done = rows[-1]["step"] if rows else 0
    state = "stopped" if reason == "stopped" else "running"
    return f"{state}: {done} of {config.steps} steps"


def _check_names(config: RunConfig, directory: RunDirectory) -> None:
    if config.method not in METHODS or config.dataset not in datasets.names():
        raise DamagedFileError(
            directory.config_file,
            f"no method {config.method!r} or no dataset {config.dataset!r} is known",
        )


def load_run(folder: Path) -> FinishedRun:
    """The run in a folder, which must be finished."""
    directory = RunDirectory(folder)
    config = directory.load_config()
    _check_names(config, directory)
    metrics = directory.load_metrics()
    if metrics is None or metrics["trained_steps"] != config.steps:
        raise ValueError(f"The run in {folder} is not finished.")
    return FinishedRun(folder, config, metrics)


def interval(values: Sequence[float], level: float = 0.95) -> Interval:
    """Mean and t-interval of numbers; those that are not finite are left out."""
    from scipy import stats

    array = np.asarray([v for v in values if v is not None], float)
    array = array[np.isfinite(array)]
    if len(array) == 0:
        return Interval(float("nan"), None, 0)
    if len(array) == 1:
        return Interval(float(array[0]), None, 1)
    quantile = stats.t.ppf(0.5 + level / 2, len(array) - 1)
    half = float(quantile * array.std(ddof=1) / np.sqrt(len(array)))
    return Interval(float(array.mean()), half, len(array))


def group_runs(runs: Sequence[FinishedRun]) -> list[Group]:
    """Groups runs that differ in their seed alone."""
    groups: dict[str, list[FinishedRun]] = {}
    for run in runs:
        key = json.dumps(run.settings(), sort_keys=True)
        groups.setdefault(key, []).append(run)
    members = [
        tuple(sorted(group, key=lambda run: run.config.seed))
        for group in groups.values()
    ]
    made = [_make_group(group, members) for group in members]
    return sorted(made, key=lambda group: (group.dataset, group.label))


def _make_group(
    runs: tuple[FinishedRun, ...], groups: Sequence[tuple[FinishedRun, ...]]
) -> Group:
    first = {run.config.seed: run for run in reversed(runs)}
    counted = tuple(run for run in runs if run is first[run.config.seed])
    repeated = tuple(run for run in runs if run is not first[run.config.seed])
    config = runs[0].config
    others = [
        group[0]
        for group in groups
        if group is not runs
        and (group[0].config.method, group[0].config.dataset)
        == (config.method, config.dataset)
    ]
    found = [run.metrics["scores"] for run in counted]
    scores = {
        name: interval([row.get(name) for row in found])
        for name in COLUMNS
        if any(name in row for row in found)
    }
    papers = compare_with_papers(config, scores, {runs[0].protocol})
    label = _label(runs[0], others)
    return Group(label, counted, scores, tuple(papers), repeated)


def _label(run: FinishedRun, others: Sequence[FinishedRun]) -> str:
    """The method, with the settings in which other groups of it differ."""
    theirs = [other.settings() for other in others]
    differing = {
        name: value
        for name, value in run.settings().items()
        if any(other.get(name) != value for other in theirs)
    }
    details = ", ".join(f"{name}={value}" for name, value in differing.items())
    return f"{run.config.method} ({details})" if details else run.config.method


def table_rows(groups: Sequence[Group]) -> tuple[list[str], list[list[str]]]:
    """Headings and cells of the table; rows of papers with our settings follow ours."""
    used = [name for name in COLUMNS if any(name in group.scores for group in groups)]
    headings = ["dataset", "model", "runs", *(COLUMNS[name] for name in used)]
    rows = []
    for group in groups:
        cells = [str(group.scores.get(name, "")) for name in used]
        rows.append([group.dataset, group.label, str(len(group.runs)), *cells])
        for paper in group.papers:
            if paper.cells:
                printed = [str(paper.cells.get(name, "")) for name in used]
                seeds = "" if paper.seeds is None else str(paper.seeds)
                rows.append([paper.dataset, f"  {paper.source}", seeds, *printed])
    return headings, rows


def table_notes(groups: Sequence[Group]) -> list[str]:
    """What the table cannot say, a sentence each.

    How many runs passed their filter, scores that not all of them have, seeds that are
    there twice, and what keeps published numbers from standing beside runs.
    """
    notes = []
    for group in groups:
        found = [
            _filter_note(group),
            *_count_notes(group),
            *_continued_notes(group),
            *(paper.note() for paper in group.papers),
        ]
        name = f"{group.label} on {group.dataset}"
        notes += [f"{name}: {note}" for note in found if note is not None]
    return notes


def _count_notes(group: Group) -> list[str]:
    """Scores that some runs lack, and runs that are not counted."""
    notes = [
        f"{COLUMNS[name]} is that of {score.count} of {len(group.runs)} runs."
        for name, score in group.scores.items()
        if score.count < len(group.runs)
    ]
    for run in group.repeated:
        seed = run.config.seed
        notes.append(f"seed {seed} is there twice: {run.path} is not counted.")
    return notes


def _continued_notes(group: Group) -> list[str]:
    """Runs that went on with other code, threads or on another machine."""
    notes = []
    for run in group.runs:
        found = run.metrics.get("provenance", {})
        starts = found.get("continued", [])
        for start in (each for each in starts if isinstance(each, dict)):
            notes.append(
                f"seed {run.config.seed} went on from step {start.get('step')} with "
                f"code {start.get('code')}, {start.get('threads')} threads, "
                f"{start.get('processor')}."
            )
    return notes


def _filter_note(group: Group) -> str | None:
    judged = [run for run in group.runs if passes_filter(run.metrics) is not None]
    if not judged:
        return None
    passed = sum(bool(passes_filter(run.metrics)) for run in judged)
    threshold = judged[0].metrics["settings"]["psnr_threshold"]
    return f"{passed} of {len(judged)} runs passed the filter of {threshold:g} dB."


def format_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table with aligned columns."""
    lines = [list(headings), *map(list, rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(headings))]

    def joined(cells: Sequence[str]) -> str:
        padded = (cell.ljust(w) for cell, w in zip(cells, widths, strict=True))
        return "| " + " | ".join(padded) + " |"

    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return "\n".join([joined(headings), rule, *map(joined, rows)])
