"""Instance normalization."""

from typing import Any

import keras
from keras import ops

from qlayers.backend import Tensor
from qlayers.blocks.normalize_instances import (
    check_feature_map,
    normalize_instances,
)
from qlayers.checks import check_number


@keras.saving.register_keras_serializable(package="qlayers")
class InstanceNormalization(keras.layers.Layer):
    """Standardizes each channel of each sample over its positions.

        y = gamma * (x - mean) / sqrt(variance + epsilon) + beta

    The same function as `keras.layers.GroupNormalization(groups=-1)`, in fewer passes
    over the feature map.

    Args:
        epsilon: Added to the variance.
        affine: Whether to learn `gamma` (starts at 1) and `beta` (starts at 0), one
            number for each channel.
        **kwargs: Those of `keras.layers.Layer`.

    Input shape: `(batch, ..., channels)`. Output shape: the same.

    Example:

    ```python
    x = keras.layers.Conv2D(32, 3, padding="same", use_bias=False)(x)
    x = qlayers.blocks.InstanceNormalization()(x)
    ```

    Reference:
        Ulyanov et al. 2016; Hsu et al. 2023, QLAE, appendix B.3.
    """

    def __init__(
        self, epsilon: float = 1e-6, affine: bool = True, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.epsilon = check_number("epsilon", epsilon, exclusive=True)
        self.affine = bool(affine)

    def build(self, input_shape: Any) -> None:
        channels = check_feature_map(type(self).__name__, input_shape)
        if self.affine:
            self.gamma = self.add_weight(
                shape=(channels,), initializer="ones", name="gamma", autocast=False
            )
            self.beta = self.add_weight(
                shape=(channels,), initializer="zeros", name="beta", autocast=False
            )

    def call(self, inputs: Tensor) -> Tensor:
        if self.affine:
            scale, shift = self.gamma[None], self.beta[None]
        else:
            scale = ops.ones((1, 1), dtype="float32")
            shift = ops.zeros((1, 1), dtype="float32")
        y = normalize_instances(inputs, scale, shift, self.epsilon)
        return ops.cast(y, self.compute_dtype)

    def compute_output_shape(self, input_shape: Any) -> Any:
        return input_shape

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "epsilon": self.epsilon,
            "affine": self.affine,
        }
