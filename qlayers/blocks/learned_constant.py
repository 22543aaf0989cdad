"""A learned tensor that does not depend on the input."""

from typing import Any

import keras
from keras import ops

from qlayers.backend import Tensor
from qlayers.checks import check_count


@keras.saving.register_keras_serializable(package="qlayers")
class LearnedConstant(keras.layers.Layer):
    """Returns its one weight, whatever the input: where a style decoder starts.

    The output has a batch of 1, not of the input's size, so that layers after it work
    once instead of once for each sample, until a layer that broadcasts (such as
    `AdaptiveInstanceNormalization`) brings the samples in.

    Args:
        shape: Shape of the constant without the batch axis.
        value: What every entry starts with.
        **kwargs: Those of `keras.layers.Layer`.

    Output shape: `(1, *shape)`.

    Example:

    ```python
    x = qlayers.blocks.LearnedConstant((4, 4, 256), value=0.1)(style)
    ```

    Reference:
        Karras et al. 2019, section 2; Hsu et al. 2023, QLAE, appendix B.3.
    """

    def __init__(self, shape: Any, value: float = 0.1, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.shape = tuple(check_count("shape", size) for size in shape)
        self.value = float(value)

    def build(self, input_shape: Any) -> None:
        self.constant = self.add_weight(
            shape=self.shape,
            initializer=keras.initializers.Constant(self.value),
            name="constant",
        )

    def call(self, inputs: Tensor) -> Tensor:
        return ops.expand_dims(self.constant, 0)

    def compute_output_shape(self, input_shape: Any) -> Any:
        return (1, *self.shape)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "shape": list(self.shape),
            "value": self.value,
        }
