"""Arrays inside HDF5 files, a few rows at a time."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from qlayers.datasets.readers.dataset_file_error import DatasetFileError
from qlayers.datasets.readers.file_checks import check_is_data


class Hdf5Rows:
    """One array of an HDF5 file, read front to back without loading it whole.

    Args:
        path: the file.
        key: path of the array inside it.
    """

    def __init__(self, path: str | Path, key: str) -> None:
        self.path = Path(path)
        self.key = key
        check_is_data(self.path)
        with self._open() as file:
            if key not in file:
                raise DatasetFileError(
                    self.path,
                    f"expected an array named {key!r}, found {sorted(file.keys())}: "
                    "this is another file.",
                )
            self.shape: tuple[int, ...] = file[key].shape
            self.dtype: np.dtype[Any] = file[key].dtype

    def __len__(self) -> int:
        return self.shape[0]

    def chunks(self, num_rows: int) -> Iterator[npt.NDArray[Any]]:
        """Yields consecutive blocks of at most `num_rows` rows."""
        with self._open() as file:
            for first in range(0, len(self), num_rows):
                try:
                    yield file[self.key][first : first + num_rows]
                except OSError as error:
                    raise DatasetFileError(
                        self.path,
                        f"the array {self.key!r} cannot be read at row {first} "
                        f"({error}): the file is damaged or truncated.",
                    ) from error

    def read(self) -> npt.NDArray[Any]:
        """The whole array; meant for labels, not for images."""
        return np.concatenate(list(self.chunks(1 << 16)))

    def _open(self) -> Any:
        import h5py

        try:
            return h5py.File(self.path, "r")
        except OSError as error:
            raise DatasetFileError(
                self.path, f"not a readable HDF5 file ({error}); it may be truncated."
            ) from error
