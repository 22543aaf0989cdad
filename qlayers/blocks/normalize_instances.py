"""Instance normalization and the affine map after it, as one function."""

from typing import Any

import numpy as np
from keras import ops

from qlayers.backend import Tensor, as_float32


def normalize_instances(
    x: Tensor, scale: Tensor, shift: Tensor, epsilon: float
) -> Tensor:
    """Standardizes each channel of each sample over space, then scales and shifts it.

        y = (x - mean) * scale / sqrt(variance + epsilon) + shift

    with the mean and the biased variance over all axes between the first and the last.
    Everything that does not depend on the position is folded into one factor and one
    summand, since passes over the map are what takes the time. All of it is float32.

    Args:
        x: Tensor `(batch, ..., channels)` with known spatial sizes. The batch may be
            1 where `scale` and `shift` have more samples; the result then has theirs.
        scale: Tensor `(batch or 1, channels)`.
        shift: Tensor `(batch or 1, channels)`.
        epsilon: Added to the variance.

    Returns:
        Float32 tensor `(batch, ..., channels)`.
    """
    spatial_shape, channels = tuple(x.shape[1:-1]), x.shape[-1]
    positions = int(np.prod(spatial_shape))
    x = ops.reshape(as_float32(x), (-1, positions, channels))
    # Not `ops.moments`: on TensorFlow it stops a gradient that first derivatives do not
    # need, and gives wrong second derivatives, which a gradient penalty takes.
    centered = x - ops.mean(x, axis=1, keepdims=True)
    variance = ops.mean(centered * centered, axis=1, keepdims=True)
    gain = ops.expand_dims(as_float32(scale), 1) * ops.rsqrt(variance + epsilon)
    y = centered * gain + ops.expand_dims(as_float32(shift), 1)
    return ops.reshape(y, (-1, *spatial_shape, channels))


def check_feature_map(owner: str, shape: Any) -> int:
    """Returns the number of channels of a `(batch, ..., channels)` feature map."""
    if len(shape) < 3 or any(size is None for size in shape[1:]):
        raise ValueError(
            f"{owner} normalizes over the axes between the first (batch) and the last "
            "(channels), whose sizes must be known. Received an input of shape "
            f"{tuple(shape)}."
        )
    return int(shape[-1])
