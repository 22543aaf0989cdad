"""Arrays of a network, packed into text for a page."""

import base64
import zlib
from typing import Any

import numpy as np

_LARGEST_HALF = 65504.0


class WeightStore:
    """Collects arrays and packs them into one compressed text.

    Arrays of two and more axes (kernels) are stored in half precision: they are nearly
    all of a network's size. Vectors (biases, scales, statistics), codebooks and arrays
    that half precision cannot hold stay float32.

    Example:

    ```python
    store = WeightStore()
    index = store.add(np.ones((3, 4)))  # 0
    store.pack()["shapes"]  # [[3, 4]]
    ```
    """

    def __init__(self) -> None:
        self.arrays: list[np.ndarray] = []

    def add(self, array: Any, exact: bool = False) -> int:
        """Keeps an array and returns its number.

        Args:
            array: Numbers.
            exact: Whether to keep float32 whatever the shape.
        """
        array = np.asarray(array, "float32")
        self.arrays.append(array if exact else as_stored(array))
        return len(self.arrays) - 1

    @property
    def num_bytes(self) -> int:
        """Size before compression."""
        return sum(array.nbytes for array in self.arrays)

    def pack(self) -> dict[str, Any]:
        """Shapes, precisions and the compressed numbers.

        The text is base64 of a zlib stream: first all halves, then all floats, little
        endian, byte by byte (all first bytes, all second bytes, ...). Exponents are
        much alike, so that bytes of one kind compress better together.
        """
        is_half = [array.dtype == np.float16 for array in self.arrays]
        parts = [self._planes("<f2"), self._planes("<f4")]
        packed = zlib.compress(b"".join(parts), 9)
        return {
            "shapes": [list(array.shape) for array in self.arrays],
            "half": [int(half) for half in is_half],
            "data": base64.b64encode(packed).decode("ascii"),
        }

    def _planes(self, dtype: str) -> bytes:
        kind = np.dtype(dtype)
        chosen = [a.ravel() for a in self.arrays if a.dtype.itemsize == kind.itemsize]
        if not chosen:
            return b""
        flat = np.concatenate(chosen).astype(kind)
        return flat.view("uint8").reshape(-1, kind.itemsize).T.tobytes()


def as_stored(array: np.ndarray) -> np.ndarray:
    """An array in the precision that a page stores it in.

    Args:
        array: A float32 array.

    Example:

    ```python
    as_stored(np.zeros((3, 3), "float32")).dtype  # float16
    ```
    """
    fits = array.ndim >= 2 and bool(np.all(np.abs(array) <= _LARGEST_HALF))
    return array.astype("float16") if fits else array
