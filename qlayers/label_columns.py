"""What a column of labels holds: numbers or words, and how many are missing."""

from typing import Any

import numpy as np
import numpy.typing as npt


def as_numbers(column: npt.NDArray[Any]) -> npt.NDArray[np.float64] | None:
    """The column as numbers, or None if it holds a word.

    Example:

    ```python
    as_numbers(np.array([1, "2.5"], object))  # array([1. , 2.5])
    ```
    """
    if column.dtype.kind in "Mm":
        return None
    try:
        return column.astype(np.float64)
    except (TypeError, ValueError):
        return None


def check_complete(name: str, column: npt.NDArray[Any]) -> None:
    """Raises a ValueError if labels are missing: None, NaN, or what pandas has for it.

    As text they would be one more class.

    Args:
        name: Name of the column, for the message.
        column: Its labels.
    """
    if column.dtype.kind not in "OMm":
        return  # NaN among numbers is found by what checks numbers
    refuse_missing(name, sum(map(_is_missing, column.tolist())), len(column))


def refuse_missing(name: str, missing: int, count: int) -> None:
    """Raises a ValueError if any labels are missing.

    Args:
        name: Name of the column.
        missing: How many are missing.
        count: How many there should be.
    """
    if missing:
        raise ValueError(
            f"Factor {name!r} lacks {missing} of {count} labels. Fill them in or "
            "leave these samples out."
        )


def _is_missing(value: Any) -> bool:
    if value is None:
        return True
    try:
        return bool(value != value)  # NaN and NaT are not equal to themselves
    except (TypeError, ValueError):
        return True  # pandas' NA does not say
