"""The penalty of DIP-VAEs."""

from typing import Any

import keras
from keras import ops

from qlayers.backend import Tensor
from qlayers.regularizers.base import LatentRegularizer
from qlayers.schedules import Schedulable


@keras.saving.register_keras_serializable(package="models")
class MomentMatching(LatentRegularizer):
    """Asks the covariance of the latents to be the identity.

    With the covariance `C` of the posteriors' means over the batch (divided by the
    number of samples), adds

        off_diagonal_weight * sum_{i != j} C_ij^2 + diagonal_weight * sum_i (C_ii - 1)^2

    and returns the means as they are. With `with_noise`, `C` is the covariance of the
    samples instead: the mean variance of the posteriors is added to its diagonal.
    Tracked as `<name>_off_diagonal` and `<name>_diagonal`.

    Args:
        off_diagonal_weight: Weight of the covariances, a number or a schedule.
        diagonal_weight: Weight of the variances' distance from 1.
        with_noise: Whether the posteriors' own variances count: DIP-VAE-II.
        **kwargs: `at_inference` of the regularizers and those of `keras.layers.Layer`.

    Call arguments:
        mean: Means of the posteriors, `(..., n)`.
        scale: Their standard deviations, `(..., n)`.

    Example:

    ```python
    z, mean, scale = qlayers.GaussianLatent()(h, return_moments=True)
    mean = MomentMatching(10.0, 100.0)(mean, scale=scale)
    ```

    Reference:
        Kumar et al. 2018, Variational Inference of Disentangled Latent Concepts from
        Unlabeled Observations, equations 6 and 7.
    """

    reads = ("mean", "scale")
    weight_names = ("off_diagonal_weight", "diagonal_weight")
    config_names = ("with_noise",)

    def __init__(
        self,
        off_diagonal_weight: Schedulable,
        diagonal_weight: Schedulable,
        with_noise: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.off_diagonal_weight = self.schedulable(
            "off_diagonal_weight", off_diagonal_weight
        )
        self.diagonal_weight = self.schedulable("diagonal_weight", diagonal_weight)
        self.with_noise = bool(with_noise)
        self.track_terms("off_diagonal", "diagonal")

    def add_terms(self, mean: Tensor, scale: Tensor) -> None:
        centred = mean - ops.mean(mean, axis=0)
        count = ops.cast(ops.shape(mean)[0], "float32")
        covariance = ops.matmul(ops.transpose(centred), centred) / count
        identity = ops.eye(mean.shape[-1], dtype="float32")
        off_diagonal = ops.sum(ops.square(covariance * (1.0 - identity)))
        variances = ops.mean(ops.square(centred), axis=0)
        if self.with_noise:
            variances = variances + ops.mean(ops.square(scale), axis=0)
        diagonal = ops.sum(ops.square(variances - 1.0))
        self.add_weighted({"off_diagonal": off_diagonal, "diagonal": diagonal})
