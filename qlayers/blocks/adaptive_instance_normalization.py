"""Adaptive instance normalization: a style sets each channel's mean and scale."""

from typing import Any

import keras
from keras import ops

from qlayers.backend import Tensor, as_float32
from qlayers.blocks.normalize_instances import (
    check_feature_map,
    normalize_instances,
)
from qlayers.checks import check_number


@keras.saving.register_keras_serializable(package="qlayers")
class AdaptiveInstanceNormalization(keras.layers.Layer):
    """Instance normalization whose scale and shift are read from a style vector.

        scale, shift = split(activation(style @ kernel + bias))
        y = (scale_offset + scale) * (x - mean) / sqrt(variance + epsilon) + shift

    Args:
        activation: Applied to scale and shift; none by default.
        scale_offset: Added to the scale: 1 makes zero output of the projection mean
            plain instance normalization.
        epsilon: Added to the variance.
        kernel_initializer: Initializer of the projection.
        bias_initializer: Initializer of its bias.
        **kwargs: Those of `keras.layers.Layer`.

    Call arguments: `[x, style]`, a feature map `(batch, ..., channels)` and a style
    `(batch, features)`. A feature map with a batch of 1 (one that does not depend on
    the sample) is normalized once and then styled for every sample.

    Output shape: `(batch, ..., channels)`.

    Example:

    ```python
    x = keras.layers.Conv2D(64, 3, padding="same", use_bias=False)(x)
    x = qlayers.blocks.AdaptiveInstanceNormalization()([x, style])
    ```

    Reference:
        Karras et al. 2019, section 2; Hsu et al. 2023, QLAE, appendix B.3.
    """

    def __init__(
        self,
        activation: Any = None,
        scale_offset: float = 0.0,
        epsilon: float = 1e-6,
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.activation = keras.activations.get(activation)
        self.scale_offset = check_number("scale_offset", scale_offset)
        self.epsilon = check_number("epsilon", epsilon, exclusive=True)
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.bias_initializer = keras.initializers.get(bias_initializer)

    def build(self, input_shape: Any) -> None:
        map_shape, style_shape = self._two_shapes(input_shape)
        channels = check_feature_map(type(self).__name__, map_shape)
        self.kernel = self.add_weight(
            shape=(style_shape[-1], 2 * channels),
            initializer=self.kernel_initializer,
            name="kernel",
        )
        self.bias = self.add_weight(
            shape=(2 * channels,), initializer=self.bias_initializer, name="bias"
        )

    def call(self, inputs: list[Tensor]) -> Tensor:
        x, style = inputs
        projected = self.activation(ops.matmul(style, self.kernel) + self.bias)
        scale, shift = ops.split(as_float32(projected), 2, axis=-1)
        y = normalize_instances(x, scale + self.scale_offset, shift, self.epsilon)
        return ops.cast(y, self.compute_dtype)

    def compute_output_shape(self, input_shape: Any) -> Any:
        map_shape, style_shape = self._two_shapes(input_shape)
        return (style_shape[0], *map_shape[1:])

    def _two_shapes(self, input_shape: Any) -> tuple[Any, Any]:
        is_pair = len(input_shape) == 2 and all(
            isinstance(shape, list | tuple) for shape in input_shape
        )
        if not is_pair or len(input_shape[1]) != 2:
            raise ValueError(
                f"{type(self).__name__} is called on [feature_map, style] with a style "
                f"of shape (batch, features). Received shapes: {input_shape}."
            )
        return input_shape[0], input_shape[1]

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "activation": keras.activations.serialize(self.activation),
            "scale_offset": self.scale_offset,
            "epsilon": self.epsilon,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "bias_initializer": keras.initializers.serialize(self.bias_initializer),
        }
