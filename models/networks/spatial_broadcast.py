"""The spatial broadcast decoder that D-VAE uses for circles."""

from collections.abc import Sequence

import keras

from models.networks.initializers import truncated_normal_by_fan_in
from models.networks.parts import convolution
from models.networks.sizes import check_image_shape, scale_width
from qlayers.blocks import SpatialBroadcast
from qlayers.checks import check_count


def spatial_broadcast_decoder(
    num_latents: int,
    image_shape: Sequence[int],
    *,
    width: float = 1.0,
    kernel_size: int = 3,
    name: str = "decoder",
) -> keras.Model:
    """Latents and coordinates at every pixel, then three convolutions.

    Two convolutions with ReLU and one that gives the logits of the image, all with
    stride 1. Where the numbers of the paper's table are not known, 64 channels and 3x3
    kernels are this project's choice. Initializers as in `locatello_encoder`.

    Args:
        num_latents: Size of the input vector (2 for circles).
        image_shape: `(height, width, channels)` of the output, of any size.
        width: Multiplies the numbers of channels.
        kernel_size: Kernel size of all three convolutions.
        name: Name of the model.

    Returns:
        A functional model, vector to image logits.

    Example:

    ```python
    decoder = spatial_broadcast_decoder(2, (64, 64, 1))
    ```

    Reference:
        Friede et al. 2023, table 3; Watters et al. 2019.
    """
    check_count("num_latents", num_latents)
    check_count("kernel_size", kernel_size)
    height, columns, channels = check_image_shape(image_shape)
    init = truncated_normal_by_fan_in
    latents = keras.Input((num_latents,), name="latents")
    x = SpatialBroadcast(height, columns, name="broadcast")(latents)
    for layer in range(2):
        x = convolution(
            x,
            scale_width(64, width),
            kernel_size,
            init,
            activation="relu",
            name=f"conv{layer}",
        )
    logits = convolution(x, channels, kernel_size, init, name="logits")
    return keras.Model(latents, logits, name=name)
