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


def check_optional_count(name: str, value: Any) -> int | None:
    """Returns `value` as an int or None, or raises unless it is a count or None."""
    return None if value is None else check_count(name, value)


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


def check_axis(value: Any) -> int:
    """Returns the axis of the latents, or raises unless it is -1 or at least 1."""
    is_integer = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if not is_integer or not (value == -1 or value >= 1):
        raise ValueError(
            "`axis` must be -1, or the number of an axis after the batch's, such as 1 "
            f"for channels-first maps. Received: {value!r}."
        )
    return int(value)


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


def check_codes(
    owner: str, codes: Tensor, num_values: Sequence[int], allow_negative: bool = False
) -> None:
    """Raises unless `codes` are integers `(..., n)`; in eager mode also on their range.

    Args:
        owner: Who asks, for the message.
        codes: The codes, one for each latent.
        num_values: Number of codes of each latent.
        allow_negative: Whether negative numbers may stand for "no code".
    """
    if not hasattr(codes, "dtype"):
        codes = np.asarray(codes)
    if "int" not in str(codes.dtype):
        raise ValueError(
            f"{owner} expects codes, which are integers. Received dtype {codes.dtype}."
        )
    if len(codes.shape) == 0 or codes.shape[-1] != len(num_values):
        raise ValueError(
            f"{owner} expects codes of shape (..., {len(num_values)}). "
            f"Received shape {tuple(codes.shape)}."
        )
    if is_eager(codes):
        _check_range(owner, ops.convert_to_numpy(codes), num_values, allow_negative)


def _check_range(
    owner: str, codes: np.ndarray, num_values: Sequence[int], allow_negative: bool
) -> None:
    rows = codes.reshape(-1, len(num_values))
    is_bad = rows >= np.asarray(num_values)
    if not allow_negative:
        is_bad |= rows < 0
    if is_bad.any():
        row, latent = np.argwhere(is_bad)[0]
        raise ValueError(
            f"{owner} expects codes from 0 to {num_values[latent] - 1} for latent "
            f"{latent}. Received the code {rows[row, latent]}."
        )
