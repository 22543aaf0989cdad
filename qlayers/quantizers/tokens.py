"""One integer for all codes of a position, and back."""

import math
from collections.abc import Sequence

import numpy as np
from keras import ops

from qlayers.backend import Tensor, is_eager
from qlayers.checks import check_codes

# Tokens are int32 on every backend.
_LARGEST_COUNT = 2**31


def to_token(codes: Tensor, num_values: Sequence[int]) -> Tensor:
    """The position of each combination of codes, int32 `(...)`; -1 where one is -1.

    Args:
        codes: Integers of shape `(..., n)`.
        num_values: Number of codes of each latent.
    """
    check_codes("to_token", codes, num_values, allow_negative=True)
    places = _places(num_values)
    codes = ops.cast(codes, "int32")
    token = ops.sum(ops.multiply(ops.maximum(codes, 0), places), axis=-1)
    is_code = ops.all(codes >= 0, axis=-1)
    return ops.where(is_code, token, ops.full_like(token, -1))


def from_token(tokens: Tensor, num_values: Sequence[int]) -> Tensor:
    """The codes behind tokens, int32 `(..., n)`; -1 where the token is negative.

    Args:
        tokens: Integers of any shape.
        num_values: Number of codes of each latent.
    """
    places = _places(num_values)
    if not hasattr(tokens, "dtype"):
        tokens = np.asarray(tokens)
    if "int" not in str(tokens.dtype):
        raise ValueError(f"Tokens are integers. Received dtype {tokens.dtype}.")
    if is_eager(tokens):
        _check_range(ops.convert_to_numpy(tokens), math.prod(num_values))
    tokens = ops.expand_dims(ops.cast(tokens, "int32"), -1)
    sizes = np.asarray(num_values, "int32")
    codes = ops.mod(ops.floor_divide(ops.maximum(tokens, 0), places), sizes)
    return ops.where(tokens >= 0, codes, ops.full_like(codes, -1))


def _check_range(tokens: np.ndarray, count: int) -> None:
    # As a Python integer: `count` need not have a place in the tokens' type.
    largest = int(tokens.max(initial=0))
    if largest >= count:
        raise ValueError(
            f"Tokens run from 0 to {count - 1}. Received the token {largest}."
        )


def _places(num_values: Sequence[int]) -> np.ndarray:
    count = math.prod(num_values)
    if count > _LARGEST_COUNT:
        raise ValueError(
            f"{len(num_values)} latents have {count} combinations of codes: more than "
            "the 2^31 that an int32 token can tell apart. Use `codes` instead."
        )
    places = np.cumprod([1, *num_values[:-1]], dtype="int64")
    return places.astype("int32")
