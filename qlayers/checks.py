"""Argument checks. Each says what was received and what was expected."""

import math
import numbers
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from keras import ops

from qlayers.backend import Tensor, is_eager


def check_count(name: str, value: Any, minimum: int = 1) -> int:
    """Returns `value` as an int, or raises unless it is an integer >= `minimum`."""
    is_integer = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if not is_integer or value < minimum:
        raise ValueError(
            f"`{name}` must be an integer of at least {minimum}. Received: {value!r}."
        )
    return int(value)


def check_number(
    name: str, value: Any, minimum: float = 0.0, exclusive: bool = False
) -> float:
    """Returns `value` as a float, or raises unless it is finite and large enough."""
    is_real = isinstance(value, numbers.Real) and not isinstance(value, bool)
    too_small = is_real and (value <= minimum if exclusive else value < minimum)
    if not is_real or not math.isfinite(value) or too_small:
        bound = "greater than" if exclusive else "of at least"
        raise ValueError(
            f"`{name}` must be a finite number {bound} {minimum:g}. "
            f"Received: {value!r}."
        )
    return float(value)


def check_choice(name: str, value: Any, choices: Collection[Any]) -> Any:
    """Returns `value`, or raises unless it is one of `choices`."""
    if value not in choices:
        listed = ", ".join(repr(choice) for choice in choices)
        raise ValueError(f"`{name}` must be one of {listed}. Received: {value!r}.")
    return value


def check_last_axis(owner: str, shape: Sequence[int | None], multiple_of: int) -> int:
    """Returns the size of the last axis, which must be known and divisible."""
    if len(shape) == 0 or shape[-1] is None:
        raise ValueError(
            f"{owner} needs an input whose last axis has a known size. "
            f"Received an input of shape {tuple(shape)}."
        )
    size = int(shape[-1])
    if size < 1 or size % multiple_of:
        raise ValueError(
            f"{owner} needs an input whose last axis is a positive multiple of "
            f"{multiple_of}. Received an input of shape {tuple(shape)}."
        )
    return size


def check_no_nan(owner: str, x: Tensor) -> None:
    """Raises in eager mode if `x` holds a NaN; inside a graph this does nothing."""
    if is_eager(x) and bool(ops.any(ops.isnan(x))):
        raise ValueError(
            f"{owner} received NaN. No code is nearest to NaN: look for a diverging "
            "loss or a division by zero in the layers before it."
        )


def check_codes(owner: str, codes: Tensor, num_values: Any) -> None:
    """Raises in eager mode unless every code is an index below `num_values`.

    Args:
        owner: Who asks, for the message.
        codes: Integers of shape `(..., n)`.
        num_values: One count, or a sequence of one count per latent.
    """
    dtype = (
        ops.dtype(codes) if hasattr(codes, "dtype") else str(np.asarray(codes).dtype)
    )
    if "int" not in str(dtype):
        raise ValueError(
            f"{owner} looks codes up by integer index. Received dtype {dtype}."
        )
    if not is_eager(codes):
        return
    values = ops.convert_to_numpy(codes)
    if values.size and (values.min() < 0 or np.any(values >= np.asarray(num_values))):
        raise ValueError(
            f"{owner} expects codes from 0 to {np.max(num_values) - 1}. "
            f"Received codes from {values.min()} to {values.max()}."
        )
