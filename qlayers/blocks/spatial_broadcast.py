"""Repeats a vector at every pixel and says where each pixel is."""

from typing import Any

import keras
import numpy as np
from keras import ops

from qlayers.backend import Tensor
from qlayers.checks import check_count, check_last_axis


@keras.saving.register_keras_serializable(package="qlayers")
class SpatialBroadcast(keras.layers.Layer):
    """Tiles a vector over an image and appends two coordinate channels.

    The coordinates go from -1 to 1: the first of the two channels from the left column
    to the right one, the second from the top row to the bottom one.

    Args:
        height: Number of rows.
        width: Number of columns.
        **kwargs: Those of `keras.layers.Layer`.

    Input shape: `(batch, n)`. Output shape: `(batch, height, width, n + 2)`.

    Example:

    ```python
    x = qlayers.blocks.SpatialBroadcast(64, 64)(z)
    ```

    Reference:
        Watters et al. 2019, Spatial Broadcast Decoder; Friede et al. 2023, table 3.
    """

    def __init__(self, height: int, width: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.height = check_count("height", height)
        self.width = check_count("width", width)

    def build(self, input_shape: Any) -> None:
        if len(input_shape) != 2:
            raise ValueError(
                "SpatialBroadcast needs an input of shape (batch, n). Received an "
                f"input of shape {tuple(input_shape)}."
            )
        check_last_axis(type(self).__name__, input_shape, multiple_of=1)
        across, down = np.meshgrid(
            np.linspace(-1.0, 1.0, self.width), np.linspace(-1.0, 1.0, self.height)
        )
        # Kept as an array: a constant, not a weight.
        self._coordinates = np.stack([across, down], axis=-1)[None].astype("float32")

    def call(self, inputs: Tensor) -> Tensor:
        batch = ops.shape(inputs)[0]
        tiled = ops.broadcast_to(
            ops.expand_dims(inputs, (1, 2)),
            (batch, self.height, self.width, inputs.shape[-1]),
        )
        coordinates = ops.broadcast_to(
            ops.cast(self._coordinates, inputs.dtype),
            (batch, self.height, self.width, 2),
        )
        return ops.concatenate([tiled, coordinates], axis=-1)

    def compute_output_shape(self, input_shape: Any) -> Any:
        return (input_shape[0], self.height, self.width, input_shape[-1] + 2)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "height": self.height, "width": self.width}
