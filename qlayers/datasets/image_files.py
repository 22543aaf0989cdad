"""Reads pictures of any format and size into square images of one size."""

from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from qlayers.datasets.readers import naming_damage

Fit = Literal["crop", "pad", "stretch"]

# More than any camera's pixels: such a file is a mistake, or meant to fill the memory.
_MAX_PIXELS = 200_000_000


def check_fit(fit: str) -> None:
    """Refuses unknown names of rules."""
    if fit not in get_args(Fit):
        raise ValueError(f"`fit` must be one of {get_args(Fit)}, received {fit!r}.")


def fit_picture(picture: Any, size: int, fit: Fit) -> Any:
    """Makes a Pillow picture square.

    Args:
        picture: A Pillow image.
        size: Side of the result.
        fit: "crop" cuts off what is beyond the middle square, "pad" adds black borders,
            "stretch" changes the proportions.
    """
    from PIL import Image, ImageOps

    method = Image.Resampling.LANCZOS
    if fit == "crop":
        return ImageOps.fit(picture, (size, size), method)
    if fit == "pad":
        return ImageOps.pad(picture, (size, size), method, color=0)
    return picture.resize((size, size), method)


def _eight_bits(picture: Any) -> Any:
    """A picture with one byte a channel; Pillow's own conversion cuts off at 255."""
    from PIL import Image

    if not picture.mode.startswith(("I", "F")):
        return picture
    values = np.asarray(picture).astype(np.float64)
    low, high = values.min(), values.max()
    largest = 1.0 if picture.mode.startswith("F") else 65_535.0
    if not (low >= 0 and high <= largest):
        raise ValueError(
            f"grey values from {low:g} to {high:g}, expected 0 to {largest:g}"
        )
    grey = Image.fromarray(np.rint(values * (255 / largest)).astype(np.uint8))
    clear = picture.info.get("transparency")
    if clear is None:
        return grey
    seen = Image.fromarray(np.where(values == clear, 0, 255).astype(np.uint8))
    return Image.merge("LA", (grey, seen))


def read_picture(
    path: Path, size: int, fit: Fit, channels: int
) -> npt.NDArray[np.uint8]:
    """One picture as uint8 (size, size, channels).

    It is turned as its camera noted; transparent parts become white. Grey values of 16
    bits are divided by 257, real ones must be in [0, 1].

    Args:
        path: A file in any format that Pillow reads.
        size: Side of the result.
        fit: See `fit_picture`.
        channels: 3 for colours, 1 for grey.
    """
    from PIL import Image, ImageOps

    with (
        naming_damage(path, "cannot be read as an image"),
        Image.open(path) as opened,
    ):
        if opened.width * opened.height > _MAX_PIXELS:
            raise ValueError(f"{opened.width}x{opened.height} pixels")
        picture = _eight_bits(ImageOps.exif_transpose(opened))
        if picture.has_transparency_data:
            picture = picture.convert("RGBA")
            white = Image.new("RGBA", picture.size, "white")
            picture = Image.alpha_composite(white, picture)
        picture = picture.convert("RGB" if channels == 3 else "L")
        shown = np.asarray(fit_picture(picture, size, fit), np.uint8)
    return shown.reshape(size, size, channels)
