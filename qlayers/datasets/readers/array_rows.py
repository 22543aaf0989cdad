"""What readers of arrays in files have in common."""

import abc
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from qlayers.datasets.readers.damage import check_size
from qlayers.datasets.readers.file_checks import check_is_data


class ArrayRows(abc.ABC):
    """One array of a file, read front to back without loading it whole.

    Args:
        path: The file.
        key: Name of the array in it.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    def __init__(self, path: str | Path, key: str) -> None:
        self.path = Path(path)
        self.key = key
        check_is_data(self.path)
        self._read_description()
        self._row_bytes = math.prod(self.shape[1:]) * self.dtype.itemsize

    def __len__(self) -> int:
        return self.shape[0]

    @abc.abstractmethod
    def _read_description(self) -> None:
        """Sets shape and dtype, without reading any row."""

    @abc.abstractmethod
    def chunks(self, num_rows: int) -> Iterator[npt.NDArray[Any]]:
        """Yields consecutive blocks of at most `num_rows` rows."""

    def read(self, max_bytes: int) -> npt.NDArray[Any]:
        """The whole array; meant for labels, not for images.

        Args:
            max_bytes: More than this is refused before anything is unpacked.
        """
        size = len(self) * self._row_bytes
        check_size(self.path, f"the array {self.key!r}", size, max_bytes)
        empty = np.empty((0, *self.shape[1:]), self.dtype)
        return np.concatenate([empty, *self.chunks(1 << 16)])
