"""The penalty of the AnnealedVAE."""

from typing import Any

import keras
from keras import ops

from qlayers.backend import Tensor
from qlayers.functional.divergence import standard_normal_kl
from qlayers.regularizers.base import LatentRegularizer
from qlayers.schedules import Schedulable


@keras.saving.register_keras_serializable(package="models")
class CapacityPenalty(LatentRegularizer):
    """Holds the divergence of a Gaussian posterior at a capacity that may grow.

    Adds `weight * |KL - capacity|`, where `KL` is the divergence from the standard
    normal, summed over latents and averaged over samples, and returns the means as
    they are. Tracked as `<name>_excess`, the absolute difference.

    Args:
        weight: Weight of the term, a number or a schedule.
        capacity: Divergence in nats, a number or a schedule.
        **kwargs: `at_inference` of the regularizers and those of `keras.layers.Layer`.

    Call arguments:
        mean: Means of the posteriors, `(..., n)`.
        scale: Their standard deviations, `(..., n)`.

    Example:

    ```python
    z, mean, scale = qlayers.GaussianLatent(0.0)(h, return_moments=True)
    mean = CapacityPenalty(1000.0, capacity=25.0)(mean, scale=scale)
    ```

    Reference:
        Burgess et al. 2017, Understanding disentangling in beta-VAE, equation 8.
    """

    reads = ("mean", "scale")

    def __init__(
        self, weight: Schedulable, capacity: Schedulable, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.weight = self.schedulable("weight", weight)
        self.capacity = self.schedulable("capacity", capacity)
        self.track_terms("excess")

    def add_terms(self, mean: Tensor, scale: Tensor) -> None:
        divergence = ops.mean(ops.sum(standard_normal_kl(mean, scale), axis=-1))
        excess = ops.abs(divergence - self.value_of("capacity"))
        self.add_term("excess", excess, self.value_of("weight"))
