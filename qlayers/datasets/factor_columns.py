"""Turns columns of words or numbers into factors."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from qlayers.datasets.factor_space import FactorSpace, IntArray
from qlayers.label_columns import as_numbers, check_complete

# A column of more different numbers than this is a measurement, not a list of cases.
MAX_VALUES = 64
NUM_BINS = 10


def code_columns(
    columns: Sequence[Sequence[Any]], names: Sequence[str]
) -> tuple[IntArray, FactorSpace]:
    """Value indices (n, factors) and the factors they belong to.

    Words are numbered in alphabetical order, numbers in ascending order. Numbers with
    more than 64 different values are cut into 10 bins of nearly equal counts.

    Args:
        columns: One sequence per factor, of words or of numbers.
        names: Names of the factors.

    Raises:
        ValueError: If labels are missing, if a column of numbers holds a word, or if
            words hardly repeat, as in a column of dates or identities: every latent
            seems to know something about such a factor.
    """
    ranks, values = [], []
    for name, column in zip(names, columns, strict=True):
        rank, labels = _code(name, np.asarray(column))
        ranks.append(rank)
        values.append(labels)
    sizes = tuple(len(labels) for labels in values)
    space = FactorSpace(tuple(names), sizes, tuple(values))
    return np.stack(ranks, axis=1).astype(np.int64), space


def _code(name: str, column: npt.NDArray[Any]) -> tuple[IntArray, tuple[str, ...]]:
    check_complete(name, column)
    numbers = as_numbers(column)
    if numbers is None:
        words, rank = np.unique(column.astype(str), return_inverse=True)
        _check_words(name, words, len(column))
        return rank, tuple(str(word) for word in words)
    if not np.all(np.isfinite(numbers)):
        raise ValueError(f"Factor {name!r} holds numbers that are not finite.")
    found, rank = np.unique(numbers, return_inverse=True)
    if len(found) <= MAX_VALUES:
        return rank, tuple(f"{value:.12g}" for value in found)
    edges = np.unique(np.quantile(numbers, np.arange(1, NUM_BINS) / NUM_BINS))
    bins = np.searchsorted(edges, numbers, side="right")
    kept, rank = np.unique(bins, return_inverse=True)
    limits = [
        (numbers[bins == number].min(), numbers[bins == number].max())
        for number in kept
    ]
    return rank, tuple(f"{low:.6g} to {high:.6g}" for low, high in limits)


def _check_words(name: str, words: npt.NDArray[np.str_], count: int) -> None:
    if len(words) <= MAX_VALUES:
        return
    others = [str(word) for word in words if as_numbers(np.asarray(word)) is None]
    if 2 * len(others) < len(words):
        shown = ", ".join(map(repr, others[:3]))
        raise ValueError(
            f"Factor {name!r} has {len(words) - len(others)} different numbers, and "
            f"{shown}: write a number there, or leave these images or the column out."
        )
    if 2 * len(words) > count:
        raise ValueError(
            f"Factor {name!r} has {len(words)} different words in {count} images: the "
            "values of a factor must repeat. Leave the column out."
        )
