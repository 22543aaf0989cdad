"""Tripod's residual encoder and conditional residual decoder."""

from collections.abc import Sequence
from typing import Any

import keras

from models.networks.initializers import uniform_by_fan_in
from models.networks.parts import convolution, dense
from models.networks.sizes import count_stages, scale_width, smallest_map
from qlayers.blocks import (
    AdaptiveInstanceNormalization,
    InstanceNormalization,
    LearnedConstant,
    SpaceToDepth,
    UpsamplingConv2D,
)
from qlayers.checks import check_count

_EPSILON = 1e-5
_BLOCKS_PER_STAGE = 2
_LAYERS_PER_BLOCK = 2


def residual_encoder(
    image_shape: Sequence[int],
    num_outputs: int,
    *,
    width: float = 1.0,
    name: str = "encoder",
) -> keras.Model:
    """The residual convolutional encoder of Tripod.

    Stage `i` has two residual blocks of `32 * 2**i` channels, then moves 2x2 pixels
    into channels and projects them to twice the width. A block adds two times (3x3
    convolution, instance normalization, GELU) to its input, which a 1x1 convolution
    brings to the same width where needed. The last map is averaged over space and
    passes a dense layer of 512 units with layer normalization and GELU (half of that
    for each stage fewer), then a projection.

    The paper gives no details of the network; all of this follows its public code:
    images moved to [-1, 1], GELU with tanh, epsilon 1e-5, weights and biases drawn
    from U(±1/sqrt(fan_in)).

    Args:
        image_shape: `(height, width, channels)` of images in [0, 1].
        num_outputs: Size of the output vector.
        width: Multiplies every number of channels and units.
        name: Name of the model.

    Returns:
        A functional model, image to vector, without an output activation.

    Example:

    ```python
    encoder = residual_encoder((64, 64, 3), num_outputs=12)
    ```

    Reference:
        Hsu et al. 2024, Tripod, section 4 and its public code.
    """
    check_count("num_outputs", num_outputs)
    stages = count_stages(image_shape)
    image = keras.Input(tuple(image_shape), name="image")
    x = keras.layers.Rescaling(2.0, offset=-1.0, name="center")(image)
    for stage in range(stages):
        channels = scale_width(32 * 2**stage, width)
        for block in range(_BLOCKS_PER_STAGE):
            x = _residual_block(x, channels, None, f"stage{stage}_{block}")
        x = SpaceToDepth(2, name=f"stage{stage}_depth")(x)
        x = convolution(
            x,
            scale_width(64 * 2**stage, width),
            1,
            uniform_by_fan_in,
            name=f"stage{stage}_down",
        )
    x = keras.layers.GlobalAveragePooling2D(name="pool")(x)
    x = _dense_norm_gelu(x, x.shape[-1], "features")
    outputs = dense(x, num_outputs, uniform_by_fan_in, name="head")
    return keras.Model(image, outputs, name=name)


