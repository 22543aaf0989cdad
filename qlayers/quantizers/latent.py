"""Latent quantization: one scalar codebook for each latent."""

from typing import Any, Literal

import keras
import numpy as np
from keras import ops

from qlayers.backend import Tensor, take_numbers
from qlayers.checks import check_choice, check_count, check_last_axis, check_number
from qlayers.functional import nearest_code
from qlayers.quantizers.nearest import NearestCodeQuantizer
from qlayers.schedules import Schedulable


@keras.saving.register_keras_serializable(package="qlayers")
class LatentQuantizer(NearestCodeQuantizer):
    r"""Replaces each latent by the nearest value of its own learned codebook.

    Forward, for latent `j` with the codebook `V_j` of `num_values` scalars:

        z_j = argmin_{v in V_j} |x_j - v|            (ties: the lowest index)

    Pseudo-gradient: `dz/dx = 1` (straight-through), `dz/dV = 0`. Two losses are added,

        quantize_weight * ||stop_gradient(x) - z||^2   moves only the codebook,
        commit_weight   * ||x - stop_gradient(z)||^2   moves only the encoder,

    the squared norm being summed over latents and averaged over samples. Their
    unweighted values are tracked as `<name>_quantize_loss` and `<name>_commit_loss`.

    Args:
        num_values: Number of values in each codebook.
        shared_codebook: Whether all latents share one codebook (the paper's
            global-codebook ablation).
        init_range: Codebooks start as `linspace(-init_range, init_range)`.
        init: `"even"`, as above, or `"normal"`: draws from a standard normal.
        quantize_weight: Weight of the quantization loss, a number or a schedule.
        commit_weight: Weight of the commitment loss, a number or a schedule.
        loss_reduction: `"sum"` over latents, as the paper's norms say, or `"mean"`,
            as its public code does (the same as weights divided by the number of
            latents).
        revive_after: Training calls after which an unused value is moved onto a
            random input. Default: never.
        **kwargs: `seed`, `track_usage` and those of `keras.layers.Layer`.

    Input and output shape: `(..., n)`.

    Example:

    ```python
    inputs = keras.Input((64,))
    z = qlayers.LatentQuantizer(num_values=10)(keras.layers.Dense(12)(inputs))
    outputs = keras.layers.Dense(64)(z)
    autoencoder = keras.Model(inputs, outputs)
    ```

    Reference:
        Hsu et al. 2023, Disentanglement via Latent Quantization, section 3,
        equations 4 and 5, Algorithm 1.
    """

    config_names: tuple[str, ...] = (
        "num_values",
        "shared_codebook",
        "init_range",
        "init",
    )

    def __init__(
        self,
        num_values: int = 10,
        shared_codebook: bool = False,
        init_range: float = 0.5,
        quantize_weight: Schedulable = 1e-2,
        commit_weight: Schedulable = 1e-2,
        loss_reduction: Literal["sum", "mean"] = "sum",
        revive_after: int | None = None,
        init: Literal["even", "normal"] = "even",
        **kwargs: Any,
    ) -> None:
        super().__init__(
            quantize_weight=quantize_weight,
            commit_weight=commit_weight,
            loss_reduction=loss_reduction,
            revive_after=revive_after,
            **kwargs,
        )
        self.num_values = check_count("num_values", num_values, minimum=2)
        self.shared_codebook = bool(shared_codebook)
        self.init_range = check_number("init_range", init_range, 0.0, exclusive=True)
        self.init = check_choice("init", init, ("even", "normal"))

    def build(self, input_shape: Any) -> None:
        n = check_last_axis(type(self).__name__, input_shape, multiple_of=1)
        rows = 1 if self.shared_codebook else n
        self.add_codebook((rows, self.num_values, 1), self._start)
        self.build_codes([self.num_values] * n, n)

    def _start(self, shape: Any, dtype: Any = None) -> Tensor:
        """The codebooks' first values."""
        if self.init == "normal":
            return keras.initializers.RandomNormal(stddev=1.0, seed=self.seed)(shape)
        grid = np.linspace(-self.init_range, self.init_range, self.num_values)
        start = np.broadcast_to(grid[:, None], shape)
        return ops.convert_to_tensor(start.astype("float32"))

    def value_table(self) -> Tensor:
        self._check_built()
        return ops.broadcast_to(self.table[..., 0], (self.num_latents, self.num_values))

    def _codes(self, x: Tensor) -> Tensor:
        return nearest_code(x, ops.stop_gradient(self.table[..., 0]))

    def _values_of(self, codes: Tensor) -> Tensor:
        if not self.shared_codebook:
            # One flat table: latent j owns its j-th stretch of num_values entries.
            offsets = np.arange(self.num_latents, dtype="int32") * self.num_values
            codes = ops.add(codes, offsets)
        return take_numbers(ops.reshape(self.table, (-1,)), codes)
