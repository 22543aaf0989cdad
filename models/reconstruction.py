"""How decoder outputs are compared with images, and turned into images."""

from dataclasses import dataclass
from typing import Any, Literal, get_args

import keras
import numpy as np
from keras import ops

from qlayers.backend import Tensor, as_float32, is_eager
from qlayers.checks import check_choice
from qlayers.pixels import to_unit_range

# Augmentation may leave [0, 1] a little; nothing but bytes goes beyond this.
_BRIGHTEST = 2.0
_RANGE = (
    "Images must be in [0, 1], or uint8 from 0 to 255: divide by 255, or cast to uint8."
)
ReconstructionKind = Literal["bce", "mse"]
Reduction = Literal["mean", "sum"]


@dataclass(frozen=True)
class Reconstruction:
    """A reconstruction loss on images in [0, 1].

    Attributes:
        kind: `"bce"`: the decoder gives logits of Bernoulli pixels. `"mse"`: it gives
            pixels.
        reduction: `"mean"` or `"sum"` over the pixels and channels of an image; the
            mean over images is always taken. Loss weights of papers that sum are
            larger by the number of pixels than those of papers that average.

    Example:

    ```python
    loss = Reconstruction("bce")(images, decoder(z))
    ```
    """

    kind: ReconstructionKind = "bce"
    reduction: Reduction = "mean"

    def __post_init__(self) -> None:
        check_choice("kind", self.kind, get_args(ReconstructionKind))
        check_choice("reduction", self.reduction, get_args(Reduction))

    def __call__(self, images: Tensor, outputs: Tensor) -> Tensor:
        """The loss of a batch, a float32 scalar."""
        images, outputs = as_float32(images), as_float32(outputs)
        if len(images.shape) != len(outputs.shape):
            # They would be compared with each other's pixels.
            raise ValueError(
                f"Images of shape {tuple(images.shape)} and reconstructions of shape "
                f"{tuple(outputs.shape)}: grey images need an axis of channels, "
                "images[..., None]."
            )
        if self.kind == "bce":
            # softplus(l) - x l is the cross-entropy of sigmoid(l) with x.
            per_pixel = ops.softplus(outputs) - images * outputs
        else:
            per_pixel = ops.square(outputs - images)
        mean = ops.mean(per_pixel)
        if self.reduction == "mean":
            return mean
        num_pixels = 1
        for size in images.shape[1:]:
            num_pixels *= size
        return mean * float(num_pixels)

    def to_images(self, outputs: Tensor) -> Tensor:
        """Images in [0, 1] that the decoder's outputs stand for."""
        outputs = as_float32(outputs)
        if self.kind == "bce":
            return ops.sigmoid(outputs)
        return ops.clip(outputs, 0.0, 1.0)


def to_float_images(images: Any) -> Tensor:
    """Images as float32 in [0, 1]; uint8 ones are divided by 255."""
    dtype = keras.backend.standardize_dtype(images.dtype)
    if dtype == "uint8":
        return ops.cast(images, "float32") / 255.0
    images = as_float32(images)
    _check_unit_range(images)
    return images


def to_unit_images(images: Any) -> np.ndarray:
    """Arrays of images as float32 in [0, 1]; floats from 0 to 255 raise."""
    array = to_unit_range(images)
    if array.ndim == 4 and array.size:
        _refuse(float(np.max(array)))
    return array


def _check_unit_range(images: Tensor) -> None:
    """Raises, or has TensorFlow's step raise, for images from 0 to 255.

    What is compiled by XLA or JAX runs unchecked. Points, which are no images, may lie
    anywhere.
    """
    if isinstance(images, keras.KerasTensor) or len(images.shape) != 4:
        return
    if is_eager(images):
        to_unit_images(ops.convert_to_numpy(images))
    elif keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        largest = tf.reduce_max(images)
        message = [_RANGE, "Received values up to", largest]
        # A NaN passes: that a run diverges is for its guard to tell.
        is_dark = tf.logical_or(largest <= _BRIGHTEST, tf.math.is_nan(largest))
        tf.debugging.Assert(is_dark, message)


def _refuse(largest: float) -> None:
    if largest > _BRIGHTEST:
        raise ValueError(f"{_RANGE} Received values up to {largest:g}.")
