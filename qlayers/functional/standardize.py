"""Mean, scale and standardisation of a batch of latents, safe at the edges."""

from keras import ops

from qlayers.backend import Tensor, as_float32
from qlayers.masks import fill_masked, weighted_mean


def deviations(z: Tensor, weights: Tensor | None = None) -> Tensor:
    """`z` less its mean over the batch, exactly zero where a latent is constant.

    Args:
        z: Latents of shape `(samples, n)`.
        weights: Weights of the samples, `(samples,)`, 0 for those to leave out.
            Default: all alike.
    """
    z = as_float32(ops.convert_to_tensor(z))
    if weights is not None:
        z = fill_masked(z, weights)
    # Measured from the first sample, the mean of a constant has no rounding error,
    # and a large common offset costs no digits.
    from_first = z - ops.stop_gradient(z[:1])
    return from_first - weighted_mean(from_first, weights)


def standard_deviation(
    z: Tensor, at_constant: float = 0.0, weights: Tensor | None = None
) -> Tensor:
    """Population standard deviation of each latent over the batch.

    The gradient is finite everywhere: that of a constant latent is zero. Squares are
    taken of numbers near 1, so that neither tiny nor huge latents leave the range of
    float32.

    Args:
        z: Latents of shape `(samples, n)`.
        at_constant: Value for a latent that does not vary in the batch.
        weights: Weights of the samples, `(samples,)`, 0 for those to leave out.
            Default: all alike.

    Returns:
        float32 tensor of shape `(n,)`.

    Example:

    ```python
    standard_deviation([[1.0, 5.0], [3.0, 5.0]])  # [1., 0.]
    ```
    """
    return _scale_of(deviations(z, weights), at_constant, weights)


def standardize(z: Tensor, weights: Tensor | None = None) -> Tensor:
    """Latents with mean 0 and variance 1 over the batch; constant ones become 0.

    Args:
        z: Latents of shape `(samples, n)`.
        weights: Weights of the samples, `(samples,)`, 0 for those to leave out.
            Default: all alike.

    Example:

    ```python
    standardize([[1.0, 5.0], [3.0, 5.0]])  # [[-1., 0.], [1., 0.]]
    ```
    """
    centred = deviations(z, weights)
    return centred / _scale_of(centred, 1.0, weights)


def _scale_of(centred: Tensor, at_constant: float, weights: Tensor | None) -> Tensor:
    largest = ops.stop_gradient(ops.max(ops.abs(centred), axis=0))
    varies = largest > 0
    unit = ops.where(varies, largest, ops.ones_like(largest))
    mean_square = weighted_mean(ops.square(centred / unit), weights)
    # The root of 0 has no gradient: it is never taken.
    root = ops.sqrt(ops.where(varies, mean_square, ops.ones_like(mean_square)))
    return ops.where(varies, unit * root, ops.full_like(root, at_constant))
