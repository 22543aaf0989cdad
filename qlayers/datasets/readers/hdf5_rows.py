"""Arrays inside HDF5 files, a few rows at a time."""

import math
from collections.abc import Iterator
from typing import Any

import numpy.typing as npt

from qlayers.datasets.readers.array_rows import ArrayRows
from qlayers.datasets.readers.damage import check_size, naming_damage
from qlayers.datasets.readers.dataset_file_error import DatasetFileError

# Shapes3D is stored in pieces of 15,000 rows, 184 MB: one row of pieces fits.
_BLOCK_BYTES = 256 << 20


class Hdf5Rows(ArrayRows):
    """One array of an HDF5 file, read front to back without loading it whole.

    Files store an array in compressed pieces of many rows. To read a few rows, the
    library unpacks every piece that holds one of them; so this reads whole pieces, as
    far as memory allows, and hands them out in smaller parts.

    Arrays that live in other files (external links, external storage, virtual arrays)
    are refused: a dataset file has no business with the rest of the disk.

    Args:
        path: The file.
        key: Path of the array inside it.
    """

    def _read_description(self) -> None:
        with self._open() as file:
            array = self._array(file)
            self.shape, self.dtype = array.shape, array.dtype
            self._piece_rows: int = array.chunks[0] if array.chunks else 1
            piece = math.prod(array.chunks or (1,)) * self.dtype.itemsize
        check_size(self.path, f"a piece of {self.key!r}", piece, _BLOCK_BYTES)

    def chunks(self, num_rows: int) -> Iterator[npt.NDArray[Any]]:
        block_rows = self._rows_at_once(num_rows)
        with self._open() as file:
            array = self._array(file)
            for first in range(0, len(self), block_rows):
                problem = f"the array {self.key!r} cannot be read at row {first}"
                with naming_damage(self.path, problem):
                    block = array[first : min(first + block_rows, len(self))]
                for start in range(0, len(block), num_rows):
                    # A copy, so that the block is gone before the next is read.
                    yield block[start : start + num_rows].copy()
                del block

    def _rows_at_once(self, num_rows: int) -> int:
        """Whole pieces, as many as hold `num_rows` and fit into memory."""
        fitting = max(1, _BLOCK_BYTES // max(1, self._row_bytes))
        pieces = -(-num_rows // self._piece_rows) * self._piece_rows
        return min(pieces, fitting)

    def _array(self, file: Any) -> Any:
        """The array, which must be in this very file."""
        import h5py

        with naming_damage(self.path, f"the array {self.key!r} cannot be found"):
            group = file
            for name in self.key.split("/"):
                link = group.get(name, getlink=True) if _is_group(group) else None
                if link is None:
                    raise DatasetFileError(
                        self.path,
                        f"expected an array named {self.key!r}, found "
                        f"{sorted(file.keys())[:10]}: this is another file.",
                    )
                if not isinstance(link, h5py.HardLink):
                    raise self._elsewhere(f"{name!r} is a {type(link).__name__}")
                group = group[name]
            return self._plain(group)

    def _plain(self, array: Any) -> Any:
        import h5py

        if not isinstance(array, h5py.Dataset) or not array.shape:
            raise DatasetFileError(self.path, f"{self.key!r} is no array.")
        if array.external or array.is_virtual:
            raise self._elsewhere(f"{self.key!r} keeps its numbers outside")
        if array.dtype.kind not in "biuf":
            raise DatasetFileError(
                self.path, f"{self.key!r} has dtype {array.dtype}, expected numbers."
            )
        return array

    def _elsewhere(self, finding: str) -> DatasetFileError:
        return DatasetFileError(
            self.path,
            f"{finding}: it leads to another place or file, which is refused.",
        )

    def _open(self) -> Any:
        import h5py

        with naming_damage(self.path, "not a readable HDF5 file"):
            return h5py.File(self.path, "r")


def _is_group(node: Any) -> bool:
    return hasattr(node, "keys")
