"""QLAE's convolutional encoder and style decoder."""

from collections.abc import Sequence
from typing import Any

import keras

from models.networks.initializers import uniform_by_fan_in
from models.networks.parts import convolution, dense, up_convolution
from models.networks.sizes import count_stages, scale_width, smallest_map
from qlayers.blocks import (
    AdaptiveInstanceNormalization,
    InstanceNormalization,
    LearnedConstant,
)
from qlayers.checks import check_choice, check_count

_VARIANTS = ("paper", "code")
_SLOPE = {"paper": 0.3, "code": 0.2}
_EPSILON = 1e-6


def style_encoder(
    image_shape: Sequence[int],
    num_outputs: int,
    *,
    width: float = 1.0,
    preserving_layers: int = 2,
    variant: str = "paper",
    name: str = "encoder",
) -> keras.Model:
    """The convolutional encoder of QLAE.

    Each stage has `preserving_layers` 3x3 convolutions and one 4x4 convolution with
    stride 2, all followed by a leaky ReLU and an instance normalization. Stage `i` has
    `32 * 2**i` channels; a 64x64 image passes four stages, a 32x32 image three. Two
    dense layers of 256 units with ReLU follow, of which the second is called
    `features` (a critic reads it), then a projection.

    Where the paper is silent its code decides: convolutions without bias, per-channel
    scale and shift in the normalization, epsilon 1e-6, weights and biases drawn from
    U(±1/sqrt(fan_in)).

    Args:
        image_shape: `(height, width, channels)` of images in [0, 1].
        num_outputs: Size of the output vector.
        width: Multiplies every number of channels and units.
        preserving_layers: Convolutions that keep the resolution, in each stage. The
            paper has 2; 0 is the cheapest network for small images.
        variant: `"paper"`: leaky slope 0.3, activation before normalization.
            `"code"`: leaky slope 0.2, normalization before activation.
        name: Name of the model.

    Returns:
        A functional model, image to vector, without an output activation.

    Example:

    ```python
    encoder = style_encoder((64, 64, 3), num_outputs=12)
    small = style_encoder((32, 32, 3), num_outputs=12, width=0.5)
    ```

    Reference:
        Hsu et al. 2023, QLAE, appendix B.3.
    """
    check_choice("variant", variant, _VARIANTS)
    check_count("num_outputs", num_outputs)
    check_count("preserving_layers", preserving_layers, minimum=0)
    stages = count_stages(image_shape)
    image = keras.Input(tuple(image_shape), name="image")
    x = image
    for stage in range(stages):
        channels = scale_width(32 * 2**stage, width)
        for layer in range(preserving_layers + 1):
            downsample = layer == preserving_layers
            label = f"stage{stage}_{layer}"
            x = convolution(
                x,
                channels,
                4 if downsample else 3,
                uniform_by_fan_in,
                strides=2 if downsample else 1,
                use_bias=False,
                name=f"{label}_conv",
            )
            x = _activate_and_normalize(x, variant, label)
    x = keras.layers.Flatten(name="flatten")(x)
    units = scale_width(256, width)
    x = dense(x, units, uniform_by_fan_in, activation="relu", name="hidden")
    x = dense(x, units, uniform_by_fan_in, activation="relu", name="features")
    outputs = dense(x, num_outputs, uniform_by_fan_in, name="head")
    return keras.Model(image, outputs, name=name)


