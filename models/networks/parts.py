"""Stock Keras layers called with the papers' initializers."""

from typing import Any

import keras

from models.networks.initializers import Initializers


def dense(
    x: Any, units: int, initializers: Initializers, *, name: str, **kwargs: Any
) -> Any:
    """A fully connected layer on a vector."""
    kernel, bias = initializers(x.shape[-1])
    return keras.layers.Dense(
        units,
        kernel_initializer=kernel,
        bias_initializer=bias,
        name=name,
        **kwargs,
    )(x)


def convolution(
    x: Any,
    filters: int,
    kernel_size: int,
    initializers: Initializers,
    *,
    name: str,
    **kwargs: Any,
) -> Any:
    """A convolution that keeps the size, or divides it by `strides`.

    With an even kernel and stride 2 on an even size, "same" pads one pixel on every
    side, as the papers do.
    """
    kernel, bias = initializers(x.shape[-1] * kernel_size**2)
    return keras.layers.Conv2D(
        filters,
        kernel_size,
        kernel_initializer=kernel,
        bias_initializer=bias,
        name=name,
        **{"padding": "same", **kwargs},
    )(x)


def up_convolution(
    x: Any, filters: int, initializers: Initializers, *, name: str, **kwargs: Any
) -> Any:
    """A transposed convolution, 4x4 with stride 2, that doubles the size."""
    kernel, bias = initializers(x.shape[-1] * 16)
    return keras.layers.Conv2DTranspose(
        filters,
        4,
        strides=2,
        padding="same",
        kernel_initializer=kernel,
        bias_initializer=bias,
        name=name,
        **kwargs,
    )(x)
