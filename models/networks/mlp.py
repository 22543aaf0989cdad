"""The fully connected encoder of Cliff's synthetic experiment."""

from collections.abc import Sequence

import keras

from models.networks.initializers import uniform_by_fan_in
from models.networks.parts import dense
from models.networks.sizes import scale_width
from qlayers.checks import check_count


def mlp_encoder(
    num_inputs: int,
    num_outputs: int,
    *,
    width: float = 1.0,
    hidden_units: Sequence[int] = (50, 100, 50),
    name: str = "encoder",
) -> keras.Model:
    """Dense layers of 50, 100 and 50 units with tanh, then a projection.

    Weights and biases are drawn from U(±1/sqrt(fan_in)), PyTorch's default.

    Args:
        num_inputs: Size of the input vector (2 in the paper).
        num_outputs: Size of the output vector (2 in the paper).
        width: Multiplies every number of hidden units.
        hidden_units: Units of the hidden layers.
        name: Name of the model.

    Returns:
        A functional model, vector to vector.

    Example:

    ```python
    encoder = mlp_encoder(2, 2)
    ```

    Reference:
        Barin-Pacela et al. 2025, Cliff, appendix G.1.
    """
    check_count("num_inputs", num_inputs)
    check_count("num_outputs", num_outputs)
    inputs = keras.Input((num_inputs,), name="observation")
    x = inputs
    for i, units in enumerate(hidden_units):
        units = scale_width(units, width)
        x = dense(x, units, uniform_by_fan_in, activation="tanh", name=f"hidden{i}")
    outputs = dense(x, num_outputs, uniform_by_fan_in, name="head")
    return keras.Model(inputs, outputs, name=name)
