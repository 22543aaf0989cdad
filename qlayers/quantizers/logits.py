"""Quantizers whose encoder gives the logits of the codes."""

import abc
from typing import Any

from keras import ops

from qlayers.backend import Tensor, first_argmin, take_numbers
from qlayers.checks import check_count, check_last_axis
from qlayers.functional import gumbel_softmax
from qlayers.quantizers.base import BaseQuantizer
from qlayers.quantizers.symbolic import shares_quantizer
from qlayers.schedules import Schedulable
from qlayers.signals import Signals


class LogitsQuantizer(BaseQuantizer):
    """Base of the two categorical quantizers: logits in, a value per latent out.

    Args:
        num_values: Number of categories of a latent.
        temperature: Temperature of the relaxed samples.
        kl_weight: Weight of the divergence to the uniform prior.
        **kwargs: Keyword arguments of `BaseQuantizer`.
    """

    config_names: tuple[str, ...] = ("num_values",)

    def __init__(
        self,
        *,
        num_values: int,
        temperature: Schedulable,
        kl_weight: Schedulable,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.num_values = check_count("num_values", num_values, minimum=2)
        self.temperature = self.schedulable("temperature", temperature, exclusive=True)
        self.kl_weight = self.schedulable("kl_weight", kl_weight)
        if not self.is_off("kl_weight"):
            self.track_terms("kl")

    @property
    def inputs_per_latent(self) -> int:
        return self.num_values

    def continuous(self, inputs: Tensor) -> None:
        """None: categories have no latents before quantization."""

    def signals(self, inputs: Tensor) -> Signals:
        z, weights = self(inputs, return_assignments=True)
        return {"latents": z, "assignments": weights}

    def build(self, input_shape: Any) -> None:
        size = check_last_axis(type(self).__name__, input_shape, self.num_values)
        self.build_values(size // self.num_values)
        self.build_codes([self.num_values] * (size // self.num_values), size)

    def build_values(self, num_latents: int) -> None:
        """Makes what the values of the codes need. The default needs nothing."""

    def call(
        self,
        inputs: Tensor,
        training: bool | None = None,
        return_assignments: bool = False,
        mask: Tensor | None = None,
    ) -> Tensor | tuple[Tensor, Tensor]:
        x = self._prepare(inputs)
        weights_of_samples = self._sample_weights(mask, x)
        logits = self._logits(x)
        codes = self._codes_of_logits(logits)
        if not self.is_off("kl_weight"):
            divergence = self._kl(logits, weights_of_samples)
            self.add_term("kl", divergence, self.value_of("kl_weight"))
        weights = self._weights(logits, codes, training)
        z = self._finish(self._mixed(weights), codes, training, weights_of_samples)
        return (z, weights) if return_assignments else z

    @abc.abstractmethod
    def _values(self) -> Tensor:
        """Values of the categories, float32 `(num_values,)`."""

    @abc.abstractmethod
    def _kl(self, logits: Tensor, weights: Tensor | None) -> Tensor:
        """The batch's divergence to the uniform prior, a scalar.

        Args:
            logits: Logits of shape `(..., n, num_values)`.
            weights: Weights of the samples, or None.
        """

    @abc.abstractmethod
    def _weights(self, logits: Tensor, codes: Tensor, training: bool | None) -> Tensor:
        """Weights of the categories in the output, `(..., n, num_values)`."""

    def _sample(self, logits: Tensor, noise_scale: Tensor | float = 1.0) -> Tensor:
        temperature = self.value_of("temperature")
        return gumbel_softmax(logits, temperature, noise_scale, self.seed_generator)

    @shares_quantizer
    def logits(self, inputs: Tensor) -> Tensor:
        """float32 logits `(..., n, num_values)`; of excluded categories, about -inf."""
        return self._logits(self._prepare(inputs))

    @shares_quantizer
    def assignments(self, inputs: Tensor) -> Tensor:
        """Posterior of the categories, float32 `(..., n, num_values)`."""
        return ops.softmax(self.logits(inputs), axis=-1)

    @shares_quantizer
    def soft_values(self, inputs: Tensor) -> Tensor:
        """Mean value of each latent's categories, float32 `(..., n)`, without noise."""
        return self._mixed(self.assignments(inputs))

    def _mixed(self, weights: Tensor) -> Tensor:
        return ops.matmul(weights, ops.expand_dims(self._values(), -1))[..., 0]

    def _logits(self, x: Tensor) -> Tensor:
        shape = (*ops.shape(x)[:-1], self.num_latents, self.num_values)
        return ops.reshape(x, shape)

    def _codes_of_logits(self, logits: Tensor) -> Tensor:
        codes = first_argmin(-logits)
        is_nan = ops.any(ops.isnan(logits), axis=-1)
        return ops.where(is_nan, ops.full_like(codes, -1), codes)

    def _codes(self, x: Tensor) -> Tensor:
        return self._codes_of_logits(self._logits(x))

    def _values_of(self, codes: Tensor) -> Tensor:
        return take_numbers(self._values(), codes)

    def value_table(self) -> Tensor:
        self._check_built()
        return ops.broadcast_to(self._values(), (self.num_latents, self.num_values))
