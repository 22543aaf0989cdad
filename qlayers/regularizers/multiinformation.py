"""Kernel-based latent multiinformation."""

from typing import Any

import keras

from qlayers.backend import Tensor
from qlayers.functional.kernel_multiinformation import (
    check_bandwidth,
    kernel_multiinformation,
)
from qlayers.functional.standardize import standard_deviation
from qlayers.regularizers.base import LatentRegularizer
from qlayers.schedules import Schedulable


@keras.saving.register_keras_serializable(package="qlayers")
class KernelMultiinformation(LatentRegularizer):
    """Penalises dependence among deterministic latents.

    Adds `weight` times a kernel estimate of the total correlation of the batch,

        mean_b [log q(z_b) - sum_j log q_j(z_bj)],

    and returns the latents as they are. See
    `qlayers.functional.kernel_multiinformation` for the densities. Gradients flow
    through the latents and through the standard deviations that set the smoothing:
    with those held fixed, merely shrinking a latent would lower the loss. Tracked as
    `<name>_multiinformation`.

    Args:
        weight: Weight of the term, a number or a schedule; 0 switches it off.
        bandwidth: `"silverman"` for smoothing in proportion to each latent's standard
            deviation, or a number for the same fixed smoothing of all (naive Tripod).
        **kwargs: `at_inference` of the regularizers and those of `keras.layers.Layer`.

    Call arguments:
        z: Latents, `(..., n)`, quantized or not.
        continuous: The latents before quantization, from which the standard deviations
            are taken, so that a latent whose codes agree in a batch has some. Default:
            `z`.

    Example:

    ```python
    quantizer = qlayers.FiniteScalarQuantizer(12)
    z = quantizer(h)
    z = qlayers.KernelMultiinformation(1e-4)(z, quantizer.continuous(h))
    ```

    Reference:
        Hsu et al. 2024, Tripod, section 3.2, equations 11 to 14, Algorithm 1.
    """

    may_read = ("continuous",)
    config_names = ("bandwidth",)

    def __init__(
        self,
        weight: Schedulable,
        bandwidth: str | float = "silverman",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.weight = self.schedulable("weight", weight)
        self.bandwidth = check_bandwidth(bandwidth)
        if not self.is_off("weight"):
            self.track_terms("multiinformation")

    def add_terms(
        self,
        z: Tensor,
        continuous: Tensor | None = None,
        weights: Tensor | None = None,
    ) -> None:
        scale = None
        if continuous is not None:
            scale = standard_deviation(continuous, 0.0, weights)
        value = kernel_multiinformation(z, scale, self.bandwidth, weights)
        self.add_term("multiinformation", value, self.value_of("weight"))
