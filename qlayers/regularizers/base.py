"""What all regularizers share."""

import abc
import inspect
from inspect import Parameter, Signature
from typing import Any

import keras
import numpy as np
from keras import ops

from qlayers.backend import (
    Tensor,
    as_float32,
    is_eager,
    num_replicas,
    sum_over_replicas,
)
from qlayers.checks import check_last_axis
from qlayers.masks import fill_masked, refuse_mask, weights_of_mask
from qlayers.regularizers.replicas import gather_samples
from qlayers.signals import Signal
from qlayers.term_layer import TermLayer


class TermMean(keras.metrics.Mean):
    """A running mean that is NaN, not 0, while nothing has been counted.

    `evaluate` skips the terms of training: a 0 would look like a perfect value.
    """

    def result(self) -> Tensor:
        mean = super().result()
        return ops.where(self.count > 0, mean, ops.full_like(mean, np.nan))


class OptionalMean(TermMean):
    """A running mean that is absent from the logs while nothing has been counted.

    Keras merges a result that is a dict into the logs: an empty one leaves no trace.
    While a step is being compiled the count is not known; then what the layer did in
    this very step, which is `is_counted`, decides.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.is_counted = True

    def result(self) -> Tensor | dict[str, Tensor]:
        is_counted = self.is_counted
        if is_eager(self.count.value):
            is_counted = bool(ops.convert_to_numpy(self.count) > 0)
        return super().result() if is_counted else {}


class BaseRegularizer(TermLayer, abc.ABC):
    """Base of the regularizers: when they apply, their seed and their batch.

    Args:
        seed: Integer seed of the layer's random draws.
        at_inference: Whether the terms are also computed outside training. `evaluate`
            then reports them, and `predict` and exported models pay for them. By
            default a regularizer does nothing at inference.
        **kwargs: Keyword arguments of `keras.layers.Layer`.

    Attributes:
        reads: The signals that the layer is called on, in the order of its call
            arguments. What connects models hands over these.
        may_read: Signals that follow if there are any. See `qlayers.signals`.
    """

    reads: tuple[Signal, ...] = ("latents",)
    may_read: tuple[Signal, ...] = ()
    config_names: tuple[str, ...] = ("seed", "at_inference")

    def __init__(
        self, *, seed: int | None = None, at_inference: bool = False, **kwargs: Any
    ) -> None:
        # The name of the argument in files of version 0.1.
        at_inference = kwargs.pop("always", at_inference)
        super().__init__(**kwargs)
        self.seed = seed
        self.seed_generator = keras.random.SeedGenerator(seed)
        self.at_inference = bool(at_inference)

    def track_terms(self, *names: str) -> None:
        for name in names:
            self._trackers[name] = OptionalMean(name=f"{self.name}_{name}")

    def applies(self, training: bool | None, *weights: str) -> bool:
        """Whether any of the named weights calls for a term in this call."""
        is_wanted = bool(training) or self.at_inference
        applies = is_wanted and not all(self.is_off(name) for name in weights)
        for tracker in self._trackers.values():
            tracker.is_counted = applies
        return applies

    def _weight_of(self, samples: Tensor) -> Tensor:
        """The same for all replicas: a term holds the replica's share in a mean."""
        return sum_over_replicas(samples) / num_replicas()

    def own_samples(
        self, x: Tensor, last_axes: int = 1, weights: Tensor | None = None
    ) -> Tensor:
        """This replica's float32 samples, `(samples, ...)`.

        All axes but the `last_axes` last ones are samples. Those of weight 0 are
        replaced by others. Values that are not finite raise a ValueError in eager mode.
        """
        x = ops.reshape(as_float32(x), (-1, *x.shape[-last_axes:]))
        if weights is not None:
            x = fill_masked(x, weights)
        if is_eager(x) and not bool(ops.all(ops.isfinite(x))):
            raise ValueError(
                f"{type(self).__name__} '{self.name}' received latents with NaN or "
                "infinity, of which it cannot take batch statistics. Look for a "
                "diverging loss or a division by zero in the layers before it."
            )
        return x

    def global_samples(self, x: Tensor, weights: Tensor | None = None) -> Tensor:
        """float32 samples of all replicas together, `(samples, n)`."""
        return gather_samples(self.own_samples(x, weights=weights))

    def named(self, others: tuple[Any, ...], by_name: dict[str, Any]) -> dict[str, Any]:
        """Call arguments after the first, by signal; those that are None left out."""
        needed = [name for name in self.reads if name != "decoder"][1:]
        wanted: list[tuple[Signal, Any]] = [(name, Parameter.empty) for name in needed]
        wanted += [(name, None) for name in self.may_read]
        kind = Parameter.POSITIONAL_OR_KEYWORD
        signature = Signature([Parameter(n, kind, default=d) for n, d in wanted])
        try:
            given = signature.bind(*others, **by_name).arguments
        except TypeError as error:
            raise TypeError(
                f"{type(self).__name__} '{self.name}' is called on latents and "
                f"{signature}: {error}."
            ) from None
        return {name: x for name, x in given.items() if x is not None}

    def call(
        self,
        z: Tensor,
        *others: Tensor,
        training: bool | None = None,
        mask: Tensor | None = None,
        z_mask: Tensor | None = None,
        **by_name: Any,
    ) -> Any:
        # Keras calls the mask of the only argument `mask`, of the first of several
        # `z_mask`.
        mask = z_mask if mask is None else mask
        self.regularize(z, training, mask, **self.named(others, by_name))
        self.advance_step(training)
        return self.outputs_of(z, training)

    @abc.abstractmethod
    def regularize(
        self, z: Tensor, training: bool | None, mask: Tensor | None, **others: Tensor
    ) -> None:
        """Adds the terms that apply to this call.

        Args:
            z: The first call argument.
            training: The argument of `call`.
            mask: Mask of the first call argument, or None.
            **others: The other call arguments, by signal.
        """

    def outputs_of(self, z: Tensor, training: bool | None) -> Any:
        """What the layer returns: `z` as it is."""
        return z


