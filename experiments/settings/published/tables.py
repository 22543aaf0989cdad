"""Reads tables that are written as text, a row a line."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from experiments.settings.published.record import Cell, IntervalKind

INFOMEC = ("infomec/modularity", "infomec/explicitness", "infomec/compactness")
FOREST = ("dci/disentanglement", "dci/completeness", "dci/informativeness")
BOOSTED = tuple(name.replace("dci/", "dci_gradient_boosting/") for name in FOREST)

# How three of the papers estimate DCI.
BOOSTED_TREES = (
    "gradient_boosting: scikit-learn's defaults, 10,000 samples and 5,000 to test"
)
# Half samples behind its intervals. Trees of codes take a fifth of the time that those
# of real numbers take; four halves of the latter are two more fits.
RESAMPLES_OF_CODES = 8
RESAMPLES_OF_REALS = 4

NOT_PRINTED = "n.a."
_CELL = re.compile(
    r"^(?P<value>[\d.]+)?(?:±(?P<half>[\d.]+)|\[(?P<low>[\d.]+),(?P<high>[\d.]+)\])?$"
)


def parse_cell(text: str, kind: IntervalKind = "none", scale: float = 1.0) -> Cell:
    """A cell written as `0.9`, `0.9±0.1`, `9[8,11]` or `[8,11]`.

    Args:
        text: The cell.
        kind: What an interval is, if there is one.
        scale: Factor from the printed unit to that of the score.

    Example:

    ```python
    parse_cell("17.4[13.2,20.0]", "quartiles", 0.01).high  # 0.2
    ```
    """
    match = _CELL.match(text)
    if match is None or not text:
        raise ValueError(f"Expected a number with or without interval, got {text!r}.")

    def number(name: str) -> float | None:
        return None if match[name] is None else round(float(match[name]) * scale, 10)

    value, half, low, high = map(number, ("value", "half", "low", "high"))
    if half is not None and value is not None:
        low, high = round(value - half, 10), round(value + half, 10)
    return Cell(value, low, high, "none" if low is None else kind)


def parse_rows(
    text: str,
    scores: Sequence[Any],
    kind: IntervalKind = "none",
    scales: Sequence[float] | float = 1.0,
) -> Iterator[tuple[str, dict[Any, Cell]]]:
    """Names and cells of a table's lines; what is not printed is left out.

    Args:
        text: Lines of a name and one cell for each score.
        scores: Names of the columns.
        kind: What intervals are.
        scales: Factor from the printed unit to that of the score, for all columns or
            for each.
    """
    factors = [scales] * len(scores) if isinstance(scales, float) else list(scales)
    for line in text.strip().splitlines():
        name, *cells = line.split()
        if len(cells) != len(scores):
            raise ValueError(f"Expected {len(scores)} cells: {line!r}.")
        yield (
            name,
            {
                score: parse_cell(cell, kind, factor)
                for score, cell, factor in zip(scores, cells, factors, strict=True)
                if cell != NOT_PRINTED
            },
        )


def parse_blocks(
    text: str,
    columns: Sequence[str],
    scores: Sequence[str],
    kind: IntervalKind = "none",
    scales: Sequence[float] | float = 1.0,
) -> Iterator[tuple[str, str, dict[str, Cell]]]:
    """Name, column and cells of lines whose columns are groups of cells.

    Args:
        text: Lines of a name and, for each column, one cell for each score.
        columns: Names of the groups, such as datasets.
        scores: Names of the cells of a group.
        kind: What intervals are.
        scales: As in `parse_rows`, for the cells of a group.
    """
    places = [(column, score) for column in columns for score in scores]
    factors = scales if isinstance(scales, float) else [*scales] * len(columns)
    for name, cells in parse_rows(text, places, kind, factors):
        for column in columns:
            yield name, column, {score: cells[column, score] for score in scores}


def chosen_settings(
    choices: Mapping[str, Mapping[str, Sequence[Any]]],
    name: str,
    columns: Sequence[str],
    column: str,
) -> dict[str, Any]:
    """What the authors chose for a row on a dataset; empty if it is not published.

    Args:
        choices: Name of the row -> setting -> its value for each column, or None.
        name: Name of the row.
        columns: Names of the columns, such as datasets.
        column: One of them.
    """
    place = columns.index(column)
    found = {key: values[place] for key, values in choices.get(name, {}).items()}
    return {key: value for key, value in found.items() if value is not None}
