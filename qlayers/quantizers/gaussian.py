"""Gaussian latents: the continuous member of the family."""

from typing import Any, Literal

import keras
import numpy as np
from keras import ops

from qlayers.backend import Tensor, take_numbers
from qlayers.checks import check_choice, check_count, check_last_axis
from qlayers.functional import nearest_code, standard_normal_kl
from qlayers.quantizers.base import BaseQuantizer, batch_mean
from qlayers.schedules import Schedulable
from qlayers.signals import Signals

# Beyond these, exp and softplus over- or underflow float32 in the divergence.
_LOG_VARIANCE_LIMIT = 60.0
_SOFTPLUS_FLOOR = -30.0


@keras.saving.register_keras_serializable(package="qlayers")
class GaussianLatent(BaseQuantizer):
    """Samples a diagonal Gaussian by reparameterization.

    The first half of the last axis holds means `m`, the second half decides the scales
    `s`. Forward in training `z = m + s * e` with standard normal `e`; at inference
    `z = m`. Gradient: that of the formula. The loss
    `kl_weight * KL(N(m, s^2) || N(0, 1))`, summed over latents, is added and tracked
    as `<name>_kl`.

    The latent is continuous. So that it can be traversed, plotted and scored like the
    others, `codes` gives the nearest of `num_values` quantiles of the prior, which
    are the rows of `value_table`; they do not touch the output.

    Called with `return_moments=True` the layer also returns the means and scales.

    Args:
        kl_weight: Weight of the divergence, a number or a schedule.
        scale: `"log_variance"` (`s = exp(h / 2)`) or `"softplus"`
            (`s = softplus(h)`, as in the public codes of QLAE and Tripod).
        num_values: Number of quantiles behind `codes`.
        **kwargs: `seed`, `track_usage` (default None here) and those of
            `keras.layers.Layer`.

    Input shape: `(..., 2 * n)`. Output shape: `(..., n)`.

    Example:

    ```python
    z = qlayers.GaussianLatent(kl_weight=4.0)(keras.layers.Dense(2 * 10)(features))
    ```

    Reference:
        Kingma and Welling 2014, Auto-Encoding Variational Bayes; Higgins et al. 2017
        (`kl_weight` is the beta of the beta-VAE).
    """

    scored_as = "reals"
    is_discrete = False
    config_names = ("scale", "num_values")

    def __init__(
        self,
        kl_weight: Schedulable = 1.0,
        scale: Literal["log_variance", "softplus"] = "log_variance",
        num_values: int = 10,
        **kwargs: Any,
    ) -> None:
        kwargs.setdefault("track_usage", None)
        super().__init__(**kwargs)
        self.kl_weight = self.schedulable("kl_weight", kl_weight)
        self.scale = check_choice("scale", scale, ("log_variance", "softplus"))
        self.num_values = check_count("num_values", num_values, minimum=2)
        if not self.is_off("kl_weight"):
            self.track_terms("kl")

    @property
    def inputs_per_latent(self) -> int:
        return 2

    def continuous(self, inputs: Tensor) -> Tensor:
        """The means, float32."""
        return self.moments(inputs)[0]

    def signals(self, inputs: Tensor) -> Signals:
        z, mean, scale = self(inputs, return_moments=True)
        return {"latents": z, "continuous": mean, "mean": mean, "scale": scale}

    def moments(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Means and scales of the posteriors, float32 `(..., n)` each."""
        return self._moments(self._prepare(inputs))

    def build(self, input_shape: Any) -> None:
        size = check_last_axis(type(self).__name__, input_shape, multiple_of=2)
        self.build_codes([self.num_values] * (size // 2), size)

    def call(
        self,
        inputs: Tensor,
        training: bool | None = None,
        return_moments: bool = False,
        mask: Tensor | None = None,
    ) -> Tensor | tuple[Tensor, Tensor, Tensor]:
        x = self._prepare(inputs)
        weights = self._sample_weights(mask, x)
        mean, scale = self._moments(x)
        if not self.is_off("kl_weight"):
            value = batch_mean(standard_normal_kl(mean, scale), "sum", weights)
            self.add_term("kl", value, self.value_of("kl_weight"))
        z = mean
        if training:
            noise = keras.random.normal(
                ops.shape(mean), dtype="float32", seed=self.seed_generator
            )
            z = mean + scale * noise
        codes = self._codes(x) if self.usage is not None else None
        z = self._finish(z, codes, training, weights)
        return (z, mean, scale) if return_moments else z

    def value_table(self) -> Tensor:
        """Quantiles of the standard normal prior, float32 `(n, num_values)`."""
        self._check_built()
        return ops.broadcast_to(self._quantiles(), (self.num_latents, self.num_values))

    def _moments(self, x: Tensor) -> tuple[Tensor, Tensor]:
        mean, raw = ops.split(x, 2, axis=-1)
        if self.scale == "softplus":
            return mean, ops.softplus(ops.maximum(raw, _SOFTPLUS_FLOOR))
        raw = ops.clip(raw, -_LOG_VARIANCE_LIMIT, _LOG_VARIANCE_LIMIT)
        return mean, ops.exp(0.5 * raw)

    def _quantiles(self) -> Tensor:
        share = (np.arange(self.num_values) + 0.5) / self.num_values
        return np.sqrt(2.0) * ops.erfinv(
            ops.convert_to_tensor(2.0 * share - 1.0, "float32")
        )

    def _codes(self, x: Tensor) -> Tensor:
        return nearest_code(ops.split(x, 2, axis=-1)[0], self._quantiles())

    def _values_of(self, codes: Tensor) -> Tensor:
        return take_numbers(self._quantiles(), codes)
