"""Checks of metric inputs: every message names the argument and what to do."""

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from qlayers.label_columns import as_numbers, check_complete, refuse_missing

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]


def check_latents(latents: Any, name: str = "latents") -> npt.NDArray[Any]:
    """Returns `latents` as a finite 2-D array, float64 or (for codes) int64."""
    array = _two_dimensional(latents, name)
    if array.dtype.kind in "iub":
        return array.astype(np.int64)
    try:
        floats = array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"`{name}` must hold numbers; received dtype {array.dtype}."
        ) from error
    _require_finite(floats, name)
    return floats


def is_table(values: Any) -> bool:
    """Whether `values` is a data frame: named columns, each of its own type."""
    return hasattr(values, "columns") and hasattr(values, "to_numpy")


def numbered_columns(table: Any) -> npt.NDArray[Any]:
    """A data frame as numbers: text and categories become 0, 1, 2, ... in order.

    Categories keep the order they have, other labels are sorted. Numbers stay what they
    are, whatever the type of their column.
    """
    columns = []
    for name in table.columns:
        column = table[name]
        values = np.asarray(column)
        check_complete(name, values)
        categories = getattr(column, "cat", None)
        numbers = as_numbers(values) if values.dtype.kind in "OUSMm" else values
        if categories is not None:
            numbers = np.asarray(categories.codes)
            refuse_missing(name, int(np.sum(numbers < 0)), len(numbers))
        elif numbers is None:
            numbers = np.unique(values.astype(str), return_inverse=True)[1].reshape(-1)
        columns.append(numbers)
    return np.stack(columns, axis=1) if columns else np.empty((len(table), 0))


def column_indices(
    columns: Sequence[int | str], table: Any, name: str
) -> tuple[int, ...]:
    """Positions of columns that are given by position or, of a data frame, by name."""
    known = [str(column) for column in table.columns] if is_table(table) else []
    found = []
    for column in columns:
        if not isinstance(column, str):
            found.append(int(column))
        elif column in known:
            found.append(known.index(column))
        else:
            listed = ", ".join(known) or "no names: pass a data frame, or positions"
            raise ValueError(
                f"`{name}` names the column {column!r}, but `sources` has {listed}."
            )
    return tuple(found)


def check_sources(sources: Any, name: str = "sources") -> IntArray:
    """Returns `sources` as int64; floats pass only if every value is whole."""
    array = _two_dimensional(sources, name)
    if array.dtype.kind in "iub":
        return array.astype(np.int64)
    if array.dtype.kind != "f":
        raise ValueError(
            f"`{name}` must hold integer class labels; received dtype {array.dtype}. "
            "Encode the labels as 0, 1, 2, ... first."
        )
    _require_finite(array, name)
    if np.any(array != np.round(array)):
        column = int(np.argmax(np.any(array != np.round(array), axis=0)))
        raise ValueError(
            f"`{name}` must hold integer class labels, but column {column} has "
            "fractions. Bin continuous sources into integers first, or use a score "
            "that takes them (`mcc`; `infomec`, `dci_es` and `sap` with "
            "`continuous_sources`)."
        )
    return array.astype(np.int64)


def check_real_sources(sources: Any, name: str = "sources") -> FloatArray:
    """Returns `sources` as finite float64; for scores that take any numbers."""
    return check_latents(sources, name).astype(np.float64)


def check_same_length(first: npt.NDArray[Any], second: npt.NDArray[Any]) -> None:
    """Raises unless `sources` and `latents` describe the same samples."""
    if len(first) != len(second):
        raise ValueError(
            "`sources` and `latents` must describe the same samples in the same "
            f"order; received {len(first)} rows of `sources` and {len(second)} rows "
            "of `latents`."
        )


def check_choice(value: Any, choices: Collection[Any], name: str) -> None:
    """Raises unless `value` is one of `choices`."""
    if value not in choices:
        listed = ", ".join(repr(choice) for choice in choices)
        raise ValueError(f"`{name}` must be one of {listed}; received {value!r}.")


def check_at_least(value: Any, minimum: int, name: str) -> int:
    """Returns `value` as an int; raises when it is no integer or below `minimum`."""
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not whole or value < minimum:
        raise ValueError(
            f"`{name}` must be an integer of at least {minimum}; received {value!r}."
        )
    return int(value)


def check_names(names: Sequence[str] | None, count: int, name: str) -> list[str]:
    """Returns `names`, or 0, 1, 2, ... when they were not given."""
    if names is None:
        return [str(index) for index in range(count)]
    if len(names) != count:
        raise ValueError(f"`{name}` needs {count} entries; received {len(names)}.")
    return list(names)


def _two_dimensional(values: Any, name: str) -> npt.NDArray[Any]:
    array = numbered_columns(values) if is_table(values) else np.asarray(values)
    if array.ndim != 2 or array.shape[1] == 0:
        raise ValueError(
            f"`{name}` must be an array of shape (samples, columns); received shape "
            f"{array.shape}."
        )
    if len(array) < 2:
        raise ValueError(
            f"`{name}` must hold at least 2 samples; received {len(array)}. Scores "
            "are statistics over samples: 10,000 is usual."
        )
    return array


def _require_finite(array: npt.NDArray[Any], name: str) -> None:
    finite = np.isfinite(array)
    if not finite.all():
        column = int(np.argmax(~finite.all(axis=0)))
        raise ValueError(
            f"`{name}` has {int(np.sum(~finite))} values that are NaN or infinite, "
            f"the first in column {column}. A model that diverged cannot be scored: "
            "drop these samples or fix the encoder."
        )
