"""The decomposed divergence of the beta-TCVAE."""

from typing import Any

import keras

from qlayers.backend import Tensor
from qlayers.checks import check_count
from qlayers.functional.minibatch_total_correlation import minibatch_total_correlation
from qlayers.regularizers.base import LatentRegularizer
from qlayers.schedules import Schedulable

_WEIGHT_OF = {
    "mutual_information": "mi_weight",
    "total_correlation": "weight",
    "dimension_kl": "kl_weight",
}


@keras.saving.register_keras_serializable(package="qlayers")
class MinibatchTotalCorrelation(LatentRegularizer):
    """The divergence of a variational autoencoder in three weighted parts.

    Adds `mi_weight * mutual_information + weight * total_correlation +
    kl_weight * dimension_kl`, estimated from the posteriors of the batch, and returns
    the sample as it is. It takes the place of the usual divergence: give the
    `GaussianLatent` before it `kl_weight=0`. All three parts are tracked, as
    `<name>_mutual_information`, `<name>_total_correlation` and `<name>_dimension_kl`,
    unless all weights are 0. See `qlayers.functional.minibatch_total_correlation`.

    Args:
        weight: Weight of the total correlation (the method's beta), a number or a
            schedule.
        dataset_size: Number of samples in the training set; a constant in the reported
            mutual information.
        mi_weight: Weight of the mutual information, a number or a schedule.
        kl_weight: Weight of the dimension-wise divergence, a number or a schedule.
        **kwargs: `at_inference` of the regularizers and those of `keras.layers.Layer`.

    Call arguments:
        z: A sample of each posterior, `(..., n)`.
        mean: Means of the posteriors, of the same shape.
        scale: Standard deviations of the posteriors, of the same shape.

    Example:

    ```python
    mean, scale = keras.layers.Dense(10)(h), keras.layers.Dense(10, "softplus")(h)
    z = sample([mean, scale])
    z = qlayers.MinibatchTotalCorrelation(3.0, dataset_size=480_000)(z, mean, scale)
    ```

    Reference:
        Chen et al. 2018, Isolating Sources of Disentanglement in VAEs.
    """

    reads = ("latents", "mean", "scale")
    weight_names = ("weight", "mi_weight", "kl_weight")
    config_names = ("dataset_size",)

    def __init__(
        self,
        weight: Schedulable,
        dataset_size: int,
        mi_weight: Schedulable = 1.0,
        kl_weight: Schedulable = 1.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.weight = self.schedulable("weight", weight)
        self.dataset_size = check_count("dataset_size", dataset_size)
        self.mi_weight = self.schedulable("mi_weight", mi_weight)
        self.kl_weight = self.schedulable("kl_weight", kl_weight)
        if not all(self.is_off(name) for name in self.weight_names):
            self.track_terms(*_WEIGHT_OF)

    def add_terms(
        self, z: Tensor, mean: Tensor, scale: Tensor, weights: Tensor | None = None
    ) -> None:
        values = minibatch_total_correlation(z, mean, scale, self.dataset_size, weights)
        for name, value in values.items():
            self.add_term(name, value, self.value_of(_WEIGHT_OF[name]))
