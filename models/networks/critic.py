"""The critic of the Wasserstein GANs: a head on the encoder's features."""

import keras

from models.networks.initializers import uniform_by_fan_in
from models.networks.parts import dense


def encoder_with_critic(
    encoder: keras.Model, *, features: str = "features", name: str = "encoder_critic"
) -> keras.Model:
    """Gives an encoder a second output, the critic's value of the image.

    The critic shares all of the encoder but its head, as in InfoWGAN-GP: one affine
    projection of the encoder's features. The returned model holds the very layers of
    `encoder`, so that training either trains both, and one pass gives both outputs.

    Weight and bias are drawn from U(±1/sqrt(fan_in)).

    Args:
        encoder: A model of this package, such as `style_encoder(...)`.
        features: Name of its layer that the critic reads.
        name: Of the model.

    Returns:
        A functional model, image to `{"latents": (b, n), "value": (b, 1)}`.

    Example:

    ```python
    model = encoder_with_critic(style_encoder((64, 64, 3), 12))
    outputs = model(images)
    loss = mean(outputs["value"])
    ```

    Reference:
        Hsu et al. 2023, QLAE, algorithm 3 and appendix B.3.
    """
    names = [layer.name for layer in encoder.layers]
    if features not in names:
        raise ValueError(
            f"The encoder has no layer named {features!r} for the critic to read. "
            f"Its layers: {names}."
        )
    trunk = encoder.get_layer(features).output
    value = dense(trunk, 1, uniform_by_fan_in, name="value")
    outputs = {"latents": encoder.output, "value": value}
    return keras.Model(encoder.input, outputs, name=name)
