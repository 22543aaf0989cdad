"""Arrays inside .npz files, a few rows at a time."""

import io
import zipfile
from collections.abc import Iterator
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from qlayers.datasets.readers.array_rows import ArrayRows
from qlayers.datasets.readers.damage import naming_damage
from qlayers.datasets.readers.dataset_file_error import DatasetFileError

# Headers of plain arrays have about a hundred bytes.
_LONGEST_HEADER = 1 << 14


class NpzRows(ArrayRows):
    """One array of an .npz file, read front to back without loading it whole.

    `np.load` would hold all of MPI3D's 5.7 GB; this holds one chunk. The checksum that
    zip files carry is verified on the way. Pickled arrays are refused.

    Args:
        path: The .npz file.
        key: Name of the array.

    Example:
        >>> rows = NpzRows("mpi3d_toy.npz", "images")
        >>> for images in rows.chunks(1024):
        ...     print(images.shape)
    """

    def _read_description(self) -> None:
        with self._archive() as archive, self._member(archive) as member:
            self.shape, self.dtype = self._read_header(member)

    def chunks(self, num_rows: int) -> Iterator[npt.NDArray[Any]]:
        with self._archive() as archive, self._member(archive) as member:
            self._read_header(member)
            for first in range(0, len(self), num_rows):
                count = min(num_rows, len(self) - first)
                raw = self._read(member, count * self._row_bytes)
                if len(raw) < count * self._row_bytes:
                    raise DatasetFileError(
                        self.path,
                        f"the array {self.key!r} ends after "
                        f"{first + len(raw) // self._row_bytes} of {len(self)} rows: "
                        "the file is truncated.",
                    )
                yield np.frombuffer(raw, self.dtype).reshape(count, *self.shape[1:])
            # Reading past the end makes zipfile compare the checksum.
            self._read(member, 1)

    def _archive(self) -> zipfile.ZipFile:
        with naming_damage(self.path, "not a readable .npz file"):
            return zipfile.ZipFile(self.path)

    def _member(self, archive: zipfile.ZipFile) -> IO[bytes]:
        name = f"{self.key}.npy"
        if name not in archive.namelist():
            keys = [entry.removesuffix(".npy") for entry in archive.namelist()[:10]]
            raise DatasetFileError(
                self.path,
                f"expected an array named {self.key!r}, found {keys}: this is another "
                "file.",
            )
        with naming_damage(self.path, f"the array {self.key!r} cannot be opened"):
            return archive.open(name)

    def _read_header(self, member: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any]]:
        with naming_damage(self.path, f"the array {self.key!r} has a damaged header"):
            shape, fortran_order, dtype = _parse_header(member)
        if dtype.hasobject or dtype.itemsize == 0 or fortran_order or not shape:
            raise DatasetFileError(
                self.path,
                f"the array {self.key!r} has dtype {dtype}, shape {shape}; expected "
                "plain numbers in C order.",
            )
        if min(shape) < 0:
            raise DatasetFileError(
                self.path, f"the array {self.key!r} has the negative shape {shape}."
            )
        return shape, dtype

    def _read(self, member: IO[bytes], size: int) -> bytes:
        with naming_damage(self.path, f"the array {self.key!r} cannot be unpacked"):
            return member.read(size)


def _parse_header(member: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Reads the header, whose length is looked at before it is unpacked."""
    head = member.read(10)
    wide = len(head) > 6 and head[6] > 1
    if wide:
        head += member.read(2)
    length = int.from_bytes(head[8:], "little")
    if length > _LONGEST_HEADER:
        raise ValueError(f"a header of {length} bytes")
    stream = io.BytesIO(head + member.read(length))
    version = np.lib.format.read_magic(stream)
    if version == (1, 0):
        return np.lib.format.read_array_header_1_0(stream)
    return np.lib.format.read_array_header_2_0(stream)
