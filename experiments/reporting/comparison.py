"""Published rows beside runs: like beside like, or what keeps them apart."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from experiments.settings.config import OPERATIONAL, RunConfig, resolve
from experiments.settings.published import (
    PAPERS,
    Cell,
    PublishedRow,
    profile_of,
    published_rows,
)
from experiments.settings.published.record import Variant
from qlayers import datasets

# Fields that do not change what a run is a measurement of, or are compared elsewhere.
_NOT_COMPARED = (
    "method",
    "seed",
    "profile",
    "metrics",
    "scores",
    "dci_resamples",
    "protocol",
    "log_every",
    "strategy",
    "jit",
    "deterministic",
    "hyperparameters",
    *OPERATIONAL,
)
# Options of a dataset that say where its files are.
_PLACES = ("manual_dir", "file")


@dataclass(frozen=True)
class SettingDifference:
    """A setting in which a run differs from a published row.

    Attributes:
        name: Name of the setting.
        run: Its value in the run.
        row: Its value in the row.
    """

    name: str
    run: Any
    row: Any

    def __str__(self) -> str:
        return f"{self.name} {_short(self.run)} (there {_short(self.row)})"


@dataclass(frozen=True)
class Comparison:
    """What one paper printed for the method and dataset of some runs.

    Attributes:
        paper: Short name of the paper.
        source: Authors, year and tables, for the reader.
        title: The model's name as printed.
        dataset: Name of the dataset in the paper.
        addresses: Rows that the cells are from.
        variant: Whether the runs follow the text or the authors' public code.
        cells: Numbers that may stand beside the runs, by score.
        differences: Settings that keep the whole row apart. Then there are no cells.
        left_out: Metrics that keep single cells apart, with the reason.
        seeds: Number of runs behind a cell, if known.
        statistic: What the cells are, over these runs.
    """

    paper: str
    source: str
    title: str
    dataset: str
    addresses: tuple[str, ...]
    variant: Variant
    cells: Mapping[str, Cell]
    differences: tuple[SettingDifference, ...]
    left_out: tuple[str, ...]
    seeds: int | None
    statistic: str

    @property
    def stands_beside(self) -> bool:
        """Whether the settings of the runs are those of the row."""
        return not self.differences

    def note(self) -> str | None:
        """What keeps cells apart, in a sentence; None if nothing does."""
        if self.differences:
            listed = "; ".join(map(str, self.differences))
            return f"{self.source}, {self.title}: other settings: {listed}."
        if self.left_out:
            return f"{self.source}, {self.title}: left out: {'; '.join(self.left_out)}."
        return None

    def to_dict(self) -> dict[str, Any]:
        """Plain types, for `report.json`."""
        return {
            "paper": self.paper,
            "source": self.source,
            "model": self.title,
            "dataset": self.dataset,
            "rows": list(self.addresses),
            "variant": self.variant,
            "statistic": self.statistic,
            "seeds": self.seeds,
            "cells": {name: vars(cell) for name, cell in self.cells.items()},
            "differences": [str(difference) for difference in self.differences],
            "left_out": list(self.left_out),
        }


@dataclass(frozen=True)
class _Candidate:
    row: PublishedRow
    variant: Variant
    differences: tuple[SettingDifference, ...]


def compare_with_papers(
    config: RunConfig, scores: Iterable[str], protocols: Iterable[str] = ()
) -> list[Comparison]:
    """What each paper printed for a run's method and dataset.

    Of each paper, the rows whose settings are the run's, or else the nearest row with
    the settings that differ.

    Args:
        config: Settings of the run.
        scores: Names of the scores that the run has.
        protocols: Protocols that InfoMEC was taken with; by default the config's.

    Example:

    ```python
    for found in compare_with_papers(config, metrics["scores"]):
        print(found.source, found.cells or found.note())
    ```
    """
    original = datasets.info(config.dataset).stands_for or config.dataset
    rows = [
        row
        for row in published_rows()
        if row.runs and row.cells
        if (row.method, row.dataset) == (config.method, original)
    ]
    taken = set(protocols) or {config.protocol}
    found = []
    for paper in dict.fromkeys(row.paper for row in rows):
        candidates = [
            _Candidate(row, variant, _differences(config, row, variant))
            for row in rows
            if row.paper == paper
            for variant in _variants(row)
        ]
        found.append(_comparison(_nearest(candidates), set(scores), taken))
    return found


def _variants(row: PublishedRow) -> tuple[Variant, ...]:
    return ("text", "code") if any(d.sets for d in row.code) else ("text",)


def _nearest(candidates: Sequence[_Candidate]) -> list[_Candidate]:
    """All candidates without a difference in one variant, or the one with fewest."""
    for variant in ("text", "code"):
        exact = [c for c in candidates if c.variant == variant and not c.differences]
        if exact:
            return exact
    return [min(candidates, key=lambda candidate: len(candidate.differences))]


def _comparison(
    chosen: Sequence[_Candidate], scores: set[str], protocols: set[str]
) -> Comparison:
    first = chosen[0]
    cells: dict[str, Cell] = {}
    left_out: dict[str, None] = {}
    if not first.differences:
        for candidate in chosen:
            for name, cell in candidate.row.cells.items():
                reason = _why_apart(name, candidate, scores, protocols)
                if reason is None:
                    cells[name] = _more_precise(cells.get(name), cell)
                else:
                    left_out[reason] = None
    row = first.row
    tables = dict.fromkeys(candidate.row.table for candidate in chosen)
    return Comparison(
        paper=row.paper,
        source=f"{PAPERS[row.paper].NAME} ({', '.join(map(_spelled, tables))})",
        title=row.title,
        dataset=row.dataset or "",
        addresses=tuple(candidate.row.address for candidate in chosen),
        variant=first.variant,
        cells=cells,
        differences=first.differences,
        left_out=tuple(left_out),
        seeds=row.seeds,
        statistic=row.statistic,
    )


def _spelled(table: str) -> str:
    """`"table 13"` for `"table13"`."""
    head = table.rstrip("0123456789.")
    return f"{head} {table[len(head) :]}"


def _more_precise(known: Cell | None, other: Cell) -> Cell:
    """Of two cells for one score, that with value and interval."""
    if known is None or known.value is None:
        return other
    if known.low is None and other.low is not None and other.value is not None:
        return other
    return known


def _why_apart(
    score: str, candidate: _Candidate, scores: set[str], protocols: set[str]
) -> str | None:
    metric = score.partition("/")[0]
    scoring = candidate.row.scoring_of(candidate.variant)
    if metric == "infomec" and protocols != {scoring.protocol}:
        return (
            f"InfoMEC by protocol {', '.join(sorted(protocols))} (there "
            f"{scoring.protocol})"
        )
    if score not in scores:
        estimator = scoring.estimators.get(metric, metric).partition(":")[0]
        return f"{metric} ({estimator}) is not among the scores of the runs"
    return None


def _differences(
    config: RunConfig, row: PublishedRow, variant: Variant
) -> tuple[SettingDifference, ...]:
    assert row.method is not None and row.dataset is not None
    wanted = resolve(row.method, row.dataset, profile_of(row.address, variant))
    mine, theirs = _compared(config), _compared(wanted)
    found = []
    for name in dict.fromkeys((*mine, *theirs)):
        run, published = mine.get(name), theirs.get(name)
        if run != published and run not in row.grid.get(name, ()):
            found.append(SettingDifference(name, run, published))
    return tuple(found)


def _compared(config: RunConfig) -> dict[str, Any]:
    """Settings that decide whether two runs measure the same thing."""
    values = config.to_dict()
    hyperparameters = values["hyperparameters"]
    kept = {k: v for k, v in values.items() if k not in _NOT_COMPARED}
    if config.select == "last":
        del kept["evaluate_every"]  # nothing is chosen by it
    for part in ("encoder", "decoder", "dataset"):
        for name, value in kept.pop(f"{part}_options").items():
            if name not in _PLACES:
                kept[f"{part}_option {name}"] = value
    return {**kept, **{k: v for k, v in hyperparameters.items() if v is not None}}


def _short(value: Any) -> str:
    if isinstance(value, Mapping) and "class_name" in value:
        return f"{value['class_name']}{value.get('config', '')}"
    if isinstance(value, float):
        return f"{value:g}"
    return "not set" if value is None else str(value)
