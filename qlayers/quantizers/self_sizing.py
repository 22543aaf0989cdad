"""Latent quantization whose numbers of values and of latents change in training."""

from typing import Any

import keras
import numpy as np
from keras import ops

from qlayers.backend import Tensor
from qlayers.checks import check_optional_count
from qlayers.functional import nearest_code
from qlayers.quantizers.latent import LatentQuantizer


@keras.saving.register_keras_serializable(package="qlayers")
class SelfSizingQuantizer(LatentQuantizer):
    r"""A `LatentQuantizer` whose values can split and merge, and whose latents can end.

    It has room for `num_values` values in each latent and starts with `start_values`
    of them. With all of them it is a `LatentQuantizer`, to the last bit, until
    something is retired. A retired value is not chosen:

        z_j = argmin_{v in V_j, v not retired} |x_j - v|     (ties: the lowest index)

    A latent with one value left is constant: it carries nothing and counts as gone.
    `merge` and `fix` retire values, `split` takes one back; the callback
    `qlayers.callbacks.SizeAdaptation` calls them in training. Which values are left is
    a weight of the layer: it is saved, loaded and resumed.

    The history shows `<name>_active_latents`, the latents with more than one value, and
    `<name>_values_left`, the number of values of active latents together.

    Args:
        num_values: Largest number of values of each latent. Be generous.
        start_values: Number of values at the start, from 2 to `num_values`. Default:
            all. Few values put factors apart sooner.
        **kwargs: Those of `LatentQuantizer`, without `shared_codebook` and
            `revive_after`, which would bring retired values back.

    Input and output shape: `(..., n)`.

    Example:

    ```python
    quantizer = qlayers.SelfSizingQuantizer(num_values=16)
    z = quantizer(keras.layers.Dense(12)(keras.Input((64,))))
    quantizer.merge(0, 3, 4, value=0.1)  # latent 0 has 15 values left
    quantizer.fix(1, value=0.0)  # latent 1 is gone
    quantizer.sizes()  # [15, 1, 16, ...]
    ```

    Reference:
        Hsu et al. 2024, Tripod, section 6, names the need; Rezende and Viola 2018,
        Taming VAEs, hold the reconstruction instead of weighing it.
    """

    config_names = ("start_values",)

    def __init__(
        self, num_values: int = 16, start_values: int | None = None, **kwargs: Any
    ) -> None:
        for name in ("shared_codebook", "revive_after"):
            if kwargs.get(name):
                raise ValueError(
                    f"SelfSizingQuantizer has no `{name}`: it would bring back values "
                    "that were retired."
                )
        super().__init__(num_values, **kwargs)
        self.start_values = check_optional_count("start_values", start_values)
        if start_values is not None and not 2 <= start_values <= num_values:
            raise ValueError(
                "`start_values` must lie between 2 and `num_values`; received "
                f"{start_values} of {num_values}."
            )
        self.track_terms("active_latents", "values_left")

    def build(self, input_shape: Any) -> None:
        super().build(input_shape)
        shape = (self.num_latents, self.num_values)
        self.available = self.add_state("available", shape, self._available_at_start)
        self.target = self.add_state("target")

    def call(
        self, inputs: Tensor, training: bool | None = None, mask: Tensor | None = None
    ) -> Tensor:
        outputs = super().call(inputs, training=training, mask=mask)
        counts = ops.sum(ops.cast(self._is_available, "float32"), axis=-1)
        active = ops.cast(counts > 1.5, "float32")
        self._trackers["active_latents"].update_state(ops.sum(active))
        self._trackers["values_left"].update_state(ops.sum(active * counts))
        return outputs

    def _available_at_start(self, shape: Any, dtype: Any = None) -> Tensor:
        first = np.arange(shape[1]) < (self.start_values or shape[1])
        return ops.convert_to_tensor(np.broadcast_to(first, shape).astype("float32"))

    def _start(self, shape: Any, dtype: Any = None) -> Tensor:
        if self.start_values is None or self.init != "even":
            return super()._start(shape, dtype)
        # The values of the start are even; room for others lies at the upper end.
        grid = np.full(self.num_values, self.init_range)
        few = np.linspace(-self.init_range, self.init_range, self.start_values)
        grid[: self.start_values] = few
        start = np.broadcast_to(grid[:, None], shape)
        return ops.convert_to_tensor(start.astype("float32"))

    @property
    def _is_available(self) -> Tensor:
        return ops.convert_to_tensor(self.available) > 0.5

    def _codes(self, x: Tensor) -> Tensor:
        table = ops.stop_gradient(self.table[..., 0])
        return nearest_code(x, table, self._is_available)

    def sizes(self) -> list[int]:
        """How many values each latent has left; 1 for a latent that is gone."""
        return [int(count) for count in self._mask().sum(axis=1)]

    def values_left(self) -> list[np.ndarray]:
        """The values that each latent has left, ascending."""
        table = ops.convert_to_numpy(self.table)[..., 0]
        return [
            np.sort(row[mask]) for row, mask in zip(table, self._mask(), strict=True)
        ]

    def value_table(self) -> Tensor:
        """The values of each latent, float32 `(n, num_values)`.

        In the place of a retired value stands the nearest one that is left.
        """
        self._check_built()
        table = ops.stop_gradient(self.table[..., 0])
        nearest = nearest_code(
            ops.transpose(table),
            table,
            self._is_available,
        )
        return ops.take_along_axis(table, ops.transpose(nearest), axis=1)

    def merge(self, latent: int, first: int, second: int, value: float) -> None:
        """Retires code `second` of a latent; code `first` takes its samples over.

        Args:
            latent: Number of the latent.
            first: The code that stays.
            second: The code that is retired.
            value: New value of `first`.
        """
        mask = self._mask()
        if first == second or not (mask[latent, first] and mask[latent, second]):
            raise ValueError(
                f"Latent {latent} has no two values {first} and {second} left to merge."
            )
        mask[latent, second] = False
        self._assign(latent, first, value, mask)

    def split(self, latent: int, code: int, low: float, high: float) -> None:
        """Takes a retired code back, which shares the samples of another one.

        Args:
            latent: Number of the latent.
            code: The code that is split.
            low: Its new value.
            high: Value of the code that is taken back.
        """
        mask = self._mask()
        free = np.flatnonzero(~mask[latent])
        if not mask[latent, code] or not len(free):
            raise ValueError(
                f"Latent {latent} has no value {code} left, or no room for another."
            )
        mask[latent, free[0]] = True
        self._assign(latent, code, low, mask)
        self._assign(latent, int(free[0]), high, mask)

    def fix(self, latent: int, value: float) -> None:
        """Leaves a latent a single value, which makes it constant.

        Args:
            latent: Number of the latent.
            value: That value.
        """
        mask = self._mask()
        (left,) = np.nonzero(mask[latent])
        mask[latent] = False
        mask[latent, left[0]] = True
        self._assign(latent, int(left[0]), value, mask)

    def _mask(self) -> np.ndarray:
        self._check_built()
        return ops.convert_to_numpy(self.available) > 0.5

    def _assign(self, latent: int, code: int, value: float, mask: np.ndarray) -> None:
        table = np.array(ops.convert_to_numpy(self.codebook))
        table[latent, code, 0] = value
        self.codebook.assign(table)
        self.available.assign(mask.astype("float32"))

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        del config["shared_codebook"], config["revive_after"]
        return config
