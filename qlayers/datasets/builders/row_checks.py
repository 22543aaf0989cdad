"""Checks of the arrays inside a published file."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from qlayers.datasets.factor_space import FactorSpace, IntArray
from qlayers.datasets.readers import DatasetFileError


class Rows(Protocol):
    """An array on disk: `NpzRows` or `Hdf5Rows`."""

    path: Path
    key: str
    shape: tuple[int, ...]
    dtype: np.dtype

    def __len__(self) -> int: ...


def check_rows(
    rows: Rows, row_shape: tuple[int, ...], space: FactorSpace, kind: type = np.uint8
) -> None:
    """Refuses an array with another shape or type than the published one.

    Args:
        rows: The array.
        row_shape: Expected shape of a row.
        space: The factors; there are no more rows than combinations.
        kind: Expected type, or an abstract type such as `np.integer`.
    """
    wrong = rows.shape[1:] != row_shape or not np.issubdtype(rows.dtype, kind)
    if wrong or not len(rows) or len(rows) > space.num_combinations:
        expected = ", ".join(["n", *map(str, row_shape)])
        raise DatasetFileError(
            rows.path,
            f"the array {rows.key!r} has shape {rows.shape} and dtype {rows.dtype}, "
            f"expected ({expected}) {kind.__name__} with n up to "
            f"{space.num_combinations}: this is another file.",
        )


def check_same_length(first: Rows, second: Rows) -> None:
    """Refuses labels of another length than the images."""
    if len(first) != len(second):
        raise DatasetFileError(
            first.path,
            f"{first.key!r} has {len(first)} rows but {second.key!r} has "
            f"{len(second)}; the two must agree.",
        )


def label_ranks(
    path: Path, labels: npt.NDArray[np.floating], values: Sequence[npt.NDArray]
) -> IntArray:
    """Turns factor values into value indices.

    Rounds to the nearest listed value; cutting off decimals would lose one wherever
    a number like 0.3 is stored a little too small.

    Args:
        path: The file, for messages.
        labels: (n, factors) values.
        values: The values that each factor takes, ascending.
    """
    ranks = np.empty(labels.shape, np.int64)
    for column, listed in enumerate(values):
        step = (listed[-1] - listed[0]) / max(len(listed) - 1, 1) or 1.0
        position = (labels[:, column] - listed[0]) / step
        rank = np.rint(position)
        bad = ~(np.abs(position - rank) < 1e-3) | (rank < 0) | (rank >= len(listed))
        if bad.any():
            raise DatasetFileError(
                path,
                f"column {column} of the labels holds "
                f"{labels[np.argmax(bad), column]}, which is none of the published "
                f"values {np.round(listed, 4).tolist()}: this is another file.",
            )
        ranks[:, column] = rank
    return ranks
