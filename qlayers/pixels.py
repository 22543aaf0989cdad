"""Images as arrays: bytes, numbers in [0, 1], and many in one picture."""

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Pixels = npt.NDArray[np.uint8]


def to_unit_range(images: npt.ArrayLike) -> npt.NDArray[np.float32]:
    """Bytes, or numbers in [0, 1], as float32 in [0, 1]."""
    array = np.asarray(images)
    if array.dtype == np.uint8:
        return array.astype(np.float32) / np.float32(255)
    return array.astype(np.float32, copy=False)


def to_bytes(images: npt.ArrayLike) -> Pixels:
    """Bytes, or numbers in [0, 1], as bytes; one channel becomes three."""
    array = np.asarray(images)
    if array.dtype != np.uint8:
        array = np.rint(np.clip(array, 0.0, 1.0) * 255.0).astype(np.uint8)
    if array.shape[-1] == 1:
        array = np.repeat(array, 3, axis=-1)
    return array


def resized(images: npt.ArrayLike, side: int) -> Pixels:
    """Images (count, height, width, channels) as bytes with another side."""
    from PIL import Image

    pixels = [Image.fromarray(image) for image in to_bytes(images)]
    return np.stack([np.asarray(image.resize((side, side))) for image in pixels])


def image_grid(
    rows: npt.ArrayLike, gap: int = 1, fill: int = 255, frame: bool = False
) -> Pixels:
    """One picture of a table of images.

    Args:
        rows: (rows, columns, height, width, channels).
        gap: Pixels between images, also above and on the left.
        fill: Grey level of the gaps.
        frame: Whether to add the gap below and on the right.

    Example:
        >>> picture = image_grid(models.traverse(model, image), gap=2)
    """
    images = to_bytes(rows)
    if images.ndim != 5:
        raise ValueError(
            "`rows` must have shape (rows, columns, height, width, channels); received "
            f"{images.shape}."
        )
    border = [(0, 0), (0, 0), (gap, 0), (gap, 0), (0, 0)]
    framed = np.pad(images, border, constant_values=fill)
    rows_, columns, height, width, channels = framed.shape
    joined = framed.transpose(0, 2, 1, 3, 4)
    picture = joined.reshape(rows_ * height, columns * width, channels)
    end = (0, gap if frame else 0)
    return np.pad(picture, [end, end, (0, 0)], constant_values=fill)


def in_rows(images: npt.ArrayLike, columns: int, fill: int = 255) -> Pixels:
    """Images (count, ...) as (rows, columns, ...) bytes; the last row is filled up.

    Args:
        images: (count, height, width, channels).
        columns: Number of images in a row.
        fill: Grey level of the places that are left over.
    """
    pixels = to_bytes(images)
    left = -len(pixels) % columns
    rest = np.full((left, *pixels.shape[1:]), fill, np.uint8)
    return np.concatenate([pixels, rest]).reshape(-1, columns, *pixels.shape[1:])


def figure_pixels(figure: "Figure", dpi: int = 100) -> Pixels:
    """A matplotlib figure as (height, width, 3) bytes."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    figure.set_dpi(dpi)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    pixels: Any = np.asarray(canvas.buffer_rgba())
    return pixels[..., :3].copy()
