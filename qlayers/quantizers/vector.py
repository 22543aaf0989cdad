"""Vector quantization with one codebook for all slots."""

import functools
import math
from typing import Any, ClassVar, Literal

import keras
import numpy as np
from keras import ops

from qlayers.backend import Tensor, take_rows
from qlayers.checks import (
    check_axis,
    check_choice,
    check_count,
    check_last_axis,
    check_number,
)
from qlayers.functional import nearest_vector, rotate_through, unit_vectors
from qlayers.quantizers.nearest import NearestCodeQuantizer
from qlayers.quantizers.symbolic import shares_quantizer
from qlayers.quantizers.vector_codebook import MovingAverageCodebook, VectorCodebook
from qlayers.schedules import Schedulable


@keras.saving.register_keras_serializable(package="qlayers")
class VectorQuantizer(NearestCodeQuantizer):
    """Replaces each slot of `code_dim` numbers by the nearest of `num_codes` vectors.

    The last axis is cut into `n` slots, which share one codebook `E`. Forward, for
    slot `i`:

        z_i = argmin_{e in E} ||x_i - e||_2          (ties: the lowest index)

    With `similarity="cosine"` the slots and the codes are divided by their lengths
    first, so that `z_i` is the code of the largest cosine, of length 1.

    Pseudo-gradient: `dz/dx = 1` (straight-through), or with `gradient="rotation"`

        dz_i/dx_i = |z_i| / |x_i| * (I - 2 r r^T + 2 v u^T),
        u = x_i / |x_i|,   v = z_i / |z_i|,   r = (u + v) / |u + v|;

    `dz/dE = 0` in both. Under cosine similarity `x_i` stands for the normalised slot,
    and the gradient of the normalisation follows. Losses:

        quantize_weight * ||stop_gradient(x) - z||^2   moves only the codebook,
        commit_weight   * ||x - stop_gradient(z)||^2   moves only the encoder,

    so the small "beta" of the VQ-VAE paper is `commit_weight`. Their unweighted values
    are tracked as `<name>_quantize_loss` and `<name>_commit_loss`. With
    `codebook_update="moving_average"` the first loss is left out: instead, with `n_k`
    the number and `s_k` the sum of the slots of the global batch that chose code `k`,
    every training call sets

        N_k <- decay * N_k + (1 - decay) * n_k,
        m_k <- decay * m_k + (1 - decay) * s_k,
        e_k <- m_k / N_k      (N_k after Laplace smoothing with 1e-5).

    The defaults keep the codebook in use. The layer of the paper alone, as the models
    of this package have it, has the options `VectorQuantizer.PLAIN` and
    `loss_reduction="sum"`.

    Args:
        num_codes: Number of vectors in the codebook.
        code_dim: Numbers in a slot.
        quantize_weight: Weight of the quantization loss, a number or a schedule. With
            moving averages it is 0.
        commit_weight: Weight of the commitment loss, a number or a schedule.
        loss_reduction: `"mean"` over the last axis, which goes with a mean over pixels
            or features, or `"sum"`, as in the papers' norms.
        revive_after: Training calls after which an unused code is moved onto a random
            input, or None for never.
        codebook_update: `"gradient"` or `"moving_average"`.
        init: `"data"` sets the codes by k-means on the first training batch,
            `"uniform"` draws them.
        similarity: `"euclidean"` or `"cosine"`.
        gradient: `"straight_through"` or `"rotation"`.
        decay: Weight of the past in moving averages, below 1; the paper's is 0.99, for
            long training.
        axis: Axis of the slots: -1, or 1 for channels-first maps. Codes have it last.
        **kwargs: `seed`, `track_usage` and those of `keras.layers.Layer`.

    Input and output shape: `(..., n * code_dim)`; codes have the shape `(..., n)`.

    Example:

    ```python
    features = keras.layers.Dense(16 * 64)(inputs)
    z = qlayers.VectorQuantizer(num_codes=512, code_dim=64)(features)
    ```

    Reference:
        van den Oord et al. 2017, Neural Discrete Representation Learning, equation 3,
        and appendix A.1 for moving averages; as a baseline, Hsu et al. 2023, appendix
        B. Cosine: Yu et al. 2021, Vector-quantized Image Modeling with Improved VQGAN.
        Rotation: Fifty et al. 2024, Restructuring Vector Quantization with the Rotation
        Trick.
    """

    #: Options of the layer as its paper has it, which are also those of version 0.1.
    PLAIN: ClassVar[dict[str, Any]] = {
        "revive_after": None,
        "codebook_update": "gradient",
        "init": "uniform",
        "similarity": "euclidean",
        "gradient": "straight_through",
    }

    scored_as = "codes"
    config_names = (
        "num_codes",
        "code_dim",
        "codebook_update",
        "init",
        "similarity",
        "gradient",
        "decay",
        "axis",
    )

    def __init__(
        self,
        num_codes: int = 512,
        code_dim: int = 64,
        quantize_weight: Schedulable = 1.0,
        commit_weight: Schedulable = 0.25,
        loss_reduction: Literal["sum", "mean"] = "mean",
        revive_after: int | None = 10,
        codebook_update: Literal["gradient", "moving_average"] = "moving_average",
        init: Literal["data", "uniform"] = "data",
        similarity: Literal["euclidean", "cosine"] = "euclidean",
        gradient: Literal["straight_through", "rotation"] = "straight_through",
        decay: float = 0.8,
        axis: int = -1,
        **kwargs: Any,
    ) -> None:
        is_averaged = codebook_update == "moving_average"
        super().__init__(
            quantize_weight=0.0 if is_averaged else quantize_weight,
            commit_weight=commit_weight,
            loss_reduction=loss_reduction,
            revive_after=revive_after,
            **kwargs,
        )
        self.num_codes = check_count("num_codes", num_codes, minimum=2)
        self.code_dim = check_count("code_dim", code_dim)
        for name, value, choices in (
            ("codebook_update", codebook_update, ("gradient", "moving_average")),
            ("init", init, ("data", "uniform")),
            ("similarity", similarity, ("euclidean", "cosine")),
            ("gradient", gradient, ("straight_through", "rotation")),
        ):
            setattr(self, name, check_choice(name, value, choices))
        self.axis = check_axis(axis)
        self.decay = check_number("decay", decay)
        if self.decay >= 1.0:
            raise ValueError(f"`decay` must be below 1. Received: {decay!r}.")

    @property
    def inputs_per_latent(self) -> int:
        return self.code_dim

    @shares_quantizer
    def continuous(self, inputs: Tensor) -> Tensor:
        """The slots as they are compared with the codes, float32."""
        x = self._checked(inputs)
        x = self._as_unit(x) if self.similarity == "cosine" else x
        return self._axis_back(x)

    def build(self, input_shape: Any) -> None:
        shape = self._shape_with_axis_last(input_shape)
        size = check_last_axis(type(self).__name__, shape, self.code_dim)
        # A random code then has an expected squared length of 1.
        limit = math.sqrt(3.0 / self.code_dim)
        uniform = keras.initializers.RandomUniform(-limit, limit, seed=self.seed)
        shape = (1, self.num_codes, self.code_dim)
        kind: Any = VectorCodebook
        if self.codebook_update == "moving_average":
            kind = functools.partial(MovingAverageCodebook, self.decay)
        from_data = self.init == "data"
        self._codebook = kind(
            self, shape, uniform, self.revive_after, starts_from_data=from_data
        )
        self.codebook = self._codebook.variable
        self.build_codes([self.num_codes] * (size // self.code_dim), size)

    @property
    def table(self) -> Tensor:
        """The current codes, `(1, num_codes, code_dim)`."""
        table = super().table
        return unit_vectors(table)[0] if self.similarity == "cosine" else table

    def value_table(self) -> Tensor:
        """The codebook for every slot, float32 `(n, num_codes, code_dim)`."""
        self._check_built()
        shape = (self.num_latents, self.num_codes, self.code_dim)
        return ops.broadcast_to(self.table, shape)

    def _prepare(self, inputs: Tensor) -> Tensor:
        x = super()._prepare(inputs)
        return self._as_unit(x) if self.similarity == "cosine" else x

    def _as_unit(self, x: Tensor) -> Tensor:
        return ops.reshape(unit_vectors(self._slots(x))[0], ops.shape(x))

    def _slots(self, x: Tensor) -> Tensor:
        return ops.reshape(x, (*ops.shape(x)[:-1], self.num_latents, self.code_dim))

    def _with_gradient(self, x: Tensor, z: Tensor) -> Tensor:
        if self.gradient == "straight_through":
            return super()._with_gradient(x, z)
        rotated = rotate_through(self._slots(x), self._slots(z))
        return ops.reshape(rotated, ops.shape(x))

    def _codes(self, x: Tensor) -> Tensor:
        return nearest_vector(self._slots(x), ops.stop_gradient(self.table[0]))

    def _values_of(self, codes: Tensor) -> Tensor:
        return self._rows_of(self.table[0], codes)

    def _values_or_nan(self, codes: Tensor) -> Tensor:
        # A first row of NaN: to choose between values and NaN, number by number,
        # takes longer than to take the values. (`ops.pad` wakes a second thread.)
        no_value = np.full((1, self.code_dim), np.nan, dtype="float32")
        table = ops.concatenate([no_value, self.table[0]])
        return self._rows_of(table, ops.maximum(codes, -1) + 1)

    def _rows_of(self, table: Tensor, codes: Tensor) -> Tensor:
        vectors = take_rows(table, codes)
        size = self.num_latents * self.code_dim
        return ops.reshape(vectors, (*ops.shape(codes)[:-1], size))

    def _repeated(self, codes: Tensor) -> Tensor:
        return ops.repeat(codes, self.code_dim, axis=-1)

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "VectorQuantizer":
        # Files of version 0.1 do not name the options that it lacked.
        return super().from_config({**cls.PLAIN, **config})
