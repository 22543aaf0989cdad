"""How decoder outputs are compared with images, and turned into images."""

from dataclasses import dataclass
from typing import Any, Literal, get_args

import keras
from keras import ops

from qlayers.backend import Tensor, as_float32
from qlayers.checks import check_choice

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
    return as_float32(images)
