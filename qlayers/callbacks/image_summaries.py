"""Reconstructions and latent traversals in TensorBoard."""

import os
from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np
import numpy.typing as npt

from qlayers.callbacks.step_callback import StepCallback
from qlayers.pixels import image_grid, to_bytes

_MOST_ROWS = 8


class ImageSummaries(StepCallback):
    """Writes pictures of what a model makes of fixed images.

    - `reconstructions`: originals in the upper rows, reconstructions below each;
    - `traversals/<i>`: one row for each latent of image `i`, moved through its values.

    Args:
        log_dir: Folder for TensorBoard.
        images: (images, height, width, channels), in [0, 1] or bytes.
        reconstruct: Function from images to images.
        traverse: Function from one image to (latents, steps, height, width, channels),
            for example `functools.partial(models.traverse, model)`.
        every_n_steps: Training steps between two writings.
        num_traversals: Number of images that are traversed.

    Example:
        >>> ImageSummaries("runs/0", images[:16], model.reconstruct)
    """

    def __init__(
        self,
        log_dir: str | os.PathLike[str],
        images: npt.ArrayLike,
        reconstruct: Callable[[Any], Any],
        traverse: Callable[[Any], Any] | None = None,
        every_n_steps: int = 1_000,
        num_traversals: int = 1,
    ) -> None:
        super().__init__(log_dir, every_n_steps)
        self.images = np.asarray(images)
        self.reconstruct = reconstruct
        self.traverse = traverse
        self.num_traversals = num_traversals

    def write(self, step: int, logs: Mapping[str, Any]) -> None:
        import tensorflow as tf

        made = keras.ops.convert_to_numpy(self.reconstruct(self.images))
        picture = reconstruction_grid(self.images, made)
        tf.summary.image("reconstructions", picture[None])
        if self.traverse is None:
            return
        for i, image in enumerate(self.images[: self.num_traversals]):
            rows = image_grid(keras.ops.convert_to_numpy(self.traverse(image)))
            tf.summary.image(f"traversals/{i}", rows[None])


def reconstruction_grid(
    images: npt.ArrayLike, reconstructions: npt.ArrayLike
) -> npt.NDArray[np.uint8]:
    """Originals and reconstructions, each under its original."""
    above, below = to_bytes(images), to_bytes(reconstructions)
    columns = min(_MOST_ROWS, len(above))
    count = len(above) // columns * columns
    shape = (-1, columns, *above.shape[1:])
    pairs = np.stack(
        [above[:count].reshape(shape), below[:count].reshape(shape)], axis=1
    )
    return image_grid(pairs.reshape(-1, columns, *above.shape[1:]))
