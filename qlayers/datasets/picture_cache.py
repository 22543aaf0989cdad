"""Decoded pictures that stay in memory."""

import numpy as np
import numpy.typing as npt

from qlayers.datasets.factor_space import IntArray

# What a dataset may take: all of dSprites' 64x64 sub-grid, Cars3D or SmallNORB, but no
# set of half a million colour images.
MOST_BYTES = 2**28


class PictureCache:
    """Keeps every picture that was decoded once.

    A training sees the pictures of a small dataset dozens of times, and decoding a
    batch of dSprites for 32x32 takes longer than all the rest that a stream does for
    it. Memory is used as pictures come in. Several threads may read and store at the
    same time: a picture counts as held only when all of it is there.

    Args:
        count: Number of pictures.
        shape: Shape of one of them.

    Example:

    ```python
    cache = PictureCache(1000, (64, 64, 3))
    missing = cache.missing(index)
    cache.store(missing, decode(missing))
    pictures = cache.pictures(index)
    ```
    """

    def __init__(self, count: int, shape: tuple[int, ...]) -> None:
        self._pictures = np.zeros((count, *shape), np.uint8)
        self._is_held = np.zeros(count, bool)

    def missing(self, index: IntArray) -> IntArray:
        """The numbers among these whose pictures are not held, each once."""
        return np.unique(index[~self._is_held[index]])

    def store(self, index: IntArray, pictures: npt.NDArray[np.uint8]) -> None:
        """Takes in pictures."""
        self._pictures[index] = pictures
        self._is_held[index] = True

    def pictures(self, index: IntArray) -> npt.NDArray[np.uint8]:
        """Pictures that are held."""
        return self._pictures[index]


def cache_for(count: int, shape: tuple[int, ...]) -> PictureCache | None:
    """A cache for that many pictures; None if they would take too much memory."""
    if count * int(np.prod(shape)) > MOST_BYTES:
        return None
    return PictureCache(count, shape)
