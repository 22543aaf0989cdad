"""Keras masks as weights of samples: shapes stay fixed, so that XLA can compile."""

import keras
from keras import ops

from qlayers.backend import Tensor, as_float32, num_replicas, sum_over_replicas

# Its exponential is 0 beside that of any real logarithm.
_LOG_OF_ZERO = -1e30


def weights_of_mask(
    owner: str, mask: Tensor | None, x: Tensor, last_axes: int = 1
) -> Tensor | None:
    """float32 weights, 1 or 0, of the leading shape of `x`; None without a mask.

    Args:
        owner: Who asks, for the message.
        mask: Boolean mask of some leading axes of `x`, or None.
        x: Inputs of shape `(..., n)`.
        last_axes: Number of last axes that belong to one sample.
    """
    if mask is None:
        return None
    num_axes = len(x.shape) - last_axes
    if len(mask.shape) > num_axes:
        raise ValueError(
            f"{owner} takes a mask of the leading axes of its input, at most "
            f"{num_axes} of them. Received a mask of shape {tuple(mask.shape)} for an "
            f"input of shape {tuple(x.shape)}."
        )
    weights = as_float32(mask)
    for _ in range(num_axes - len(mask.shape)):
        weights = ops.expand_dims(weights, -1)
    return ops.broadcast_to(weights, ops.shape(x)[:num_axes])


def fill_masked(x: Tensor, weights: Tensor) -> Tensor:
    """Samples with those of weight 0 replaced by the first of the others.

    What stands in padding, NaN included, is gone, and the set of values is that of the
    unmasked samples.

    Args:
        x: Samples of shape `(samples, ...)`.
        weights: Their weights, `(samples,)`.
    """
    counts = weights > 0
    first = ops.argmax(ops.cast(counts, "int32"), axis=0)
    row = ops.stop_gradient(ops.take(x, first, axis=0))
    return ops.where(_along(counts, x), x, row)


def weighted_mean(x: Tensor, weights: Tensor | None, axis: int = 0) -> Tensor:
    """Mean over an axis, which `weights` belong to; all alike if they are None."""
    if weights is None:
        return ops.mean(x, axis=axis)
    if axis == 0:
        weights = _along(weights, x)
    return ops.sum(x * weights, axis=axis) / ops.maximum(
        ops.sum(weights, axis=axis), 1e-30
    )


def total_weight(x: Tensor, weights: Tensor | None) -> Tensor:
    """Number of samples on the first axis of `x`, or the sum of their weights."""
    if weights is None:
        return as_float32(ops.shape(x)[0])
    return ops.maximum(ops.sum(weights), 1.0)


def log_weights(weights: Tensor | None) -> Tensor | float:
    """Logarithms to add before a log-sum-exp over samples."""
    if weights is None:
        return 0.0
    return ops.where(weights > 0, ops.log(ops.maximum(weights, 1e-30)), _LOG_OF_ZERO)


def share_of_weights(weights: Tensor) -> Tensor | float:
    """This replica's weight in units of the average replica's.

    A weighted mean over a replica's samples, times this, averaged over replicas, is the
    weighted mean over all samples.
    """
    if num_replicas() == 1:
        return 1.0
    own = ops.sum(weights)
    return num_replicas() * own / ops.maximum(sum_over_replicas(own), 1e-30)


def valid_first(weights: Tensor) -> Tensor:
    """int32 indices along the last axis: those of positive weight, in order, first."""
    size = ops.shape(weights)[-1]
    position = ops.arange(size, dtype="int32")
    # Made unlike: a sort need not keep the order of equals.
    return ops.cast(
        ops.argsort(ops.where(weights > 0, position, position + size), axis=-1),
        "int32",
    )


def _along(weights: Tensor, x: Tensor) -> Tensor:
    shape = (-1, *(1 for _ in x.shape[1:]))
    return ops.reshape(weights, shape)


def mask_codes(codes: Tensor, weights: Tensor | None) -> Tensor:
    """Codes `(..., n)` with -1, no code, at samples of weight 0."""
    if weights is None:
        return codes
    return ops.where(ops.expand_dims(weights, -1) > 0, codes, ops.full_like(codes, -1))


def refuse_mask(layer: keras.layers.Layer, mask: Tensor | None) -> None:
    """Raises for layers that cannot leave samples out."""
    if mask is not None:
        raise ValueError(
            f"{type(layer).__name__} '{layer.name}' received a mask, but cannot leave "
            "samples out of its batch statistics. Take the mask off before it, for "
            "example by choosing the unmasked positions, or use a layer that supports "
            "masks."
        )
