"""Antialiased discs."""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt


def paint_discs(
    images: npt.NDArray[np.uint8],
    centres: npt.NDArray[np.float32],
    radius: float,
    colour: Sequence[int],
) -> None:
    """Paints one disc onto each image, in place.

    The edge is one pixel wide and linear in the distance to the centre. Only the
    square around a disc is touched, which makes small discs cheap.

    Args:
        images: (n, size, size, channels).
        centres: (n, 2), column and row in pixels; (0.5, 0.5) is the middle of the
            first pixel.
        radius: Radius in pixels.
        colour: One byte per channel.
    """
    size = images.shape[1]
    window = min(2 * math.ceil(radius + 1) + 1, size)
    corners = np.floor(centres - window / 2 + 0.5).astype(np.int64)
    corners = np.clip(corners, 0, size - window)
    columns, rows = (corners[:, axis, None] + np.arange(window) for axis in (0, 1))
    across = (columns + 0.5 - centres[:, :1]).astype(np.float32) ** 2
    down = (rows + 0.5 - centres[:, 1:]).astype(np.float32) ** 2
    distance = np.sqrt(down[:, :, None] + across[:, None, :])
    covered = np.clip(np.float32(radius + 0.5) - distance, 0, 1)[..., None]
    place = (
        np.arange(len(images))[:, None, None],
        rows[:, :, None],
        columns[:, None, :],
    )
    below = images[place].astype(np.float32)
    painted = below + covered * (np.array(colour, np.float32) - below)
    images[place] = np.rint(painted).astype(np.uint8)
