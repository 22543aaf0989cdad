"""Largest gap between the latents and the box that they span."""

import keras
from keras import ops

from qlayers.backend import Tensor, as_float32
from qlayers.masks import fill_masked, total_weight

# Keeps trim * count from falling below a whole number by rounding.
_ROUNDING = 1e-6


def independent_support(
    z: Tensor,
    num_samples: int = 10000,
    trim: float = 0.01,
    seed: "int | keras.random.SeedGenerator | None" = None,
    points: Tensor | None = None,
    weights: Tensor | None = None,
) -> Tensor:
    """Distance from the farthest point of the latents' box to the nearest sample.

    Each latent is rescaled to [0, 1] over the batch. Points are drawn uniformly from
    the box between the `(int(trim * samples) + 1)`-th smallest and largest value of
    each latent; the value is the `(int(trim * num_samples) + 1)`-th largest of their
    Euclidean distances to the nearest sample, a maximum that a few outliers do not
    decide. Gradients flow through the rescaling, the box and the nearest sample.

    Args:
        z: Latents of shape `(samples, n)`.
        num_samples: Number of points drawn.
        trim: Fraction of values left out at each end, and of the farthest points.
        seed: Integer or `keras.random.SeedGenerator`.
        points: Numbers in [0, 1), `(num_samples, n)`, to use instead of random ones.
        weights: Weights of the samples, `(samples,)`, 0 for those to leave out.
            Default: all alike.

    Returns:
        Scalar.

    Example:

    ```python
    loss += independent_support(z, seed=generator)
    ```

    Reference:
        Wang and Jordan 2021, Desiderata for Representation Learning: A Causal
        Perspective, section 4.
    """
    z = as_float32(ops.convert_to_tensor(z))
    if weights is not None:
        z = fill_masked(z, weights)
    unit = _to_unit_interval(z)
    count, n = ops.shape(unit)[0], unit.shape[-1]
    if points is None:
        points = keras.random.uniform((num_samples, n), dtype="float32", seed=seed)
    points = as_float32(ops.convert_to_tensor(points))
    keys = ops.stop_gradient(unit)
    if weights is not None:
        count = ops.cast(total_weight(z, weights), "int32")
        # Samples to leave out come after all others.
        keys = ops.where(ops.expand_dims(weights, -1) > 0, keys, 2.0)
    order = ops.argsort(keys, axis=0)
    ordered = ops.take_along_axis(unit, order, axis=0)
    rank = _trimmed(trim, count)
    lowest = ops.take(ordered, rank, axis=0)
    highest = ops.take(ordered, count - 1 - rank, axis=0)
    point, sample = _deciding_pair(unit, points, lowest, highest, trim)
    chosen = lowest + ops.take(points, point, axis=0) * (highest - lowest)
    return _length(chosen - ops.take(unit, sample, axis=0))


def _to_unit_interval(z: Tensor) -> Tensor:
    smallest = ops.min(z, axis=0)
    extent = ops.max(z, axis=0) - smallest
    return (z - smallest) / ops.where(extent > 0, extent, ops.ones_like(extent))


def _trimmed(trim: float, count: Tensor | int) -> Tensor | int:
    """How many of `count` values are left out."""
    if isinstance(count, int):
        return int(trim * count + _ROUNDING)
    return ops.cast(ops.cast(count, "float32") * trim + _ROUNDING, "int32")


def _deciding_pair(
    unit: Tensor, points: Tensor, lowest: Tensor, highest: Tensor, trim: float
) -> tuple[Tensor, Tensor]:
    """Index of the point whose distance is the value, and of its nearest sample.

    No gradient is recorded for the search, which compares every point and sample.
    """
    unit = ops.stop_gradient(unit)
    placed = ops.stop_gradient(lowest + points * (highest - lowest))
    # |p - z|^2 less |p|^2, which is the same for every sample.
    half_norm = 0.5 * ops.sum(ops.square(unit), axis=-1)
    closeness = ops.matmul(placed, ops.transpose(unit)) - half_norm
    gap = 0.5 * ops.sum(ops.square(placed), axis=-1) - ops.max(closeness, axis=-1)
    rank = _trimmed(trim, points.shape[0])
    point = ops.argsort(-gap)[rank]
    # Of one point alone: an argmax costs several times a maximum.
    return point, ops.argmax(ops.take(closeness, point, axis=0))


def _length(vector: Tensor) -> Tensor:
    """Euclidean norm whose gradient at 0 is 0."""
    square = ops.sum(ops.square(vector))
    is_zero = square <= 0
    root = ops.sqrt(ops.where(is_zero, ops.ones_like(square), square))
    return ops.where(is_zero, ops.zeros_like(square), root)
