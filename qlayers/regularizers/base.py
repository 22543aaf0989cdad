"""What all regularizers share."""

from typing import Any

import keras
import numpy as np
from keras import ops

from qlayers.backend import Tensor, as_float32, is_eager
from qlayers.checks import check_last_axis
from qlayers.regularizers.replicas import gather_rows
from qlayers.term_layer import TermLayer


class TermMean(keras.metrics.Mean):
    """A running mean that is NaN, not 0, while nothing has been counted.

    `evaluate` skips the terms of training: a 0 would look like a perfect value.
    """

    def result(self) -> Tensor:
        mean = super().result()
        return ops.where(self.count > 0, mean, ops.full_like(mean, np.nan))


class BaseRegularizer(TermLayer):
    """Base of the regularizers: when they apply, their seed and their batch.

    Args:
        seed: Integer seed of the layer's random draws.
        always: Whether the terms are also computed outside training. `evaluate` then
            reports them, and `predict` and exported models pay for them. By default
            a regularizer does nothing at inference.
        **kwargs: Keyword arguments of `keras.layers.Layer`.
    """

    def __init__(
        self, *, seed: int | None = None, always: bool = False, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.seed = seed
        self.seed_generator = keras.random.SeedGenerator(seed)
        self.always = bool(always)

    def track_terms(self, *names: str) -> None:
        for name in names:
            self._trackers[name] = TermMean(name=f"{self.name}_{name}")

    def applies(self, training: bool | None, *weights: str) -> bool:
        """Whether any of the named weights calls for a term in this call."""
        is_wanted = bool(training) or self.always
        return is_wanted and not all(self.is_off(name) for name in weights)

    def rows(self, x: Tensor, last_axes: int = 1) -> Tensor:
        """This replica's float32 samples, `(samples, ...)`.

        All axes but the `last_axes` last ones are samples. Values that are not finite
        raise a ValueError in eager mode.
        """
        x = as_float32(x)
        if is_eager(x) and not bool(ops.all(ops.isfinite(x))):
            raise ValueError(
                f"{type(self).__name__} '{self.name}' received latents with NaN or "
                "infinity, of which it cannot take batch statistics. Look for a "
                "diverging loss or a division by zero in the layers before it."
            )
        return ops.reshape(x, (-1, *x.shape[-last_axes:]))

    def global_rows(self, x: Tensor) -> Tensor:
        """float32 samples of all replicas together, `(samples, n)`."""
        return gather_rows(self.rows(x))

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "seed": self.seed, "always": self.always}


class LatentRegularizer(BaseRegularizer):
    """Base of the regularizers that return their first input as it is.

    A subclass names its weights in `weight_names` and implements `add_terms`.
    """

    weight_names: tuple[str, ...] = ("weight",)

    def build(self, input_shape: Any) -> None:
        check_last_axis(type(self).__name__, input_shape, multiple_of=1)
        self.build_step()

    def call(self, z: Tensor, training: bool | None = None) -> Tensor:
        if self.applies(training, *self.weight_names):
            self.add_terms(self.global_rows(z))
        self.advance_step(training)
        return z

    def compute_output_spec(self, z: Tensor, *args: Any, **kwargs: Any) -> Any:
        return keras.KerasTensor(z.shape, dtype=z.dtype)

    def add_terms(self, z: Tensor) -> None:
        """Adds the terms of the latents `(samples, n)` of the global batch."""
        raise NotImplementedError(f"{type(self).__name__} must implement add_terms.")

    def add_weighted(self, values: dict[str, Tensor], scale: Any = 1.0) -> None:
        """Adds each value with the weight `scale * <its name>_weight`."""
        for name, value in values.items():
            self.add_term(name, value, scale * self.now(f"{name}_weight"))
