"""The three parts of a variational autoencoder's divergence, from one batch."""

import math

from keras import ops

from qlayers.backend import Tensor, as_float32
from qlayers.masks import fill_masked, log_weights, total_weight, weighted_mean

_LOG_2PI = math.log(2.0 * math.pi)
# Deviations in posterior scales are cut here so that their squares stay finite.
_FAR = 1e15


def minibatch_total_correlation(
    z: Tensor,
    mean: Tensor,
    scale: Tensor,
    dataset_size: int,
    weights: Tensor | None = None,
) -> dict[str, Tensor]:
    """Minibatch-weighted estimates of mutual information, total correlation and KL.

    For samples `z_b` of the posteriors `q(z | x_b) = N(mean_b, scale_b^2)`, the
    aggregate posterior is estimated by the batch, `q(z) = mean_a q(z | x_a)`, and so
    are its marginals `q_j`. Then

        mutual_information = mean_b [log q(z_b | x_b) - log q(z_b)] + log(dataset_size)
        total_correlation  = mean_b [log q(z_b) - sum_j log q_j(z_bj)]
        dimension_kl       = mean_b [sum_j log q_j(z_bj) - log p(z_b)],  p = N(0, I)

    The minibatch weights `1 / dataset_size` of Chen et al. are constants that no
    gradient sees. Here they count in the mutual information alone, so that the
    total correlation is one: the reference implementation adds
    `(n - 1) * log(dataset_size)` to it. Hence the three add up to the usual
    divergence from the prior plus `log(dataset_size)`.

    Args:
        z: One sample of each posterior, `(samples, n)`.
        mean: Means of the posteriors, `(samples, n)`.
        scale: Standard deviations of the posteriors, `(samples, n)`.
        dataset_size: Number of samples in the training set.
        weights: Weights of the samples, `(samples,)`, 0 for those to leave out.
            Default: all alike.

    Returns:
        `mutual_information`, `total_correlation` and `dimension_kl`, in nats.

    Example:

    ```python
    terms = minibatch_total_correlation(z, mean, scale, dataset_size=480_000)
    ```

    Reference:
        Chen et al. 2018, Isolating Sources of Disentanglement in VAEs, section 3 and
        appendix C.1; Hsu et al. 2024, equation 6.
    """
    z, mean, scale = (as_float32(ops.convert_to_tensor(x)) for x in (z, mean, scale))
    if weights is not None:
        z, mean, scale = (fill_masked(x, weights) for x in (z, mean, scale))
    log_count = ops.log(total_weight(z, weights))
    log_own = ops.sum(_log_normal(z, mean, scale), axis=-1)
    # Entry (b, a, j): the density of sample b, latent j, under the posterior of a.
    log_pairs = _log_normal(ops.expand_dims(z, 1), mean, scale)
    of_pairs = ops.sum(log_pairs, axis=-1)
    if weights is not None:
        posteriors = log_weights(weights)
        of_pairs = of_pairs + posteriors
        log_pairs = log_pairs + ops.expand_dims(posteriors, -1)
    log_joint = ops.logsumexp(of_pairs, axis=1) - log_count
    log_marginals = ops.sum(ops.logsumexp(log_pairs, axis=1) - log_count, axis=-1)
    log_prior = -0.5 * ops.sum(ops.square(z) + _LOG_2PI, axis=-1)
    shift = math.log(dataset_size)
    return {
        "mutual_information": weighted_mean(log_own - log_joint, weights) + shift,
        "total_correlation": weighted_mean(log_joint - log_marginals, weights),
        "dimension_kl": weighted_mean(log_marginals - log_prior, weights),
    }


def _log_normal(z: Tensor, mean: Tensor, scale: Tensor) -> Tensor:
    scale = ops.maximum(scale, 1e-30)
    residual = ops.clip((z - mean) / scale, -_FAR, _FAR)
    return -0.5 * (ops.square(residual) + _LOG_2PI) - ops.log(scale)
