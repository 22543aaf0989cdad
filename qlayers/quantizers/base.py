"""What all quantizers share."""

import abc
from typing import Any, ClassVar, Literal

import keras
import numpy as np
from keras import ops

from qlayers.backend import Tensor, as_float32
from qlayers.checks import check_choice, check_codes, check_no_nan
from qlayers.masks import (
    fill_masked,
    mask_codes,
    share_of_weights,
    weighted_mean,
    weights_of_mask,
)
from qlayers.quantizers.code_usage import CodeUsage
from qlayers.quantizers.codebook import LARGEST
from qlayers.quantizers.symbolic import shares_quantizer
from qlayers.quantizers.tokens import from_token, to_token
from qlayers.signals import Signals
from qlayers.term_layer import TermLayer
from qlayers.weight_decay import exclude_from_weight_decay


class BaseQuantizer(TermLayer, abc.ABC):
    """Base of the quantizers: codes, values, usage statistics and a seed.

    A quantizer says itself what models and scores need to know of it:
    `inputs_per_latent`, `scored_as`, `is_discrete`, `continuous(inputs)`,
    `soft_values(inputs)` and `signals(inputs)`.

    A method of one tensor that reads weights is decorated with `shares_quantizer`, so
    that it follows training in a functional graph as well.

    A subclass sets `codes_per_latent` (codes per latent) in `build` by calling
    `build_codes`, and implements `call`, `_codes`, `_values_of` and `value_table`.

    Masked positions have no part in losses, usage and updates of the codes; a subclass
    whose `call` has a `mask` sees to it. The mask is passed on.

    With `trainable=False` nothing that the layer keeps changes: neither codes, by
    revival or moving averages, nor the step that schedules are read at. No optimizer's
    weight decay shrinks its weights.

    Args:
        seed: Integer seed of the layer's random draws.
        track_usage: `"mean"` shows the mean perplexity and usage of the codes in the
            history, `"per_latent"` also those of every latent, `None` neither.
        **kwargs: Keyword arguments of `keras.layers.Layer`.

    Attributes:
        scored_as: How metrics read the latents: by their `"codes"` (values without an
            order), by the `"values"` of their codes, or as real numbers (`"reals"`).
        is_discrete: Whether a latent has finitely many values.
    """

    scored_as: ClassVar[Literal["codes", "values", "reals"]] = "values"
    is_discrete: ClassVar[bool] = True
    config_names: tuple[str, ...] = ("seed", "track_usage")
    # Where the latents are; quantizers of feature maps have it as an argument.
    axis: int = -1

    def __init__(
        self,
        *,
        seed: int | None = None,
        track_usage: Literal["mean", "per_latent"] | None = "mean",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        # A subclass that does not look at masks drops them, and Keras says so.
        self.supports_masking = self._call_has_mask_arg
        self.seed = seed
        self.seed_generator = keras.random.SeedGenerator(seed)
        self.track_usage = check_choice(
            "track_usage", track_usage, ("mean", "per_latent", None)
        )
        self.num_latents = 0
        self.input_size = 0
        self.usage: CodeUsage | None = None
        self._is_numbered = False

    def build_codes(self, codes_per_latent: Any, input_size: int) -> None:
        """Remembers the sizes of the latents and starts counting codes.

        Args:
            codes_per_latent: Number of codes of each latent.
            input_size: Size of the last axis of the input.
        """
        self.codes_per_latent = tuple(int(count) for count in codes_per_latent)
        self.num_latents = len(self.codes_per_latent)
        self.input_size = input_size
        if self.track_usage is not None:
            self.usage = CodeUsage(
                self.codes_per_latent, detail=self.track_usage, name=self.name
            )
            self.usage.cure = self.idle_cure()
        self.build_step()

    def idle_cure(self) -> str:
        """What helps if most codes are not used, in a sentence."""
        if getattr(self, "revive_after", 0) is None:
            return "Set `revive_after=10`: unused codes then move onto inputs."
        return "Fewer codes, a smaller learning rate or normalized inputs may help."

    def add_weight(self, *args: Any, **kwargs: Any) -> keras.Variable:
        """As in Keras. Values of codes are no size of a network: they never decay."""
        variable = super().add_weight(*args, **kwargs)
        exclude_from_weight_decay(variable)
        return variable

    def learns(self, training: bool | None) -> bool:
        """Whether this call may change codes and counters: not if the layer is frozen.

        Args:
            training: The argument of `call`.
        """
        return bool(training) and self.trainable

    @property
    def inputs_per_latent(self) -> int:
        """Size of the input's last axis that one latent needs. Known before `build`."""
        return 1

    def continuous(self, inputs: Tensor) -> Tensor | None:
        """The latents before quantization, float32, without noise.

        Of the output's shape; None where there are none. The default are the inputs,
        or None where a latent has several.
        """
        return self._checked(inputs) if self.inputs_per_latent == 1 else None

    def soft_values(self, inputs: Tensor) -> Tensor:
        """What the latents would be without rounding, float32, without noise.

        The straight-through gap decodes these. The default is `continuous(inputs)`; a
        quantizer that has none gives the values of its codes.
        """
        soft = self.continuous(inputs)
        return self.lookup(self.codes(inputs)) if soft is None else soft

    def signals(self, inputs: Tensor) -> Signals:
        """Calls the layer; returns its output and what else regularizers may read."""
        return self._with_continuous({"latents": self(inputs)}, inputs)

    def _with_continuous(self, signals: Signals, inputs: Tensor) -> Signals:
        continuous = self.continuous(inputs)
        return signals if continuous is None else {**signals, "continuous": continuous}

    @shares_quantizer
    def codes(self, inputs: Tensor) -> Tensor:
        """Deterministic int32 code indices of `inputs`, one for each latent.

        A NaN raises a ValueError in eager mode; inside a graph its index is -1. Of a
        symbolic tensor, these are the codes of a `qlayers.Codes` layer, which follow
        the codebook wherever training takes it.
        """
        return self._codes(self._prepare(inputs))

    @shares_quantizer
    def lookup(self, codes: Tensor) -> Tensor:
        """Values of the layer's output that belong to `codes`.

        Codes out of range raise a ValueError in eager mode; inside a graph negative
        ones give NaN. Of symbolic codes, these are the values of a `qlayers.Lookup`
        layer, which follow the codebook wherever training takes it.
        """
        self.build_from_codes(getattr(codes, "shape", np.shape(codes)))
        check_codes(f"{type(self).__name__}.lookup", codes, self.codes_per_latent)
        values = self._values_or_nan(ops.cast(codes, "int32"))
        return ops.cast(self._axis_back(values), self.compute_dtype)

    def build_from_codes(self, shape: Any) -> None:
        """Builds the layer, unless it is built, for codes of the shape `(..., n)`."""
        if not self.built and len(shape) > 0 and shape[-1]:
            self.build((None, self.inputs_per_latent * shape[-1]))
        self._check_built()

    def to_token(self, codes: Tensor) -> Tensor:
        """One int32 token for the codes of all latents, `(..., n)` to `(...)`.

        The token of codes `c` is `c_0 + m_0 * (c_1 + m_1 * (c_2 + ...))`, with `m_j`
        the number of codes of latent `j`. It is -1 where a code is. At most 2^31
        combinations have tokens.
        """
        self.build_from_codes(getattr(codes, "shape", np.shape(codes)))
        return to_token(codes, self.codes_per_latent)

    def from_token(self, tokens: Tensor) -> Tensor:
        """The codes behind tokens of `to_token`, `(...)` to `(..., n)`."""
        self._check_built()
        return from_token(tokens, self.codes_per_latent)

    @abc.abstractmethod
    def value_table(self) -> Tensor:
        """The values that each latent can take, float32 `(n, num_values)`."""

    @abc.abstractmethod
    def _codes(self, x: Tensor) -> Tensor:
        """Codes of float32 inputs without infinities."""

    @abc.abstractmethod
    def _values_of(self, codes: Tensor) -> Tensor:
        """float32 values of valid codes."""

    def _values_or_nan(self, codes: Tensor) -> Tensor:
        """float32 values of codes; NaN, without a gradient, where one is negative."""
        values = self._values_of(ops.maximum(codes, 0))
        is_code = self._repeated(codes) >= 0
        # A scalar NaN: tf2onnx multiplies tensors by 0 and 1 to choose between them.
        return ops.where(is_code, values, np.nan)

    def _repeated(self, codes: Tensor) -> Tensor:
        """Repeats codes so that they have the shape of the values."""
        return codes

    def _prepare(self, inputs: Tensor) -> Tensor:
        """float32 inputs without infinities; a NaN raises in eager mode."""
        return ops.clip(self._checked(inputs), -LARGEST, LARGEST)

    def _checked(self, inputs: Tensor) -> Tensor:
        """float32 inputs of the right size; a NaN raises in eager mode."""
        if not self.built:
            self.build(inputs.shape)
        x = self._axis_last(as_float32(inputs))
        if len(x.shape) == 0 or x.shape[-1] != self.input_size:
            raise ValueError(
                f"{type(self).__name__} was built for inputs of shape "
                f"(..., {self.input_size}). Received shape {tuple(x.shape)}."
            )
        check_no_nan(type(self).__name__, x)
        return x

    def _axis_last(self, x: Tensor) -> Tensor:
        """Inputs with the axis of the latents last."""
        if self.axis == -1 or len(x.shape) < 2:
            return x
        return ops.moveaxis(x, self.axis, -1)

    def _axis_back(self, x: Tensor) -> Tensor:
        """Values with the axis of the latents where the inputs have it."""
        return x if self.axis == -1 else ops.moveaxis(x, -1, self.axis)

    def _shape_with_axis_last(self, shape: Any) -> tuple[Any, ...]:
        if self.axis == -1 or len(shape) < 2:
            return tuple(shape)
        rest = list(shape)
        size = rest.pop(self.axis)
        return (*rest, size)

    def _check_built(self) -> None:
        if not self.built:
            raise ValueError(
                f"{type(self).__name__} does not know its number of latents yet. "
                "Call the layer on a tensor, or `build(input_shape)`, first."
            )

    def _sample_weights(self, mask: Tensor | None, x: Tensor) -> Tensor | None:
        """Weights of the prepared inputs `(..., n)`: 0 where masked; or None."""
        return weights_of_mask(type(self).__name__, mask, x)

    def _finish(
        self,
        outputs: Tensor,
        codes: Tensor | None,
        training: bool | None,
        weights: Tensor | None = None,
    ) -> Tensor:
        """Counts codes and steps; gives the output the dtype of the policy."""
        if self.usage is not None and codes is not None:
            self.usage.count(mask_codes(codes, weights))
        self.advance_step(self.learns(training))
        return ops.cast(self._axis_back(outputs), self.compute_dtype)

    def _number(self) -> None:
        """Has a file give the layer a number, by which `Codes` and `Lookup` find it.

        Keras numbers what it serializes when it meets it for the second time. The
        entry of the first time stays without, if it lies inside another one's config.
        """
        if not self._is_numbered:
            self._is_numbered = True
            keras.saving.serialize_keras_object(self)
            self._is_numbered = False

    def get_config(self) -> dict[str, Any]:
        self._number()
        return super().get_config()


def one_hot_of(codes: Tensor, num_values: int) -> Tensor:
    """float32 one-hot vectors of codes; NaN where the code is -1."""
    one_hot = ops.one_hot(codes, num_values, dtype="float32")
    return ops.where(ops.expand_dims(codes, -1) < 0, np.nan, one_hot)


def batch_mean(
    per_latent: Tensor, reduction: str, weights: Tensor | None = None
) -> Tensor:
    """Mean over samples of the sum or the mean over the last axis.

    Args:
        per_latent: Tensor of shape `(..., n)`.
        reduction: `"sum"` or `"mean"`.
        weights: Weights of the samples, of the leading shape. Default: all alike.
    """
    if weights is None:
        mean = ops.mean(per_latent)
    else:
        rows = ops.reshape(per_latent, (-1, per_latent.shape[-1]))
        weights = ops.reshape(weights, (-1,))
        rows = fill_masked(rows, weights)
        share = share_of_weights(weights)
        mean = share * weighted_mean(ops.mean(rows, axis=-1), weights)
    return mean * per_latent.shape[-1] if reduction == "sum" else mean
