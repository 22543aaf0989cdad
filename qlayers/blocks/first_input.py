"""Keeps a side branch in a functional graph."""

from typing import Any

import keras

from qlayers.backend import Tensor


# Saved models know the layer as "Beside".
@keras.saving.register_keras_serializable(package="qlayers", name="Beside")
class FirstInput(keras.layers.Layer):
    """Returns the first of its inputs and thereby keeps the others in the graph.

    A functional model holds only layers on a path from its inputs to its outputs. A
    regularizer that reads another tensor than the one that goes on would fall out of
    it, and its loss with it.

    Example:

    ```python
    mean = keras.layers.Dense(4)(inputs)
    z = keras.layers.GaussianNoise(1.0)(mean)
    z = FirstInput()([z, keras.layers.ActivityRegularization(l2=1.0)(mean)])
    ```
    """

    def __init__(self, **kwargs: Any) -> None:
        kwargs.setdefault("autocast", False)
        super().__init__(**kwargs)

    def call(self, inputs: list[Tensor]) -> Tensor:
        return inputs[0]

    def compute_output_spec(self, inputs: list[Any]) -> Any:
        return keras.KerasTensor(inputs[0].shape, dtype=inputs[0].dtype)
