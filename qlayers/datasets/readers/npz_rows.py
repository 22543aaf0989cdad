"""Arrays inside .npz files, a few rows at a time."""

import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from qlayers.datasets.readers.dataset_file_error import DatasetFileError
from qlayers.datasets.readers.file_checks import check_is_data


class NpzRows:
    """One array of an .npz file, read front to back without loading it whole.

    `np.load` would hold all of MPI3D's 5.7 GB; this holds one chunk. The checksum that
    zip files carry is verified on the way. Pickled arrays are refused.

    Args:
        path: the .npz file.
        key: name of the array.

    Example:
        >>> rows = NpzRows("mpi3d_toy.npz", "images")
        >>> for images in rows.chunks(1024):
        ...     print(images.shape)
    """

    def __init__(self, path: str | Path, key: str) -> None:
        self.path = Path(path)
        self.key = key
        check_is_data(self.path)
        with self._archive() as archive, self._member(archive) as member:
            self.shape, self.dtype = self._read_header(member)

    def __len__(self) -> int:
        return self.shape[0]

    def chunks(self, num_rows: int) -> Iterator[npt.NDArray[Any]]:
        """Yields consecutive blocks of at most `num_rows` rows."""
        row_bytes = int(np.prod(self.shape[1:], dtype=np.int64)) * self.dtype.itemsize
        with self._archive() as archive, self._member(archive) as member:
            self._read_header(member)
            for first in range(0, len(self), num_rows):
                count = min(num_rows, len(self) - first)
                raw = self._read(member, count * row_bytes)
                if len(raw) < count * row_bytes:
                    raise DatasetFileError(
                        self.path,
                        f"the array {self.key!r} ends after "
                        f"{first + len(raw) // row_bytes} of {len(self)} rows: the "
                        "file is truncated.",
                    )
                yield np.frombuffer(raw, self.dtype).reshape(count, *self.shape[1:])
            # Reading past the end makes zipfile compare the checksum.
            self._read(member, 1)

    def read(self) -> npt.NDArray[Any]:
        """The whole array; meant for labels, not for images."""
        return np.concatenate(list(self.chunks(1 << 16)))

    def _archive(self) -> zipfile.ZipFile:
        try:
            return zipfile.ZipFile(self.path)
        except (zipfile.BadZipFile, OSError) as error:
            raise DatasetFileError(
                self.path, f"not a readable .npz file ({error}); it may be truncated."
            ) from error

    def _member(self, archive: zipfile.ZipFile) -> IO[bytes]:
        name = f"{self.key}.npy"
        if name not in archive.namelist():
            keys = [entry.removesuffix(".npy") for entry in archive.namelist()]
            raise DatasetFileError(
                self.path,
                f"expected an array named {self.key!r}, found {keys}: this is another "
                "file.",
            )
        return archive.open(name)

    def _read_header(self, member: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any]]:
        try:
            version = np.lib.format.read_magic(member)
            if version == (1, 0):
                header = np.lib.format.read_array_header_1_0(member)
            else:
                header = np.lib.format.read_array_header_2_0(member)
        except (ValueError, zipfile.BadZipFile, zlib.error, EOFError) as error:
            raise DatasetFileError(
                self.path, f"the array {self.key!r} has a damaged header ({error})."
            ) from error
        shape, fortran_order, dtype = header
        if dtype.hasobject or fortran_order or not shape:
            raise DatasetFileError(
                self.path,
                f"the array {self.key!r} has dtype {dtype}, shape {shape}; expected "
                "plain numbers in C order.",
            )
        return shape, dtype

    def _read(self, member: IO[bytes], size: int) -> bytes:
        try:
            return member.read(size)
        except (zipfile.BadZipFile, zlib.error, EOFError) as error:
            raise DatasetFileError(
                self.path, f"the array {self.key!r} is damaged ({error})."
            ) from error
