"""Categorical latents with a learned codebook (dVAE)."""

from typing import Any, Literal

import keras
from keras import ops

from qlayers.backend import Tensor
from qlayers.checks import check_choice
from qlayers.functional import uniform_kl
from qlayers.quantizers.base import batch_mean, one_hot_of
from qlayers.quantizers.logits import LogitsQuantizer
from qlayers.schedules import Schedulable


@keras.saving.register_keras_serializable(package="qlayers")
class CategoricalQuantizer(LogitsQuantizer):
    """Samples a category of each latent and looks its value up in a learned codebook.

    The input holds `num_values` logits `l` for each of `n` latents; all latents share
    the codebook `M` of `num_values` scalars. Forward in training, with Gumbel noise
    `g`:

        y = softmax((l + g) / temperature),    z = sum_k y_k M_k

    and at inference `z = M_argmax(l)` (ties: the lowest index). Gradient: that of the
    formula; at inference only the codebook receives one. With `kl_weight`, the loss
    `kl_weight * KL(softmax(l) || uniform)` is added and tracked as `<name>_kl`.

    There is no revival of dead codes here: which code is used is decided by the
    encoder's logits, and moving a code's value would not change it.

    Called with `return_assignments=True` the layer also returns the weights `y`, of
    shape `(..., n, num_values)` (one-hot at inference).

    Args:
        num_values: Number of categories.
        temperature: Temperature of the relaxed samples, a number or a schedule.
        kl_weight: Weight of the divergence, a number or a schedule.
        kl_reduction: `"sum"` over latents, or `"mean"`, as in the public code of
            FactorQVAE.
        **kwargs: `seed`, `track_usage` and those of `keras.layers.Layer`.

    Input shape: `(..., n * num_values)`. Output shape: `(..., n)`.

    Example:

    ```python
    logits = keras.layers.Dense(12 * 64)(features)
    z = qlayers.CategoricalQuantizer(num_values=64)(logits)
    ```

    Reference:
        Baykal et al., Disentanglement with Factor Quantized VAEs, sections 2.2 and
        3.3 (dVAE and FactordVAE); Ramesh et al. 2021.
    """

    scored_as = "codes"
    config_names = ("kl_reduction",)

    def __init__(
        self,
        num_values: int = 64,
        temperature: Schedulable = 1.0,
        kl_weight: Schedulable = 0.0,
        kl_reduction: Literal["sum", "mean"] = "sum",
        **kwargs: Any,
    ) -> None:
        super().__init__(
            num_values=num_values,
            temperature=temperature,
            kl_weight=kl_weight,
            **kwargs,
        )
        self.kl_reduction = check_choice("kl_reduction", kl_reduction, ("sum", "mean"))

    def build_values(self, num_latents: int) -> None:
        self.codebook = self.add_weight(
            name="codebook",
            shape=(self.num_values,),
            dtype="float32",
            initializer=keras.initializers.RandomNormal(stddev=1.0, seed=self.seed),
            autocast=False,
        )

    def _values(self) -> Tensor:
        return ops.convert_to_tensor(self.codebook)

    def _kl(self, logits: Tensor, weights: Tensor | None) -> Tensor:
        return batch_mean(uniform_kl(logits), self.kl_reduction, weights)

    def _weights(self, logits: Tensor, codes: Tensor, training: bool | None) -> Tensor:
        if training:
            return self._sample(logits)
        return one_hot_of(codes, self.num_values)