def style_decoder(
    num_latents: int,
    image_shape: Sequence[int],
    *,
    width: float = 1.0,
    preserving_layers: int = 2,
    variant: str = "paper",
    normalize_outputs: bool = False,
    name: str = "decoder",
) -> keras.Model:
    """The StyleGAN-like decoder of QLAE.

    Two dense layers of 256 units with ReLU turn the latents into a style. A learned
    4x4 map, all 0.1 at first, passes mirrored stages of `preserving_layers` 3x3 layers
    and one 4x4 transposed convolution with stride 2, each followed by a leaky ReLU and
    adaptive instance normalization. A last convolution gives the logits of the image.

    The 3x3 layers are written as plain convolutions: with stride 1 a transposed
    convolution is one with the kernel turned around. What depends on the learned map
    alone, up to the first normalization, is computed once for the whole batch.

    Where the paper is silent its code decides: no bias in any convolution, no offset
    on the style's scale, epsilon 1e-6, weights and biases from U(±1/sqrt(fan_in)).

    Args:
        num_latents: Size of the input vector.
        image_shape: `(height, width, channels)` of the output.
        width: Multiplies every number of channels and units.
        preserving_layers: Layers that keep the resolution, in each stage (paper: 2).
        variant: `"paper"`: leaky slope 0.3, affine style, 1x1 last convolution.
            `"code"`: leaky slope 0.2, ReLU on the style's scale and shift, 3x3 last
            convolution.
        normalize_outputs: Whether every stage but the last ends with a normalization
            of its whole map, without scale and shift: naive Tripod's penalty could
            shrink the map instead. (Normalized by channel, the map would lose its
            style.)
        name: Name of the model.

    Returns:
        A functional model, vector to image logits.

    Example:

    ```python
    decoder = style_decoder(12, (64, 64, 3))
    image = keras.ops.sigmoid(decoder(z))
    ```

    Reference:
        Hsu et al. 2023, QLAE, appendix B.3; Karras et al. 2019.
    """
    check_choice("variant", variant, _VARIANTS)
    check_count("num_latents", num_latents)
    check_count("preserving_layers", preserving_layers, minimum=0)
    stages = count_stages(image_shape)
    widths = [scale_width(32 * 2**stage, width) for stage in reversed(range(stages))]
    latents = keras.Input((num_latents,), name="latents")
    style = _style_of(latents, scale_width(256, width))
    x = LearnedConstant((*smallest_map(image_shape), widths[0]), name="start")(style)
    for stage, channels in enumerate(widths):
        for layer in range(preserving_layers + 1):
            label = f"stage{stage}_{layer}"
            options: dict[str, Any] = {"use_bias": False, "name": f"{label}_conv"}
            if layer == preserving_layers:
                x = up_convolution(x, channels, uniform_by_fan_in, **options)
            else:
                x = convolution(x, channels, 3, uniform_by_fan_in, **options)
            x = keras.layers.LeakyReLU(_SLOPE[variant], name=f"{label}_act")(x)
            x = _restyle(x, style, variant, f"{label}_adain")
        if normalize_outputs and stage < stages - 1:
            x = keras.layers.LayerNormalization(
                axis=[1, 2, 3],
                epsilon=_EPSILON,
                center=False,
                scale=False,
                name=f"stage{stage}_normal",
            )(x)
    logits = convolution(
        x,
        image_shape[-1],
        1 if variant == "paper" else 3,
        uniform_by_fan_in,
        use_bias=False,
        name="logits",
    )
    return keras.Model(latents, logits, name=name)


def style_inner_layers(
    image_shape: Sequence[int],
    preserving_layers: int = 2,
    normalize_outputs: bool = False,
) -> list[str]:
    """Names of the decoder's layers that correspond to those Tripod regularizes.

    The style and the output of every stage but the last: all but what becomes the
    image.

    Example:

    ```python
    decoder = style_decoder(12, (32, 32, 3), preserving_layers=0)
    inner = style_inner_layers((32, 32, 3), preserving_layers=0)
    penalty = qlayers.NormalizedHessianPenalty(decoder, 1e-2, outputs=inner)
    ```
    """
    last = "normal" if normalize_outputs else f"{preserving_layers}_adain"
    inner = range(count_stages(image_shape) - 1)
    return ["style1", *(f"stage{stage}_{last}" for stage in inner)]


def _activate_and_normalize(x: Any, variant: str, label: str) -> Any:
    activation = keras.layers.LeakyReLU(_SLOPE[variant], name=f"{label}_act")
    normalization = InstanceNormalization(epsilon=_EPSILON, name=f"{label}_norm")
    if variant == "paper":
        return normalization(activation(x))
    return activation(normalization(x))


def _style_of(latents: Any, units: int) -> Any:
    x = dense(latents, units, uniform_by_fan_in, activation="relu", name="style0")
    return dense(x, units, uniform_by_fan_in, activation="relu", name="style1")


def _restyle(x: Any, style: Any, variant: str, name: str) -> Any:
    kernel, bias = uniform_by_fan_in(style.shape[-1])
    return AdaptiveInstanceNormalization(
        activation=None if variant == "paper" else "relu",
        epsilon=_EPSILON,
        kernel_initializer=kernel,
        bias_initializer=bias,
        name=name,
    )([x, style])
