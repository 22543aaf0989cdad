"""Latent quantization whose numbers of values and of latents shrink in training."""

from typing import Any

import keras
import numpy as np
from keras import ops

from qlayers.backend import Tensor
from qlayers.functional import nearest_code
from qlayers.quantizers.latent import LatentQuantizer


@keras.saving.register_keras_serializable(package="qlayers")
class SelfSizingQuantizer(LatentQuantizer):
    r"""A `LatentQuantizer` whose values can be merged and whose latents can be fixed.

    It starts with `num_values` values in each latent and is a `LatentQuantizer`, to the
    last bit, until something is retired. A retired value is never chosen again:

        z_j = argmin_{v in V_j, v not retired} |x_j - v|     (ties: the lowest index)

    A latent with one value left is constant: it carries nothing and counts as gone.
    `merge` and `fix` retire values; the callback `qlayers.callbacks.SizeAdaptation`
    calls them in training, as long as reconstructions stay as good as wanted. Which
    values are left is a weight of the layer: it is saved, loaded and resumed.

    The history shows `<name>_active_latents`, the latents with more than one value, and
    `<name>_values_left`, the number of values of active latents together.

    Args:
        num_values: Number of values of each latent at the start. Be generous.
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

    def __init__(self, num_values: int = 16, **kwargs: Any) -> None:
        for name in ("shared_codebook", "revive_after"):
            if kwargs.get(name):
                raise ValueError(
                    f"SelfSizingQuantizer has no `{name}`: it would bring back values "
                    "that were retired."
                )
        super().__init__(num_values, **kwargs)
        self.track_terms("active_latents", "values_left")

    def build(self, input_shape: Any) -> None:
        super().build(input_shape)
        self.available = self.add_weight(
            name="available",
            shape=(self.num_latents, self.num_values),
            dtype="float32",
            initializer="ones",
            trainable=False,
            autocast=False,
            aggregation="mean",
        )

    def call(
        self, inputs: Tensor, training: bool | None = None, mask: Tensor | None = None
    ) -> Tensor:
        outputs = super().call(inputs, training=training, mask=mask)
        counts = ops.sum(ops.cast(self._is_available, "float32"), axis=-1)
        active = ops.cast(counts > 1.5, "float32")
        self._trackers["active_latents"].update_state(ops.sum(active))
        self._trackers["values_left"].update_state(ops.sum(active * counts))
        return outputs

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
