"""FactorQVAE's residual networks, in the manner of DALL-E's image codec."""

from collections.abc import Sequence
from typing import Any

import keras

from models.networks.initializers import normal_002
from models.networks.parts import convolution, dense
from models.networks.sizes import check_image_shape, scale_width
from qlayers.checks import check_choice, check_count

_VARIANTS = ("paper", "code")
_BASE = 128
_GROUPS = 3
_BLOCKS_PER_GROUP = 2
_REDUCTION = 2 ** (_GROUPS - 1)
_DECODER_START = {"paper": 16, "code": 64}


def dalle_encoder(
    image_shape: Sequence[int],
    num_outputs: int,
    *,
    width: float = 1.0,
    variant: str = "paper",
    name: str = "encoder",
) -> keras.Model:
    """The residual encoder of FactorQVAE.

    A 3x3 convolution, then three groups of two residual blocks with 128, 256 and 512
    channels and 2x2 max-pooling between the groups; flattened, ReLU, two dense layers
    of 128 units with ReLU, and a projection. No normalization anywhere. A block adds
    ReLU-convolution four times (3x3, 3x3, 3x3, 1x1) to its input; a 1x1 convolution
    takes the place of the identity where the width changes.

    The images are centred at zero inside, as in the public code. All kernels are drawn
    from N(0, 0.02²), biases are zero.

    Args:
        image_shape: `(height, width, channels)` of images in [0, 1]; height and width
            multiples of 4.
        num_outputs: Size of the output vector.
        width: Multiplies every number of channels and units.
        variant: `"paper"`: the convolutions of a block have the width of the block.
            `"code"`: a quarter of it but for the last, and the branch is multiplied
            by 1/36 (one over the squared number of blocks) before it is added.
        name: Name of the model.

    Returns:
        A functional model, image to vector, without an output activation.

    Example:

    ```python
    encoder = dalle_encoder((64, 64, 3), num_outputs=12, variant="code")
    ```

    Reference:
        Baykal et al., FactorQVAE, appendix A.3 and table A.4; Ramesh et al. 2021.
    """
    check_choice("variant", variant, _VARIANTS)
    check_count("num_outputs", num_outputs)
    check_image_shape(image_shape, multiple_of=_REDUCTION)
    image = keras.Input(tuple(image_shape), name="image")
    x = keras.layers.Rescaling(1.0, offset=-0.5, name="center")(image)
    x = convolution(x, scale_width(_BASE, width), 3, normal_002, name="stem")
    for group in range(_GROUPS):
        if group > 0:
            x = keras.layers.MaxPooling2D(2, name=f"group{group}_pool")(x)
        channels = scale_width(_BASE * 2**group, width)
        for block in range(_BLOCKS_PER_GROUP):
            label = f"group{group}_{block}"
            x = _residual_block(x, channels, (3, 3, 3, 1), variant, label)
    x = keras.layers.ReLU(name="relu")(keras.layers.Flatten(name="flatten")(x))
    units = scale_width(_BASE, width)
    x = dense(x, units, normal_002, activation="relu", name="hidden")
    x = dense(x, units, normal_002, activation="relu", name="features")
    outputs = dense(x, num_outputs, normal_002, name="head")
    return keras.Model(image, outputs, name=name)


def dalle_decoder(
    num_latents: int,
    image_shape: Sequence[int],
    *,
    width: float = 1.0,
    variant: str = "paper",
    name: str = "decoder",
) -> keras.Model:
    """The residual decoder of FactorQVAE.

    A dense layer makes a map of a quarter of the image's size, three groups of two
    residual blocks with 512, 256 and 128 channels follow with nearest-neighbour
    doubling between the groups, then ReLU and a 1x1 convolution. A block adds
    ReLU-convolution four times (1x1, 3x3, 3x3, 3x3) to its input.

    The output is the image itself, for a squared error: no logits. The public code
    works on images centred at zero; the half is added back inside.

    Args:
        num_latents: Size of the input vector.
        image_shape: `(height, width, channels)` of the output; height and width
            multiples of 4.
        width: Multiplies every number of channels and units.
        variant: `"paper"`: 16 channels after the dense layer, blocks of full width.
            `"code"`: 64 channels, and blocks as in `dalle_encoder`.
        name: Name of the model.

    Returns:
        A functional model, vector to image.

    Example:

    ```python
    decoder = dalle_decoder(12, (64, 64, 3), variant="code")
    ```

    Reference:
        Baykal et al., FactorQVAE, appendix A.3 and table A.4.
    """
    check_choice("variant", variant, _VARIANTS)
    check_count("num_latents", num_latents)
    height, columns, channels = check_image_shape(image_shape, multiple_of=_REDUCTION)
    start_shape = (
        height // _REDUCTION,
        columns // _REDUCTION,
        scale_width(_DECODER_START[variant], width),
    )
    latents = keras.Input((num_latents,), name="latents")
    units = start_shape[0] * start_shape[1] * start_shape[2]
    x = dense(latents, units, normal_002, name="start_dense")
    x = keras.layers.Reshape(start_shape, name="start")(x)
    for group in range(_GROUPS):
        if group > 0:
            x = keras.layers.UpSampling2D(2, name=f"group{group}_up")(x)
        filters = scale_width(_BASE * 2 ** (_GROUPS - 1 - group), width)
        for block in range(_BLOCKS_PER_GROUP):
            label = f"group{group}_{block}"
            x = _residual_block(x, filters, (1, 3, 3, 3), variant, label)
    x = keras.layers.ReLU(name="relu")(x)
    x = convolution(x, channels, 1, normal_002, name="centered_image")
    x = keras.layers.Rescaling(1.0, offset=0.5, name="image")(x)
    return keras.Model(latents, x, name=name)


def _residual_block(
    x: Any, channels: int, kernel_sizes: Sequence[int], variant: str, label: str
) -> Any:
    skip = x
    if x.shape[-1] != channels:
        skip = convolution(x, channels, 1, normal_002, name=f"{label}_skip")
    inner = channels if variant == "paper" else max(1, channels // 4)
    last = len(kernel_sizes) - 1
    for layer, kernel_size in enumerate(kernel_sizes):
        name = f"{label}_{layer}"
        filters = channels if layer == last else inner
        x = keras.layers.ReLU(name=f"{name}_relu")(x)
        x = convolution(x, filters, kernel_size, normal_002, name=f"{name}_conv")
    if variant == "code":
        num_blocks = _GROUPS * _BLOCKS_PER_GROUP
        x = keras.layers.Rescaling(1.0 / num_blocks**2, name=f"{label}_scale")(x)
    return keras.layers.Add(name=label)([skip, x])