def residual_decoder(
    num_latents: int,
    image_shape: Sequence[int],
    *,
    width: float = 1.0,
    normalize_outputs: bool = False,
    name: str = "decoder",
) -> keras.Model:
    """The conditional residual decoder of Tripod.

    Two times (dense 256, layer normalization, GELU) turn the latents into a condition,
    layer `cond`. A learned 4x4 map of ones passes as many stages as the image has
    halvings: two residual blocks whose instance normalizations take their scale (plus
    1) and shift from the condition, then nearest-neighbour doubling and a 3x3
    convolution to half the width. The outputs of all stages but the last are the
    layers `block0`, `block1`, ...; the last stage gives the logits of the image.

    The paper gives no details of the network; all of this follows its public code:
    GELU with tanh, epsilon 1e-5, weights and biases from U(±1/sqrt(fan_in)).

    Args:
        num_latents: Size of the input vector.
        image_shape: `(height, width, channels)` of the output.
        width: Multiplies every number of channels and units.
        normalize_outputs: Whether `block0`, `block1`, ... end with an instance
            normalization without scale and shift: the activation normalization of
            naive Tripod's Hessian penalty.
        name: Name of the model.

    Returns:
        A functional model, vector to image logits.

    Example:

    ```python
    decoder = residual_decoder(12, (64, 64, 3))
    outputs = residual_inner_layers((64, 64, 3))
    # ["cond", "block0", "block1", "block2"]
    ```

    Reference:
        Hsu et al. 2024, Tripod, section 4 and its public code.
    """
    check_count("num_latents", num_latents)
    stages = count_stages(image_shape)
    widths = [scale_width(64 * 2**stage, width) for stage in reversed(range(stages))]
    latents = keras.Input((num_latents,), name="latents")
    condition = _condition_of(latents, scale_width(256, width))
    x = LearnedConstant(
        (*smallest_map(image_shape), widths[0]), value=1.0, name="start"
    )(condition)
    for stage, channels in enumerate(widths):
        for block in range(_BLOCKS_PER_STAGE):
            x = _residual_block(x, channels, condition, f"stage{stage}_{block}")
        if stage < stages - 1:
            following = widths[stage + 1]
            x = _stage_output(x, following, normalize_outputs, f"block{stage}")
    logits = _up_convolution(x, image_shape[-1], "logits")
    return keras.Model(latents, logits, name=name)


def residual_inner_layers(image_shape: Sequence[int]) -> list[str]:
    """Names of the decoder's layers whose outputs Tripod's penalty regularizes."""
    return [
        "cond",
        *(f"block{stage}" for stage in range(count_stages(image_shape) - 1)),
    ]


def _residual_block(x: Any, channels: int, condition: Any, label: str) -> Any:
    skip = x
    if x.shape[-1] != channels:
        skip = convolution(x, channels, 1, uniform_by_fan_in, name=f"{label}_skip")
    for layer in range(_LAYERS_PER_BLOCK):
        name = f"{label}_{layer}"
        x = convolution(x, channels, 3, uniform_by_fan_in, name=f"{name}_conv")
        x = _normalize(x, condition, f"{name}_norm")
        x = keras.ops.gelu(x, approximate=True)
    return skip + x


def _normalize(x: Any, condition: Any, name: str) -> Any:
    if condition is None:
        return InstanceNormalization(epsilon=_EPSILON, name=name)(x)
    kernel, bias = uniform_by_fan_in(condition.shape[-1])
    return AdaptiveInstanceNormalization(
        scale_offset=1.0,
        epsilon=_EPSILON,
        kernel_initializer=kernel,
        bias_initializer=bias,
        name=name,
    )([x, condition])


def _condition_of(latents: Any, units: int) -> Any:
    x = _dense_norm_gelu(latents, units, "cond_hidden")
    return _dense_norm_gelu(x, units, "cond")


def _dense_norm_gelu(x: Any, units: int, name: str) -> Any:
    """Dense, layer normalization, GELU; the result carries `name`."""
    x = dense(x, units, uniform_by_fan_in, name=f"{name}_dense")
    x = keras.layers.LayerNormalization(epsilon=_EPSILON, name=f"{name}_norm")(x)
    return keras.layers.Identity(name=name)(keras.ops.gelu(x, approximate=True))


def _stage_output(x: Any, channels: int, normalize: bool, name: str) -> Any:
    x = _up_convolution(x, channels, f"{name}_conv" if normalize else name)
    if normalize:
        x = InstanceNormalization(_EPSILON, affine=False, name=name)(x)
    return x


def _up_convolution(x: Any, filters: int, name: str) -> Any:
    """Nearest-neighbour doubling and a 3x3 convolution, as one layer."""
    kernel, bias = uniform_by_fan_in(x.shape[-1] * 9)
    return UpsamplingConv2D(
        filters, kernel_initializer=kernel, bias_initializer=bias, name=name
    )(x)
