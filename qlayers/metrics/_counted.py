"""Features of few values as histogram bins."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from qlayers.metrics._checks import IntArray

# More values than this cost more to look through than sorted samples.
_MOST_VALUES = 512
# Cells of a joint histogram that stay in the fastest cache.
_MOST_CELLS = 256
# Constant features add no cell, but a joint histogram has a dimension for each, and
# NumPy has 32 (64 from version 2 on).
_MOST_TOGETHER = 32
# What 16 bits can number: values of all features, and cells of all groups.
_MOST_NUMBERS = 2**16
_CLOSE = np.float32(1e-7)


@dataclass(frozen=True)
class CountedFeatures:
    """Bins of every feature, and the joint cells of groups of features.

    Attributes:
        bins: (features, samples) index of each value among the feature's.
        cells: (samples, groups) cell of each sample in its group's joint histogram;
            cells of all groups are numbered one after another.
        spans: (features, 2) first and last cell of the feature's group.
        bin_of_cell: (features, cells) the feature's bin in each cell of its group.
        values: (features, bins) in ascending order.
    """

    bins: npt.NDArray[np.uint16]
    cells: npt.NDArray[np.uint16]
    spans: IntArray
    bin_of_cell: npt.NDArray[np.uint16]
    values: npt.NDArray[np.float32]

    @classmethod
    def of(cls, columns: npt.NDArray[np.float32]) -> "CountedFeatures | None":
        """Counts (features, samples); None if the features have too many values."""
        found = []
        for column in columns:
            distinct, index = np.unique(column, return_inverse=True)
            close = (distinct[1:] <= distinct[:-1] + _CLOSE).any()
            if close or len(distinct) > min(_MOST_VALUES, max(2, len(column) // 4)):
                return None
            found.append((distinct, index.reshape(-1)))
        sizes = [len(distinct) for distinct, _ in found]
        bins = np.stack([index for _, index in found])
        if sum(sizes) > _MOST_NUMBERS:
            return None
        values = np.zeros((len(columns), max(sizes)), np.float32)
        for row, (distinct, _) in zip(values, found, strict=True):
            row[: len(distinct)] = distinct
        return cls(bins.astype(np.uint16), *_cells(bins, sizes), values)

    def arrays(self) -> tuple[Any, ...]:
        """What the loops take, in their order."""
        return self.bins, self.cells, self.spans, self.bin_of_cell, self.values


def _groups(sizes: list[int]) -> list[list[int]]:
    """Neighbouring features while their joint histogram stays small.

    Joint histograms of many features together have more cells than can be numbered:
    their groups are smaller, and in the end one feature each.
    """
    most = _MOST_CELLS
    groups = _groups_up_to(most, sizes)
    while sum(_num_cells(group, sizes) for group in groups) > _MOST_NUMBERS:
        most //= 2
        groups = _groups_up_to(most, sizes)
    return groups


def _groups_up_to(most: int, sizes: list[int]) -> list[list[int]]:
    groups: list[list[int]] = []
    product = most + 1
    for feature, size in enumerate(sizes):
        if product * size > most or len(groups[-1]) == _MOST_TOGETHER:
            groups.append([])
            product = 1
        groups[-1].append(feature)
        product *= size
    return groups


def _num_cells(group: list[int], sizes: list[int]) -> int:
    return math.prod(sizes[feature] for feature in group)


def _cells(
    bins: IntArray, sizes: list[int]
) -> tuple[npt.NDArray[np.uint16], IntArray, npt.NDArray[np.uint16]]:
    groups = _groups(sizes)
    shapes = [tuple(sizes[feature] for feature in group) for group in groups]
    spans = np.zeros((len(sizes), 2), np.int64)
    widest = max(int(np.prod(shape)) for shape in shapes)
    bin_of_cell = np.zeros((len(sizes), widest), np.uint16)
    cells, first = [], 0
    for group, shape in zip(groups, shapes, strict=True):
        size = int(np.prod(shape))
        cells.append(first + np.ravel_multi_index(tuple(bins[group]), shape))
        spans[group] = first, first + size
        bin_of_cell[group, :size] = np.unravel_index(np.arange(size), shape)
        first += size
    return np.stack(cells, axis=1).astype(np.uint16), spans, bin_of_cell
