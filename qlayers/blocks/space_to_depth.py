"""Moves blocks of neighbouring pixels into channels."""

from typing import Any

import keras
from keras import ops

from qlayers.backend import Tensor
from qlayers.checks import check_count


@keras.saving.register_keras_serializable(package="qlayers")
class SpaceToDepth(keras.layers.Layer):
    """Halves (or divides by `block_size`) height and width without losing anything.

    Channels of the output run over rows of the block, columns of the block, then
    channels of the input.

    Args:
        block_size: Side of the square of pixels that becomes one pixel.
        **kwargs: Those of `keras.layers.Layer`.

    Input shape: `(batch, height, width, channels)`.
    Output shape: `(batch, height / block_size, width / block_size,
    block_size**2 * channels)`.

    Example:

    ```python
    x = qlayers.blocks.SpaceToDepth(2)(x)  # (b, 8, 8, 32) -> (b, 4, 4, 128)
    ```
    """

    def __init__(self, block_size: int = 2, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.block_size = check_count("block_size", block_size)

    def build(self, input_shape: Any) -> None:
        self._sizes(input_shape)

    def call(self, inputs: Tensor) -> Tensor:
        rows, columns, channels = self._sizes(inputs.shape)
        block = self.block_size
        x = ops.reshape(inputs, (-1, rows, block, columns, block, channels))
        x = ops.transpose(x, (0, 1, 3, 2, 4, 5))
        return ops.reshape(x, (-1, rows, columns, block * block * channels))

    def compute_output_shape(self, input_shape: Any) -> Any:
        rows, columns, channels = self._sizes(input_shape)
        return (input_shape[0], rows, columns, self.block_size**2 * channels)

    def _sizes(self, shape: Any) -> tuple[int, int, int]:
        known = len(shape) == 4 and None not in tuple(shape[1:])
        if not known or shape[1] % self.block_size or shape[2] % self.block_size:
            raise ValueError(
                "SpaceToDepth needs an input (batch, height, width, channels) of known "
                f"size whose height and width are multiples of {self.block_size}. "
                f"Received an input of shape {tuple(shape)}."
            )
        return shape[1] // self.block_size, shape[2] // self.block_size, shape[3]

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "block_size": self.block_size}
