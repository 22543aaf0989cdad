"""Stochastic quantization to a learned codebook, by distance."""

from typing import Any, Literal, get_args

import keras
from keras import ops

from qlayers.backend import Tensor
from qlayers.checks import (
    check_choice,
    check_count,
    check_last_axis,
    check_optional_count,
)
from qlayers.functional import (
    gumbel_softmax,
    nearest_code,
    nearest_vector,
    straight_through,
    uniform_kl,
)
from qlayers.masks import mask_codes
from qlayers.quantizers.base import BaseQuantizer, batch_mean, one_hot_of
from qlayers.quantizers.codebook import Codebook
from qlayers.quantizers.symbolic import shares_quantizer
from qlayers.schedules import Schedulable
from qlayers.signals import Signals

Distance = Literal["l1", "l2", "squared_l2"]
# Beyond this, squared distances overflow float32.
_LARGEST_FOR_SQUARES = 1e15


@keras.saving.register_keras_serializable(package="qlayers")
class GumbelQuantizer(BaseQuantizer):
    """Samples a code with a probability that falls with its distance.

    All latents share the codebook `M` of `num_values` scalars (or vectors, with
    `code_dim > 1`). With the distances `R_k = |x - M_k|` (Euclidean for vectors with
    `distance="l2"`), the posterior of a latent is
    `q = softmax(-R)`. Forward in training, with Gumbel noise `g`:

        y = softmax((-R + g) / temperature),    z = sum_k y_k M_k

    and at inference `z` is the nearest code (ties: the lowest index). Gradient in
    training: that of the formula, to the inputs and to the codebook alike; at
    inference `dz/dx = 1` (straight-through). With `kl_weight`, the loss
    `kl_weight * KL(q || uniform)` is added and tracked as `<name>_kl`.

    Called with `return_assignments=True` the layer also returns the weights `y`, of
    shape `(..., n, num_values)` (one-hot at inference), which a total-correlation
    discriminator wants.

    Args:
        num_values: Number of codes.
        code_dim: Numbers in a code; 1 for scalars.
        temperature: Temperature of the relaxed samples, a number or a schedule. The
            paper anneals `exp(-1e-5 * step)`, which is
            `ExponentialDecay(1.0, decay_steps=100_000, decay_rate=math.exp(-1))`.
        kl_weight: Weight of the divergence, a number or a schedule.
        distance: `"l1"`, equation 3 of the paper for scalars; `"l2"`, which is the same
            for scalars and equation 2 for vectors; or `"squared_l2"`, as in the public
            code. The gradient of `"l2"` is 0 on a code itself.
        kl_reduction: `"sum"` over latents, or `"mean"`, as in the public code.
        revive_after: Training calls after which a code that was nearest to nothing is
            moved onto a random input. Default: never.
        **kwargs: `seed`, `track_usage` and those of `keras.layers.Layer`.

    Input and output shape: `(..., n * code_dim)`; codes have the shape `(..., n)`.

    Example:

    ```python
    h = keras.layers.Dense(12)(features)
    z = qlayers.GumbelQuantizer(num_values=64, kl_weight=1e-3)(h)
    ```

    Reference:
        Baykal et al., Disentanglement with Factor Quantized VAEs, equations 2, 3, 4,
        8;
        Sonderby et al. 2017, Continuous Relaxation Training of Discrete Latent
        Variable Image Models.
    """

    scored_as = "codes"
    config_names = (
        "num_values",
        "code_dim",
        "revive_after",
        "distance",
        "kl_reduction",
    )

    def __init__(
        self,
        num_values: int = 64,
        code_dim: int = 1,
        temperature: Schedulable = 1.0,
        kl_weight: Schedulable = 0.0,
        distance: Distance = "l1",
        kl_reduction: Literal["sum", "mean"] = "sum",
        revive_after: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.revive_after = check_optional_count("revive_after", revive_after)
        self.num_values = check_count("num_values", num_values, minimum=2)
        self.code_dim = check_count("code_dim", code_dim)
        self.temperature = self.schedulable("temperature", temperature, exclusive=True)
        self.kl_weight = self.schedulable("kl_weight", kl_weight)
        self.distance = check_choice("distance", distance, get_args(Distance))
        self.kl_reduction = check_choice("kl_reduction", kl_reduction, ("sum", "mean"))
        if not self.is_off("kl_weight"):
            self.track_terms("kl")

    @property
    def inputs_per_latent(self) -> int:
        return self.code_dim

    def continuous(self, inputs: Tensor) -> Tensor:
        return self._checked(inputs)

    def build(self, input_shape: Any) -> None:
        size = check_last_axis(type(self).__name__, input_shape, self.code_dim)
        normal = keras.initializers.RandomNormal(stddev=1.0, seed=self.seed)
        shape = (1, self.num_values, self.code_dim)
        self._codebook = Codebook(self, shape, normal, self.revive_after)
        self.codebook = self._codebook.variable
        self.build_codes([self.num_values] * (size // self.code_dim), size)

    def call(
        self,
        inputs: Tensor,
        training: bool | None = None,
        return_assignments: bool = False,
        mask: Tensor | None = None,
    ) -> Tensor | tuple[Tensor, Tensor]:
        x = self._prepare(inputs)
        weights_of_samples = self._sample_weights(mask, x)
        with self._codebook.read_once():
            z, codes, weights = self._quantize(x, training, weights_of_samples)
        z = self._finish(z, codes, training, weights_of_samples)
        return (z, weights) if return_assignments else z

    def _quantize(
        self, x: Tensor, training: bool | None, weights_of_samples: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Latents, codes and assignments."""
        codes = self._codes(x)
        logits = -self._distances(x) if self._needs_logits(training) else None
        self._add_kl(logits, weights_of_samples)
        if training:
            weights = gumbel_softmax(
                logits, self.value_of("temperature"), seed=self.seed_generator
            )
            z = self._join(ops.matmul(weights, self._codebook.table[0]))
        else:
            weights = one_hot_of(codes, self.num_values)
            z = straight_through(x, self._values_of(ops.maximum(codes, 0)))
        if self.learns(training):
            used = mask_codes(codes, weights_of_samples)
            self._codebook.revive(used, x, weights_of_samples)
        return z, codes, weights

    def value_table(self) -> Tensor:
        """Codes of every latent, float32 `(n, num_values)`.

        With `code_dim > 1` the shape is `(n, num_values, code_dim)`.
        """
        self._check_built()
        shape = (self.num_latents, self.num_values, self.code_dim)
        table = ops.broadcast_to(self._codebook.table, shape)
        return table[..., 0] if self.code_dim == 1 else table

    @shares_quantizer
    def logits(self, inputs: Tensor) -> Tensor:
        """float32 logits of the codes `(..., n, num_values)`: negative distances."""
        return -self._distances(self._prepare(inputs))

    @shares_quantizer
    def assignments(self, inputs: Tensor) -> Tensor:
        """Posterior of the codes, float32 `(..., n, num_values)`, without noise."""
        return ops.softmax(self.logits(inputs), axis=-1)

    @shares_quantizer
    def soft_values(self, inputs: Tensor) -> Tensor:
        """Mean code of each latent, float32 like the inputs, without noise."""
        return self._join(ops.matmul(self.assignments(inputs), self._codebook.table[0]))

    def signals(self, inputs: Tensor) -> Signals:
        z, weights = self(inputs, return_assignments=True)
        return self._with_continuous({"latents": z, "assignments": weights}, inputs)

    def _needs_logits(self, training: bool | None) -> bool:
        return bool(training) or not self.is_off("kl_weight")

    def _add_kl(self, logits: Tensor | None, weights: Tensor | None) -> None:
        if not self.is_off("kl_weight"):
            value = batch_mean(uniform_kl(logits), self.kl_reduction, weights)
            self.add_term("kl", value, self.value_of("kl_weight"))

    def _slots(self, x: Tensor) -> Tensor:
        return ops.reshape(x, (*ops.shape(x)[:-1], self.num_latents, self.code_dim))

    def _join(self, slots: Tensor) -> Tensor:
        size = self.num_latents * self.code_dim
        return ops.reshape(slots, (*ops.shape(slots)[:-2], size))

    def _distances(self, x: Tensor) -> Tensor:
        """Distances of shape `(..., n, num_values)`."""
        x = ops.clip(x, -_LARGEST_FOR_SQUARES, _LARGEST_FOR_SQUARES)
        difference = ops.expand_dims(self._slots(x), -2) - self._codebook.table[0]
        if self.distance == "l1":
            return ops.sum(ops.abs(difference), axis=-1)
        squares = ops.sum(ops.square(difference), axis=-1)
        if self.distance == "squared_l2":
            return squares
        # The root has no derivative at 0.
        is_code = squares <= 0.0
        root = ops.sqrt(ops.where(is_code, ops.ones_like(squares), squares))
        return ops.where(is_code, ops.zeros_like(squares), root)

    def _codes(self, x: Tensor) -> Tensor:
        table = ops.stop_gradient(self._codebook.table[0])
        if self.code_dim == 1:
            return nearest_code(x, table[:, 0])
        if self.distance == "l1":
            return nearest_vector(self._slots(x), table, distance="l1")
        return nearest_vector(self._slots(x), table)

    def _values_of(self, codes: Tensor) -> Tensor:
        return self._join(ops.take(self._codebook.table[0], codes, axis=0))

    def _repeated(self, codes: Tensor) -> Tensor:
        return ops.repeat(codes, self.code_dim, axis=-1)
