"""A decoder that is a sum of decoders, each of which sees its own latents only."""

from collections.abc import Callable, Sequence
from typing import Any

import keras

from models.networks.resnet import balls_decoder
from qlayers.checks import check_count


def additive_decoder(
    num_latents: int,
    image_shape: Sequence[int],
    *,
    block_sizes: Sequence[int] | None = None,
    decoder: Callable[..., keras.Model] = balls_decoder,
    name: str = "decoder",
    **kwargs: Any,
) -> keras.Model:
    """The sum over blocks of latents of one decoder each.

        f(z) = sum over blocks B of f_B(z_B)

    The decoders have the same architecture and separate weights.

    Args:
        num_latents: Size of the input vector.
        image_shape: `(height, width, channels)` of the output.
        block_sizes: Numbers of consecutive latents that form a block; their sum is
            `num_latents`. By default every latent is a block of its own.
        decoder: Function of this package that builds the decoder of a block.
        name: Name of the model.
        **kwargs: Passed to `decoder`, such as `width`.

    Returns:
        A functional model, vector to the sum of what the blocks' decoders give.

    Example:

    ```python
    decoder = additive_decoder(4, (64, 64, 3), block_sizes=(2, 2))
    ```

    Reference:
        Lachapelle et al. 2023; Barin-Pacela et al. 2025, Cliff, appendix F.3.
    """
    check_count("num_latents", num_latents)
    if block_sizes is None:
        block_sizes = (1,) * num_latents
    block_sizes = [check_count("block_sizes", size) for size in block_sizes]
    if sum(block_sizes) != num_latents:
        raise ValueError(
            f"`block_sizes` must add up to `num_latents` ({num_latents}). "
            f"Received: {block_sizes}, which add up to {sum(block_sizes)}."
        )
    if len(block_sizes) == 1:
        return decoder(num_latents, image_shape, name=name, **kwargs)
    latents = keras.Input((num_latents,), name="latents")
    ends = [sum(block_sizes[: i + 1]) for i in range(len(block_sizes) - 1)]
    blocks = keras.ops.split(latents, ends, axis=-1)
    images = [
        decoder(size, image_shape, name=f"{name}_block{i}", **kwargs)(block)
        for i, (size, block) in enumerate(zip(block_sizes, blocks, strict=True))
    ]
    return keras.Model(latents, keras.layers.Add(name="sum")(images), name=name)
