"""Vector quantization with one codebook for all slots."""

import math
from typing import Any, Literal

import keras
from keras import ops

from qlayers.backend import Tensor
from qlayers.checks import check_count, check_last_axis
from qlayers.functional import nearest_vector
from qlayers.quantizers.nearest import NearestCodeQuantizer
from qlayers.schedules import Schedulable


@keras.saving.register_keras_serializable(package="qlayers")
class VectorQuantizer(NearestCodeQuantizer):
    """Replaces each slot of `code_dim` numbers by the nearest of `num_codes` vectors.

    The last axis is cut into `n` slots, which share one codebook `E`. Forward, for
    slot `i`:

        z_i = argmin_{e in E} ||x_i - e||_2          (ties: the lowest index)

    Pseudo-gradient: `dz/dx = 1` (straight-through), `dz/dE = 0`. Two losses are added,

        quantize_weight * ||stop_gradient(x) - z||^2   moves only the codebook,
        commit_weight   * ||x - stop_gradient(z)||^2   moves only the encoder,

    so the small "beta" of the VQ-VAE paper is `commit_weight`. Their unweighted values
    are tracked as `<name>_quantize_loss` and `<name>_commit_loss`.

    Args:
        num_codes: Number of vectors in the codebook.
        code_dim: Numbers in a slot.
        quantize_weight: Weight of the quantization loss, a number or a schedule.
        commit_weight: Weight of the commitment loss, a number or a schedule.
        loss_reduction: `"sum"` over the last axis, as in the papers' norms, or
            `"mean"`, as common public codes have it.
        revive_after: Training calls after which an unused code is moved onto a random
            input. Default: never.
        **kwargs: `seed`, `track_usage` and those of `keras.layers.Layer`.

    Input and output shape: `(..., n * code_dim)`; codes have the shape `(..., n)`.

    Example:

    ```python
    features = keras.layers.Dense(16 * 64)(inputs)
    z = qlayers.VectorQuantizer(num_codes=512, code_dim=64)(features)
    ```

    Reference:
        van den Oord et al. 2017, Neural Discrete Representation Learning, equation 3;
        as a baseline, Hsu et al. 2023, appendix B.
    """

    scored_as = "codes"

    def __init__(
        self,
        num_codes: int = 512,
        code_dim: int = 64,
        quantize_weight: Schedulable = 1.0,
        commit_weight: Schedulable = 0.25,
        loss_reduction: Literal["sum", "mean"] = "sum",
        revive_after: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            quantize_weight=quantize_weight,
            commit_weight=commit_weight,
            loss_reduction=loss_reduction,
            revive_after=revive_after,
            **kwargs,
        )
        self.num_codes = check_count("num_codes", num_codes, minimum=2)
        self.code_dim = check_count("code_dim", code_dim)

    @property
    def inputs_per_latent(self) -> int:
        return self.code_dim

    def continuous(self, inputs: Tensor) -> Tensor:
        return self._checked(inputs)

    def build(self, input_shape: Any) -> None:
        size = check_last_axis(type(self).__name__, input_shape, self.code_dim)
        # A random code then has an expected squared length of 1.
        limit = math.sqrt(3.0 / self.code_dim)
        uniform = keras.initializers.RandomUniform(-limit, limit, seed=self.seed)
        self.add_codebook((1, self.num_codes, self.code_dim), uniform)
        self.build_codes([self.num_codes] * (size // self.code_dim), size)

    def value_table(self) -> Tensor:
        """The codebook for every slot, float32 `(n, num_codes, code_dim)`."""
        self._check_built()
        shape = (self.num_latents, self.num_codes, self.code_dim)
        return ops.broadcast_to(self.table, shape)

    def _codes(self, x: Tensor) -> Tensor:
        slots = ops.reshape(x, (*ops.shape(x)[:-1], self.num_latents, self.code_dim))
        return nearest_vector(slots, ops.stop_gradient(self.table[0]))

    def _values_of(self, codes: Tensor) -> Tensor:
        vectors = ops.take(self.table[0], codes, axis=0)
        size = self.num_latents * self.code_dim
        return ops.reshape(vectors, (*ops.shape(codes)[:-1], size))

    def _repeated(self, codes: Tensor) -> Tensor:
        return ops.repeat(codes, self.code_dim, axis=-1)

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        return {**config, "num_codes": self.num_codes, "code_dim": self.code_dim}
