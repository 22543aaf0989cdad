"""Arrays of pixels from images and figures."""

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Pixels = npt.NDArray[np.uint8]


def to_bytes(images: npt.ArrayLike) -> Pixels:
    """Images in [0, 1], or bytes, as bytes; one channel becomes three."""
    array = np.asarray(images)
    if array.dtype != np.uint8:
        array = np.rint(np.clip(array, 0.0, 1.0) * 255.0).astype(np.uint8)
    if array.shape[-1] == 1:
        array = np.repeat(array, 3, axis=-1)
    return array


def image_grid(rows: npt.ArrayLike, gap: int = 1) -> Pixels:
    """One picture of a table of images.

    Args:
        rows: (rows, columns, height, width, channels).
        gap: Pixels between images, white.
    """
    images = to_bytes(rows)
    if images.ndim != 5:
        raise ValueError(
            "`rows` must have shape (rows, columns, height, width, channels); received "
            f"{images.shape}."
        )
    border = [(0, 0), (0, 0), (gap, 0), (gap, 0), (0, 0)]
    framed = np.pad(images, border, constant_values=255)
    rows_, columns, height, width, channels = framed.shape
    joined = framed.transpose(0, 2, 1, 3, 4)
    return joined.reshape(rows_ * height, columns * width, channels)


def figure_pixels(figure: "Figure", dpi: int = 100) -> Pixels:
    """A matplotlib figure as (height, width, 3) bytes."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    figure.set_dpi(dpi)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    pixels: Any = np.asarray(canvas.buffer_rgba())
    return pixels[..., :3].copy()
