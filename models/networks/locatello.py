"""The encoder and decoder of Locatello et al., used by D-VAE and by Cliff."""

from collections.abc import Sequence

import keras

from models.networks.initializers import truncated_normal_by_fan_in
from models.networks.parts import convolution, dense, up_convolution
from models.networks.sizes import count_stages, scale_width, smallest_map
from qlayers.checks import check_choice, check_count

_FEWEST_STAGES = 2


def locatello_encoder(
    image_shape: Sequence[int],
    num_outputs: int,
    *,
    width: float = 1.0,
    variant: str = "paper",
    name: str = "encoder",
) -> keras.Model:
    """The convolutional encoder of Locatello et al.

    Convolutions with stride 2 and ReLU, 32, 32, 64 and 64 channels for a 64x64 image
    (a smaller image leaves out the first, a larger one repeats it), then a dense layer
    of 256 units with ReLU and a projection. Mean and log-variance of a Gaussian
    posterior are one projection of twice the size.

    Kernels are drawn from a normal of deviation 1/sqrt(fan_in) cut at two deviations,
    biases are zero, as in D-VAE's public code.

    Args:
        image_shape: `(height, width, channels)` of images in [0, 1].
        num_outputs: Size of the output vector.
        width: Multiplies every number of channels and units.
        variant: `"paper"`: 4x4 kernels throughout, as Cliff's appendix prints them.
            `"code"`: 2x2 kernels in the last two convolutions, as in
            disentanglement_lib and D-VAE's code.
        name: Name of the model.

    Returns:
        A functional model, image to vector, without an output activation.

    Example:

    ```python
    encoder = locatello_encoder((64, 64, 3), num_outputs=2 * 10)
    ```

    Reference:
        Locatello et al. 2019; Friede et al. 2023, table 2; Barin-Pacela et al. 2025,
        Cliff, appendix G.3.
    """
    check_choice("variant", variant, ("paper", "code"))
    check_count("num_outputs", num_outputs)
    stages = count_stages(image_shape, at_least=_FEWEST_STAGES)
    last_kernel = 4 if variant == "paper" else 2
    image = keras.Input(tuple(image_shape), name="image")
    x = image
    for stage in range(stages):
        is_late = stage >= stages - 2
        x = convolution(
            x,
            scale_width(64 if is_late else 32, width),
            last_kernel if is_late else 4,
            truncated_normal_by_fan_in,
            strides=2,
            activation="relu",
            name=f"conv{stage}",
        )
    x = keras.layers.Flatten(name="flatten")(x)
    x = dense(
        x,
        scale_width(256, width),
        truncated_normal_by_fan_in,
        activation="relu",
        name="features",
    )
    outputs = dense(x, num_outputs, truncated_normal_by_fan_in, name="head")
    return keras.Model(image, outputs, name=name)


def locatello_decoder(
    num_latents: int,
    image_shape: Sequence[int],
    *,
    width: float = 1.0,
    name: str = "decoder",
) -> keras.Model:
    """The deconvolutional decoder of Locatello et al.

    Dense layers of 256 and 4x4x64 units with ReLU, then 4x4 transposed convolutions
    with stride 2: 64, 32 and 32 channels with ReLU for a 64x64 image (a smaller image
    leaves out the last of these, a larger one repeats it), and one that gives the
    logits of the image. Initializers as in `locatello_encoder`.

    Args:
        num_latents: Size of the input vector.
        image_shape: `(height, width, channels)` of the output.
        width: Multiplies every number of channels and units.
        name: Name of the model.

    Returns:
        A functional model, vector to image logits.

    Example:

    ```python
    decoder = locatello_decoder(10, (64, 64, 3))
    ```

    Reference:
        Locatello et al. 2019; Friede et al. 2023, table 2; Barin-Pacela et al. 2025,
        Cliff, appendix G.3.
    """
    check_count("num_latents", num_latents)
    stages = count_stages(image_shape, at_least=_FEWEST_STAGES)
    start_shape = (*smallest_map(image_shape), scale_width(64, width))
    init = truncated_normal_by_fan_in
    latents = keras.Input((num_latents,), name="latents")
    units = scale_width(256, width)
    x = dense(latents, units, init, activation="relu", name="hidden")
    start_units = start_shape[0] * start_shape[1] * start_shape[2]
    x = dense(x, start_units, init, activation="relu", name="start_dense")
    x = keras.layers.Reshape(start_shape, name="start")(x)
    for stage in range(stages - 1):
        filters = scale_width(64 if stage == 0 else 32, width)
        x = up_convolution(x, filters, init, activation="relu", name=f"deconv{stage}")
    logits = up_convolution(x, image_shape[-1], init, name="logits")
    return keras.Model(latents, logits, name=name)
