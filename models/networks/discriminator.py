"""The discriminators that estimate total correlation."""

from collections.abc import Sequence

import keras

from models.networks.initializers import (
    Initializers,
    normal_002,
    truncated_normal_by_fan_in,
)
from models.networks.parts import dense
from models.networks.sizes import scale_width
from qlayers.checks import check_choice, check_count, check_number


def latent_discriminator(
    num_inputs: int,
    *,
    width: float = 1.0,
    hidden_units: Sequence[int] = (1000,) * 6,
    negative_slope: float = 0.2,
    initializer: str = "by_fan_in",
    name: str = "discriminator",
) -> keras.Model:
    """Dense layers with leaky ReLU and two logits: joint or permuted latents.

    FactorVAE and FactorDVAE have six layers of 1000 units. FactorQVAE has five, on the
    flattened one-hot codes, with `initializer="normal"`.

    Args:
        num_inputs: Size of the input vector.
        width: Multiplies the numbers of units.
        hidden_units: Units of the hidden layers.
        negative_slope: Of the leaky ReLU. D-VAE's code has 0.01, the others 0.2.
        initializer: `"by_fan_in"`: truncated normal of deviation 1/sqrt(fan_in).
            `"normal"`: N(0, 0.02²).
        name: Of the model.

    Returns:
        A functional model, vector to two logits.

    Example:

    ```python
    discriminator = latent_discriminator(10)
    total_correlation = logits[:, 0] - logits[:, 1]
    ```

    Reference:
        Kim and Mnih 2018; Friede et al. 2023, table 3; Baykal et al., FactorQVAE.
    """
    check_count("num_inputs", num_inputs)
    check_number("negative_slope", negative_slope)
    init = _initializers_named(initializer)
    inputs = keras.Input((num_inputs,), name="latents")
    x = inputs
    for i, units in enumerate(hidden_units):
        x = dense(x, scale_width(units, width), init, name=f"hidden{i}")
        x = keras.layers.LeakyReLU(negative_slope, name=f"hidden{i}_act")(x)
    return keras.Model(inputs, dense(x, 2, init, name="logits"), name=name)


def _initializers_named(initializer: str) -> Initializers:
    check_choice("initializer", initializer, ("by_fan_in", "normal"))
    return normal_002 if initializer == "normal" else truncated_normal_by_fan_in
