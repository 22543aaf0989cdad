"""Finite scalar quantization: a fixed grid in [-1, 1]."""

from collections.abc import Callable
from typing import Any, Literal

import keras
import numpy as np
from keras import ops

from qlayers.backend import Tensor, select
from qlayers.checks import check_axis, check_choice, check_count, check_last_axis
from qlayers.functional import straight_through
from qlayers.quantizers.base import BaseQuantizer

_SQUASHED: dict[str, Callable[[Tensor], Tensor]] = {
    "tanh": ops.tanh,
    "sigmoid": lambda x: 2.0 * ops.sigmoid(1.6 * x) - 1.0,
    "clip": lambda x: ops.clip(x, -1.0, 1.0),
}


@keras.saving.register_keras_serializable(package="qlayers")
class FiniteScalarQuantizer(BaseQuantizer):
    """Squashes each latent into [-1, 1] and rounds it to an even grid.

    Forward, with `m = num_values` and the squashed latent `s`:

        z = 2 / (m - 1) * round((m - 1) / 2 * (s(x) + 1)) - 1

    Halves are rounded to even. Pseudo-gradient: `dz/dx = ds/dx`, that is,
    straight-through past the rounding only. With `squash`

        "tanh":     s = tanh(x),                    ds/dx = 1 - s^2,
        "sigmoid":  s = 2 sigmoid(1.6 x) - 1,       ds/dx = 0.8 (1 - s^2),
        "clip":     s = min(max(x, -1), 1),         ds/dx = 1 inside, 0 outside.

    The sigmoid spreads normal inputs more evenly over the grid than tanh does; the clip
    is for inputs that are bounded already, as in `ResidualQuantizer`. Nothing is
    learned and no loss is added; no table of all code combinations is ever made.

    Args:
        num_values: Number of grid values, at least 2, or a list of one number for
            each latent.
        squash: `"tanh"`, `"sigmoid"` or `"clip"`.
        axis: Axis of the latents: -1, or 1 for channels-first maps. Codes have it last.
        **kwargs: `seed` and `track_usage` of the quantizers, and those of
            `keras.layers.Layer`.

    Input shape: `(..., n)`. Output shape: the same, values in [-1, 1].

    Example:

    ```python
    z = qlayers.FiniteScalarQuantizer(num_values=12)(keras.layers.Dense(12)(features))
    ```

    Reference:
        Hsu et al. 2024, Tripod, equation 10; Mentzer et al. 2023, Finite Scalar
        Quantization. Sigmoid: iFSQ, arXiv 2601.17124.
    """

    config_names = ("num_values", "squash", "axis")

    def __init__(
        self,
        num_values: int | list[int] = 12,
        squash: Literal["tanh", "sigmoid", "clip"] = "tanh",
        axis: int = -1,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.squash = check_choice("squash", squash, tuple(_SQUASHED))
        self.axis = check_axis(axis)
        if isinstance(num_values, list | tuple):
            checked = [check_count("num_values", m, minimum=2) for m in num_values]
            self.num_values: int | list[int] = checked
        else:
            self.num_values = check_count("num_values", num_values, minimum=2)

    def build(self, input_shape: Any) -> None:
        shape = self._shape_with_axis_last(input_shape)
        n = check_last_axis(type(self).__name__, shape, multiple_of=1)
        counts = self.num_values
        if isinstance(counts, int):
            counts = [counts] * n
        elif len(counts) != n:
            raise ValueError(
                f"`num_values` lists {len(counts)} latents, but the input of shape "
                f"{tuple(input_shape)} has {n}."
            )
        # Half the number of steps; kept as Python data: a constant, not a weight.
        self._half = (np.asarray(counts, dtype="float32") - 1.0) / 2.0
        # One number if it serves all: a vector takes TensorFlow three times as long.
        self._scale = self._half[0] if len(set(counts)) == 1 else self._half
        self.build_codes(counts, n)

    def call(
        self, inputs: Tensor, training: bool | None = None, mask: Tensor | None = None
    ) -> Tensor:
        squashed = self._squashed(self._prepare(inputs))
        grid_position = self._grid_position(squashed)
        z = straight_through(squashed, self._grid_value(grid_position))
        codes = self._as_codes(grid_position) if self.usage is not None else None
        weights = self._sample_weights(mask, squashed)
        return self._finish(z, codes, training, weights)

    def continuous(self, inputs: Tensor) -> Tensor:
        """The latent before rounding, squashed, in float32."""
        return self._axis_back(self._squashed(self._prepare(inputs)))

    def value_table(self) -> Tensor:
        """Grid values, float32 `(n, max(num_values))`; unused places are NaN."""
        self._check_built()
        position = np.arange(max(self.codes_per_latent), dtype="float32")[:, None]
        is_code = position <= 2.0 * self._half
        values = ops.where(is_code, self._grid_value(position), np.nan)
        return ops.transpose(values)

    def _prepare(self, inputs: Tensor) -> Tensor:
        # Squashing takes infinities to the ends by itself.
        return self._checked(inputs)

    def _squashed(self, x: Tensor) -> Tensor:
        return _SQUASHED[self.squash](x)

    def _grid_position(self, squashed: Tensor) -> Tensor:
        return ops.round(ops.multiply(squashed + 1.0, self._scale))

    def _grid_value(self, grid_position: Tensor) -> Tensor:
        # In this form both ends are exactly -1 and 1, and the grid is symmetric.
        return ops.divide(ops.subtract(grid_position, self._scale), self._scale)

    def _as_codes(self, grid_position: Tensor) -> Tensor:
        # The cast of NaN to an integer is undefined: replace it before.
        is_nan = ops.isnan(grid_position)
        no_code = ops.full_like(grid_position, -1.0)
        return ops.cast(select(is_nan, no_code, grid_position), "int32")

    def _codes(self, x: Tensor) -> Tensor:
        return self._as_codes(self._grid_position(self._squashed(x)))

    def _values_of(self, codes: Tensor) -> Tensor:
        return self._grid_value(ops.cast(codes, "float32"))
