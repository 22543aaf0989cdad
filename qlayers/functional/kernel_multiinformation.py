"""Total correlation of a batch of deterministic latents, by kernel densities."""

import math
import numbers

from keras import ops

from qlayers.backend import Tensor, as_float32
from qlayers.checks import check_number
from qlayers.functional.standardize import deviations, standard_deviation
from qlayers.masks import log_weights, total_weight, weighted_mean

# Distances in bandwidths are cut here: exp(-x^2) is 0 long before, and the square of
# a larger number would overflow.
_FAR = 1e15


def kernel_multiinformation(
    z: Tensor,
    scale: Tensor | None = None,
    bandwidth: str | float = "silverman",
    weights: Tensor | None = None,
) -> Tensor:
    r"""Kernel estimate of the multiinformation (total correlation) of latents.

        mean_b [log q(z_b) - sum_j log q_j(z_bj)]

    where `q` and `q_j` are Gaussian kernel density estimates on the batch itself, each
    sample being its own neighbour too. With `bandwidth="silverman"` the kernel of the
    joint density has the standard deviations `h * scale_j`, with Silverman's

        h = (4 / ((n + 2) * samples)) ** (1 / (n + 4)),

    and those of the marginals have `scale_j`, so that the value does not change when a
    latent is rescaled. With a number, every kernel has that standard deviation.

    The density's constants cancel between joint and marginals and are never formed;
    everything else is a log-sum-exp. Gradients flow through `z` and through `scale`.

    Args:
        z: Latents of shape `(samples, n)`.
        scale: Standard deviation of each latent, `(n,)`; of the continuous latents if
            `z` is quantized. Default: that of `z`. Not used with a fixed bandwidth.
        bandwidth: `"silverman"`, or a number for fixed smoothing (naive Tripod).
        weights: Weights of the samples, `(samples,)`, 0 for those to leave out.
            Default: all alike.

    Returns:
        Scalar, in nats.

    Example:

    ```python
    loss += 1e-4 * kernel_multiinformation(z, standard_deviation(continuous))
    ```

    Reference:
        Hsu et al. 2024, Tripod, equations 11 to 14.
    """
    check_bandwidth(bandwidth)
    z = as_float32(ops.convert_to_tensor(z))
    num_samples, n = total_weight(z, weights), z.shape[-1]
    if isinstance(bandwidth, str):
        scale = (
            standard_deviation(z, 0.0, weights) if scale is None else as_float32(scale)
        )
        unit = ops.where(scale > 0, scale, ops.ones_like(scale))
        log_smoothing = _log_silverman(num_samples, n)
    else:
        unit, log_smoothing = float(bandwidth), 0.0
    u = ops.clip(deviations(z, weights) / unit, -_FAR, _FAR)
    half_squares = -0.5 * ops.square(ops.expand_dims(u, 1) - ops.expand_dims(u, 0))
    sharpened = ops.sum(half_squares, axis=-1) * ops.exp(-2.0 * log_smoothing)
    if weights is not None:
        neighbours = log_weights(weights)
        sharpened = sharpened + neighbours
        half_squares = half_squares + ops.expand_dims(neighbours, -1)
    log_joint = ops.logsumexp(sharpened, axis=1)
    log_marginals = ops.sum(ops.logsumexp(half_squares, axis=1), axis=-1)
    constant = (n - 1) * _log(num_samples) - n * log_smoothing
    return weighted_mean(log_joint - log_marginals, weights) + constant


def check_bandwidth(bandwidth: str | float) -> str | float:
    """Returns `bandwidth`, or raises unless it is a rule's name or positive."""
    if bandwidth == "silverman":
        return bandwidth
    if not isinstance(bandwidth, numbers.Real):
        raise ValueError(
            '`bandwidth` must be "silverman" or a positive number. '
            f"Received: {bandwidth!r}."
        )
    return check_number("bandwidth", bandwidth, exclusive=True)


def _log(count: Tensor | int) -> Tensor:
    return ops.log(ops.cast(count, "float32"))


def _log_silverman(num_samples: Tensor | int, n: int) -> Tensor:
    return (math.log(4.0 / (n + 2)) - _log(num_samples)) / (n + 4)
