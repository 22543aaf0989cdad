"""Resizing of byte images."""

from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf


def resize_tensor(images: Any, size: int) -> tf.Tensor:
    """Antialiased bicubic resize, clipped and rounded back to bytes.

    Hsu et al. 2023 resize the NVIDIA sets in this way (in floating point; rounding to
    bytes moves a pixel by at most 1/510).

    Args:
        images: uint8 (n, height, width, channels).
        size: New height and width.

    Returns:
        uint8 images (n, size, size, channels).
    """
    resized = tf.image.resize(images, [size, size], method="bicubic", antialias=True)
    return tf.cast(tf.round(tf.clip_by_value(resized, 0.0, 255.0)), tf.uint8)


def resize_bytes(images: npt.NDArray[np.uint8], size: int) -> npt.NDArray[np.uint8]:
    """The same for arrays; returns the input itself if it already has that size."""
    if images.shape[1:3] == (size, size):
        return images
    return resize_tensor(images, size).numpy()
