"""Nearest-neighbour doubling and a 3x3 convolution in one."""

from typing import Any

import keras
from keras import ops

from qlayers.backend import Tensor
from qlayers.checks import check_count


@keras.saving.register_keras_serializable(package="qlayers")
class UpsamplingConv2D(keras.layers.Layer):
    """Doubles an image by repeating its pixels, then convolves it with a 3x3 kernel.

    The same function as `keras.layers.UpSampling2D(2)` followed by
    `keras.layers.Conv2D(filters, 3, padding="same")`, with the same weights. Each
    output pixel sees only 2x2 different pixels of the input, so that the two are one
    transposed convolution with stride 2 whose 4x4 kernel holds sums of the 3x3 weights:
    16 products for each input pixel instead of 36, and the doubled input never exists.

    Args:
        filters: Channels of the output.
        kernel_initializer: Initializer of the 3x3 kernel.
        bias_initializer: Initializer of the bias.
        **kwargs: Those of `keras.layers.Layer`.

    Input shape: `(batch, height, width, channels)`.
    Output shape: `(batch, 2 * height, 2 * width, filters)`.

    Example:

    ```python
    x = qlayers.blocks.UpsamplingConv2D(64)(x)
    ```
    """

    def __init__(
        self,
        filters: int,
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.filters = check_count("filters", filters)
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.bias_initializer = keras.initializers.get(bias_initializer)

    def build(self, input_shape: Any) -> None:
        if len(input_shape) != 4 or input_shape[-1] is None:
            raise ValueError(
                "UpsamplingConv2D needs an input (batch, height, width, channels) with "
                f"a known number of channels. Received: {tuple(input_shape)}."
            )
        self.kernel = self.add_weight(
            shape=(3, 3, input_shape[-1], self.filters),
            initializer=self.kernel_initializer,
            name="kernel",
        )
        self.bias = self.add_weight(
            shape=(self.filters,), initializer=self.bias_initializer, name="bias"
        )

    def call(self, inputs: Tensor) -> Tensor:
        y = ops.conv_transpose(
            inputs,
            self._summed_kernel(),
            strides=2,
            padding="same",
            data_format="channels_last",
        )
        return y + self.bias

    def _summed_kernel(self) -> Tensor:
        """The 4x4 kernel: the 3x3 one, turned around, added at the four offsets."""
        turned = ops.transpose(ops.flip(self.kernel, axis=(0, 1)), (0, 1, 3, 2))
        for axis in (0, 1):
            before = [(0, 0)] * 4
            after = [(0, 0)] * 4
            before[axis], after[axis] = (1, 0), (0, 1)
            turned = ops.pad(turned, before) + ops.pad(turned, after)
        return turned

    def compute_output_shape(self, input_shape: Any) -> Any:
        batch, height, width = (
            None if size is None else factor * size
            for factor, size in zip((1, 2, 2), input_shape[:3], strict=True)
        )
        return (batch, height, width, self.filters)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "filters": self.filters,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "bias_initializer": keras.initializers.serialize(self.bias_initializer),
        }
