"""Initializers of the papers' public codes.

Each function takes the fan-in (inputs of a unit: input channels times kernel area, for
transposed convolutions too) and returns the initializers of kernel and bias. Keras's
own variance scaling takes the fan-in of a transposed convolution from the wrong axis.
"""

from collections.abc import Callable
from typing import Any

import keras

Initializers = Callable[[int], tuple[Any, Any]]


def uniform_by_fan_in(fan_in: int) -> tuple[Any, Any]:
    """U(-1/sqrt(fan_in), 1/sqrt(fan_in)) for both: Equinox and PyTorch defaults."""
    limit = fan_in**-0.5
    return (
        keras.initializers.RandomUniform(-limit, limit),
        keras.initializers.RandomUniform(-limit, limit),
    )


def truncated_normal_by_fan_in(fan_in: int) -> tuple[Any, Any]:
    """Normal of deviation 1/sqrt(fan_in) cut at two deviations, zero bias: Haiku."""
    return keras.initializers.TruncatedNormal(stddev=fan_in**-0.5), "zeros"


def normal_002(fan_in: int) -> tuple[Any, Any]:
    """Normal of deviation 0.02 and zero bias: FactorQVAE's choice for every layer."""
    del fan_in
    return keras.initializers.RandomNormal(stddev=0.02), "zeros"


def truncated_normal_by_shape() -> keras.initializers.Initializer:
    """As `truncated_normal_by_fan_in`, for kernels of dense layers of any size."""
    # Keras makes up for the deviation that the cut takes, 0.8796; Haiku does not.
    return keras.initializers.VarianceScaling(0.87962566103423978**2, mode="fan_in")