class LatentRegularizer(BaseRegularizer):
    """Base of the regularizers that return their first input as it is.

    A subclass names its weights in `weight_names`, the signals that it wants in `reads`
    and `may_read`, and implements `add_terms`. If that takes `weights`, the layer
    supports masks: masked samples get the weight 0. Otherwise a mask is refused.
    """

    weight_names: tuple[str, ...] = ("weight",)
    # Last axes of the first input that belong to one sample.
    sample_axes: int = 1

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True

    def build(self, input_shape: Any) -> None:
        check_last_axis(type(self).__name__, input_shape, multiple_of=1)
        self.build_step()

    def regularize(
        self, z: Tensor, training: bool | None, mask: Tensor | None, **others: Tensor
    ) -> None:
        if not self.applies(training, *self.weight_names):
            return
        weights = self._weights_of(z, mask)
        samples = {name: self.samples_of(x, weights) for name, x in others.items()}
        first = self.samples_of(z, weights)
        if weights is not None:
            samples["weights"] = self.gathered_weights(weights)
        self.add_terms(first, **samples)

    def _weights_of(self, z: Tensor, mask: Tensor | None) -> Tensor | None:
        """Weights of this replica's samples, `(samples,)`, or None without a mask."""
        if "weights" not in inspect.signature(self.add_terms).parameters:
            refuse_mask(self, mask)
        weights = weights_of_mask(type(self).__name__, mask, z, self.sample_axes)
        return None if weights is None else ops.reshape(weights, (-1,))

    def compute_output_spec(self, z: Tensor, *args: Any, **kwargs: Any) -> Any:
        return keras.KerasTensor(z.shape, dtype=z.dtype)

    def samples_of(self, x: Tensor, weights: Tensor | None = None) -> Tensor:
        """What `add_terms` gets of a call argument: the global batch's samples."""
        return self.global_samples(x, weights)

    def gathered_weights(self, weights: Tensor) -> Tensor:
        """The weights of the samples that `add_terms` gets."""
        return gather_samples(weights)

    @abc.abstractmethod
    def add_terms(self, *args: Any, **kwargs: Any) -> None:
        """Adds the terms of the samples `(samples, n)` of the signals it reads.

        A subclass has the first of `reads` as its first argument and the others, and
        those of `may_read`, under their names.
        """

    def add_weighted(self, values: dict[str, Tensor], scale: Any = 1.0) -> None:
        """Adds each value with the weight `scale * <its name>_weight`."""
        for name, value in values.items():
            self.add_term(name, value, scale * self.value_of(f"{name}_weight"))
