"""Kullback-Leibler divergences to the priors of the quantizers."""

import math

from keras import ops

from qlayers.backend import Tensor, as_float32


def uniform_kl(logits: Tensor, num_active: Tensor | None = None) -> Tensor:
    """`KL(softmax(logits) || uniform)` over the last axis.

    Args:
        logits: Unnormalised log-probabilities of shape `(..., num_values)`; excluded
            categories have very negative logits.
        num_active: Number of categories that are not excluded, of a shape that
            broadcasts to the leading one. Default: all.

    Returns:
        float32 divergence in nats, of the leading shape of `logits`.

    Example:

    ```python
    uniform_kl([[0.0, 0.0, 0.0]])  # [0.]
    ```

    Reference:
        Friede et al. 2023, section 3; Baykal et al., eq. 8.
    """
    logits = as_float32(ops.convert_to_tensor(logits))
    log_q = ops.log_softmax(logits, axis=-1)
    negative_entropy = ops.sum(ops.exp(log_q) * log_q, axis=-1)
    if num_active is None:
        return negative_entropy + math.log(logits.shape[-1])
    return negative_entropy + ops.log(ops.cast(num_active, "float32"))


def standard_normal_kl(mean: Tensor, scale: Tensor) -> Tensor:
    """`KL(N(mean, scale^2) || N(0, 1))`, elementwise.

    Args:
        mean: Means.
        scale: Standard deviations, positive.

    Example:

    ```python
    standard_normal_kl([0.0], [1.0])  # [0.]
    ```

    Reference:
        Kingma and Welling 2014, appendix B.
    """
    mean, scale = ops.convert_to_tensor(mean), ops.convert_to_tensor(scale)
    return 0.5 * (ops.square(mean) + ops.square(scale) - 1.0) - ops.log(scale)
