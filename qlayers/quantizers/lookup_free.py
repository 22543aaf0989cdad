"""Lookup-free quantization: every latent is a sign."""

import math
from typing import Any, Literal

import keras
import numpy as np
from keras import ops

from qlayers.backend import Tensor, select
from qlayers.checks import check_axis, check_choice, check_last_axis
from qlayers.functional import straight_through, unit_vectors
from qlayers.masks import fill_masked, share_of_weights, weighted_mean
from qlayers.quantizers.base import BaseQuantizer, batch_mean
from qlayers.regularizers.replicas import gather_samples
from qlayers.schedules import Schedulable

# Joint probabilities of 2^16 codes are what a batch can still hold.
_MOST_JOINT_BITS = 16


@keras.saving.register_keras_serializable(package="qlayers")
class LookupFreeQuantizer(BaseQuantizer):
    """Replaces each latent by its sign; entropies keep all combinations in use.

    Forward, for `n` latents:

        z_j = 1 if x_j > 0 else -1

    With `spherical=True`, binary spherical quantization, `u = x / |x|` stands for `x`
    and the values are `±1 / sqrt(n)`, so that `z` lies on the unit sphere too. The code
    of a latent is 0 or 1; `to_token` makes one of `2^n` tokens of them.

    Pseudo-gradient: `dz/dx = 1` (straight-through), `du/dx` if spherical. With the soft
    assignment to the `2^n` codes `c`,

        q(c | x) = exp(-|x - c|^2 / temperature) / sum over all codes,

    which is a product over the bits, two losses are added:

        entropy_weight * (E[H(q(c | x))] - diversity * H(E[q(c | x)]))
        commit_weight  * ||x - stop_gradient(z)||^2, mean over latents and samples.

    The first makes each input choose one code, and the (global) batch use all. Tracked
    are the unweighted values, as `<name>_entropy_loss` and `<name>_commit_loss`.

    Args:
        spherical: Whether inputs and values lie on the unit sphere.
        entropy: `"joint"` takes the entropy of the batch over all `2^n` codes, for `n`
            up to 16; `"factorized"` adds up those of the bits, an upper bound that
            costs nothing and knows no limit.
        entropy_weight: Weight of the entropies, a number or a schedule.
        diversity: Weight of the batch's entropy among them.
        commit_weight: Weight of the commitment, a number or a schedule.
        temperature: Softness of the assignment, a number or a schedule.
        axis: Axis of the latents: -1, or 1 for channels-first maps. Codes have it last.
        **kwargs: `seed`, `track_usage` and those of `keras.layers.Layer`.

    Input and output shape: `(..., n)`.

    Example:

    ```python
    layer = qlayers.LookupFreeQuantizer(entropy="factorized")
    z = layer(keras.layers.Dense(10)(features))
    ```

    Reference:
        Yu et al. 2023, Language Model Beats Diffusion: Tokenizer is Key to Visual
        Generation; spherical and factorized: Zhao et al. 2024, Image and
        Video Tokenization with Binary Spherical Quantization.
    """

    config_names = ("spherical", "entropy", "axis")

    def __init__(
        self,
        spherical: bool = False,
        entropy: Literal["joint", "factorized"] = "joint",
        entropy_weight: Schedulable = 0.1,
        diversity: Schedulable = 1.0,
        commit_weight: Schedulable = 0.25,
        temperature: Schedulable = 0.01,
        axis: int = -1,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.spherical = bool(spherical)
        self.entropy = check_choice("entropy", entropy, ("joint", "factorized"))
        self.entropy_weight = self.schedulable("entropy_weight", entropy_weight)
        self.diversity = self.schedulable("diversity", diversity)
        self.commit_weight = self.schedulable("commit_weight", commit_weight)
        self.temperature = self.schedulable("temperature", temperature, exclusive=True)
        self.axis = check_axis(axis)
        for term in ("entropy", "commit"):
            if not self.is_off(f"{term}_weight"):
                self.track_terms(f"{term}_loss")

    def build(self, input_shape: Any) -> None:
        shape = self._shape_with_axis_last(input_shape)
        n = check_last_axis(type(self).__name__, shape, multiple_of=1)
        is_joint = self.entropy == "joint" and not self.is_off("entropy_weight")
        if is_joint and n > _MOST_JOINT_BITS:
            raise ValueError(
                f'LookupFreeQuantizer with `entropy="joint"` lists all 2^n codes, for '
                f"n up to {_MOST_JOINT_BITS}. Received an input of shape "
                f'{tuple(input_shape)}, n = {n}. Use `entropy="factorized"`.'
            )
        self._size = 1.0 / math.sqrt(n) if self.spherical else 1.0
        self.build_codes([2] * n, n)

    def call(
        self, inputs: Tensor, training: bool | None = None, mask: Tensor | None = None
    ) -> Tensor:
        x = self._prepare(inputs)
        weights = self._sample_weights(mask, x)
        codes = self._codes(x)
        z = self._values_of(ops.maximum(codes, 0))
        if not self.is_off("entropy_weight"):
            value = self._entropy_loss(x, weights)
            self.add_term("entropy_loss", value, self.value_of("entropy_weight"))
        if not self.is_off("commit_weight"):
            squares = ops.square(x - ops.stop_gradient(z))
            value = batch_mean(squares, "mean", weights)
            self.add_term("commit_loss", value, self.value_of("commit_weight"))
        return self._finish(straight_through(x, z), codes, training, weights)

    def continuous(self, inputs: Tensor) -> Tensor:
        """The latents whose signs are taken, float32."""
        return self._axis_back(self._prepare(inputs))

    def value_table(self) -> Tensor:
        self._check_built()
        values = np.array([-self._size, self._size], "float32")
        return ops.broadcast_to(
            ops.convert_to_tensor(values), (self.num_latents, len(values))
        )

    def _prepare(self, inputs: Tensor) -> Tensor:
        x = super()._prepare(inputs)
        return unit_vectors(x)[0] if self.spherical else x

    def _codes(self, x: Tensor) -> Tensor:
        codes = ops.cast(x > 0, "int32")
        return select(ops.isnan(x), ops.full_like(codes, -1), codes)

    def _values_of(self, codes: Tensor) -> Tensor:
        return self._size * (2.0 * ops.cast(codes, "float32") - 1.0)

    def _entropy_loss(self, x: Tensor, weights: Tensor | None) -> Tensor:
        """Mean entropy of the samples less that of the mean sample."""
        # -|x - c|^2 is 2 x c plus what both codes of a bit share.
        exponent = ops.reshape(x, (-1, self.num_latents)) * (
            2.0 * self._size / self.value_of("temperature")
        )
        share: Any = 1.0
        if weights is not None:
            weights = ops.reshape(weights, (-1,))
            exponent = fill_masked(exponent, weights)
            share = share_of_weights(weights)
        of_samples = share * weighted_mean(
            ops.sum(_bit_entropy(exponent), axis=-1), weights
        )
        exponent = gather_samples(exponent)
        if weights is not None:
            weights = gather_samples(weights)
        if self.entropy == "factorized":
            mean = weighted_mean(ops.sigmoid(2.0 * exponent), weights)
            of_batch = ops.sum(_entropy_terms(ops.stack([mean, 1.0 - mean])))
        else:
            of_batch = ops.sum(_entropy_terms(_mean_of_codes(exponent, weights)))
        return of_samples - self.value_of("diversity") * of_batch


def _mean_of_codes(exponent: Tensor, weights: Tensor | None) -> Tensor:
    """Mean probability of each of the `2^n` codes, as a matrix.

    The probability of a code is that of its first bits times that of the others. So
    one product of two small matrices adds up the samples, and the `2^n` probabilities
    of each sample are never listed.

    Args:
        exponent: Half the logits of the bits, `(samples, n)`.
        weights: Weights of the samples, or None.
    """
    half = exponent.shape[-1] // 2
    first, second = map(_code_shares, (exponent[:, :half], exponent[:, half:]))
    if weights is not None:
        first = first * ops.expand_dims(weights, -1)
        total = ops.maximum(ops.sum(weights), 1e-30)
    else:
        total = ops.cast(ops.shape(exponent)[0], "float32")
    return ops.matmul(ops.transpose(first), second) / total


def _code_shares(exponent: Tensor) -> Tensor:
    """Probabilities of the codes of some bits, `(samples, 2^num_bits)`."""
    num_bits = exponent.shape[-1]
    if num_bits == 0:
        return 1.0 + ops.sum(exponent, axis=-1, keepdims=True)
    bits = np.arange(2**num_bits)[None] >> np.arange(num_bits)[:, None] & 1
    signs = (2.0 * bits - 1.0).astype("float32")
    return ops.softmax(ops.matmul(exponent, signs))


def _bit_entropy(exponent: Tensor) -> Tensor:
    """Entropy of a bit with the logit `2 * exponent`, in nats, also far from 0."""
    size = ops.abs(2.0 * exponent)
    return ops.softplus(-size) + size * ops.sigmoid(-size)


def _entropy_terms(p: Tensor) -> Tensor:
    return -p * ops.log(ops.maximum(p, 1e-30))
