"""The ResNet-18 encoder and the decoder that Cliff uses for the balls."""

from collections.abc import Sequence
from typing import Any

import keras

from models.networks.initializers import uniform_by_fan_in
from models.networks.parts import dense, up_convolution
from models.networks.sizes import (
    check_image_shape,
    count_stages,
    scale_width,
    smallest_map,
)
from qlayers.checks import check_choice, check_count

_SLOPE = 0.01
_DENSE_BLOCKS = 5
_SMALLEST_IMAGE = 32
# Keras's momentum is one minus PyTorch's.
_BATCH_NORM = {"momentum": 0.9, "epsilon": 1e-5}


def resnet_encoder(
    image_shape: Sequence[int],
    num_outputs: int,
    *,
    width: float = 1.0,
    name: str = "encoder",
) -> keras.Model:
    """ResNet-18 up to its 512 features, five dense blocks and a normalized projection.

    Each dense block is a layer of 512 units, batch normalization and a leaky ReLU with
    slope 0.01. The projection to the latents is batch normalized as well.

    Initializers as in the additive decoders' public code: convolutions He normal by
    fan-out, dense layers U(±1/sqrt(fan_in)), batch normalization with momentum 0.9 and
    epsilon 1e-5. Nothing is pretrained.

    Args:
        image_shape: `(height, width, channels)`, at least 32x32.
        num_outputs: Size of the output vector.
        width: Multiplies every number of channels and units.
        name: Name of the model.

    Returns:
        A functional model, image to vector of batch-normalized latents.

    Example:

    ```python
    encoder = resnet_encoder((64, 64, 3), num_outputs=4)
    ```

    Reference:
        Barin-Pacela et al. 2025, Cliff, appendix G.2; Lachapelle et al. 2023;
        He et al. 2016.
    """
    check_count("num_outputs", num_outputs)
    check_image_shape(image_shape, at_least=_SMALLEST_IMAGE)
    image = keras.Input(tuple(image_shape), name="image")
    x = _resnet18_features(image, width)
    units = scale_width(512, width)
    for block in range(_DENSE_BLOCKS):
        x = _dense_block(x, units, f"dense{block}")
    x = dense(x, num_outputs, uniform_by_fan_in, name="head")
    outputs = _batch_norm(x, "latents")
    return keras.Model(image, outputs, name=name)


def balls_decoder(
    num_latents: int,
    image_shape: Sequence[int],
    *,
    width: float = 1.0,
    variant: str = "paper",
    name: str = "decoder",
) -> keras.Model:
    """Six dense blocks and transposed convolutions, Cliff's decoder for the balls.

    Blocks of 512 units, batch normalization and leaky ReLU with slope 0.01, then 4x4
    transposed convolutions with stride 2 and leaky ReLU: 64, 32, 32 and the image's
    channels for 64x64 (a smaller image leaves out the last 32, a larger one repeats
    it). The output is the image itself, for a squared error: no logits.

    The paper prints 512 units for the last dense block too, which cannot be a map of
    64 channels at 4x4; 1024 units are needed, and the public code has them.

    Args:
        num_latents: Size of the input vector.
        image_shape: `(height, width, channels)` of the output.
        width: Multiplies every number of channels and units.
        variant: `"paper"`: a leaky ReLU after the last transposed convolution too.
            `"code"`: none there.
        name: Name of the model.

    Returns:
        A functional model, vector to image.

    Example:

    ```python
    decoder = balls_decoder(4, (64, 64, 3))
    ```

    Reference:
        Barin-Pacela et al. 2025, Cliff, appendix G.2; Lachapelle et al. 2023.
    """
    check_choice("variant", variant, ("paper", "code"))
    check_count("num_latents", num_latents)
    stages = count_stages(image_shape, at_least=2)
    start_shape = (*smallest_map(image_shape), scale_width(64, width))
    latents = keras.Input((num_latents,), name="latents")
    x = latents
    for block in range(_DENSE_BLOCKS):
        x = _dense_block(x, scale_width(512, width), f"dense{block}")
    start_units = start_shape[0] * start_shape[1] * start_shape[2]
    x = _dense_block(x, start_units, f"dense{_DENSE_BLOCKS}")
    x = keras.layers.Reshape(start_shape, name="start")(x)
    for stage in range(stages - 1):
        filters = scale_width(64 if stage == 0 else 32, width)
        x = up_convolution(x, filters, uniform_by_fan_in, name=f"deconv{stage}")
        x = keras.layers.LeakyReLU(_SLOPE, name=f"deconv{stage}_act")(x)
    x = up_convolution(x, image_shape[-1], uniform_by_fan_in, name="image")
    if variant == "paper":
        x = keras.layers.LeakyReLU(_SLOPE, name="image_act")(x)
    return keras.Model(latents, x, name=name)


def _resnet18_features(x: Any, width: float) -> Any:
    x = _padded_convolution(x, scale_width(64, width), 7, 2, "stem_conv")
    x = keras.layers.ReLU(name="stem_relu")(_batch_norm(x, "stem_norm"))
    # After a ReLU zeros never win a maximum, so zero padding is as good as -inf.
    x = keras.layers.ZeroPadding2D(1, name="stem_pad")(x)
    x = keras.layers.MaxPooling2D(3, strides=2, name="stem_pool")(x)
    for stage, channels in enumerate((64, 128, 256, 512)):
        for block in range(2):
            strides = 2 if stage > 0 and block == 0 else 1
            label = f"stage{stage}_{block}"
            x = _basic_block(x, scale_width(channels, width), strides, label)
    return keras.layers.GlobalAveragePooling2D(name="pool")(x)


def _basic_block(x: Any, channels: int, strides: int, label: str) -> Any:
    skip = x
    if strides != 1 or x.shape[-1] != channels:
        skip = _padded_convolution(x, channels, 1, strides, f"{label}_skip_conv")
        skip = _batch_norm(skip, f"{label}_skip_norm")
    x = _padded_convolution(x, channels, 3, strides, f"{label}_conv0")
    x = keras.layers.ReLU(name=f"{label}_relu0")(_batch_norm(x, f"{label}_norm0"))
    x = _padded_convolution(x, channels, 3, 1, f"{label}_conv1")
    x = keras.layers.Add(name=f"{label}_add")([skip, _batch_norm(x, f"{label}_norm1")])
    return keras.layers.ReLU(name=f"{label}_relu1")(x)


def _padded_convolution(
    x: Any, filters: int, kernel_size: int, strides: int, name: str
) -> Any:
    """Pads equally on all sides; Keras's "same" would not with stride 2."""
    if strides > 1 and kernel_size > 1:
        x = keras.layers.ZeroPadding2D(kernel_size // 2, name=f"{name}_pad")(x)
        padding = "valid"
    else:
        padding = "same"
    return keras.layers.Conv2D(
        filters,
        kernel_size,
        strides=strides,
        padding=padding,
        use_bias=False,
        kernel_initializer=keras.initializers.VarianceScaling(
            2.0, mode="fan_out", distribution="untruncated_normal"
        ),
        name=name,
    )(x)


def _dense_block(x: Any, units: int, label: str) -> Any:
    x = dense(x, units, uniform_by_fan_in, name=label)
    x = _batch_norm(x, f"{label}_norm")
    return keras.layers.LeakyReLU(_SLOPE, name=f"{label}_act")(x)


def _batch_norm(x: Any, name: str) -> Any:
    return keras.layers.BatchNormalization(**_BATCH_NORM, name=name)(x)
