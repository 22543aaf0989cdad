"""Zip archives with one PNG per image and an array of labels."""

import io
import struct
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from qlayers.datasets.readers.damage import naming_damage
from qlayers.datasets.readers.dataset_file_error import DatasetFileError
from qlayers.datasets.readers.file_checks import check_is_data
from qlayers.datasets.readers.numbered_zip import NumberedZip

_PNG_START = b"\x89PNG\r\n\x1a\n"
_MAX_PNG_BYTES = 1 << 20
_MAX_SIDE = 1024
_MAX_HEADER_BYTES = 1 << 14


class PngArchive:
    """The layout of the NVIDIA sets: `<folder>/images/000000.png` and labels.

    Images are read one at a time; the archive is never unpacked.

    Args:
        path: The zip file.
        folder: Name of the folder inside it.
        labels_name: Name of the label file inside the folder; a .npy file, whatever
            its suffix.
    """

    def __init__(self, path: str | Path, folder: str, labels_name: str) -> None:
        self.path = Path(path)
        self.folder = folder
        check_is_data(self.path)
        self._archive = NumberedZip(self.path, f"{folder}/images/", ".png")
        self._labels_name = f"{folder}/{labels_name}"

    def __len__(self) -> int:
        return len(self._archive)

    def __enter__(self) -> "PngArchive":
        return self

    def __exit__(self, *exception: Any) -> None:
        self._archive.close()

    def png(self, index: int) -> bytes:
        """The bytes of one picture as they are in the archive."""
        name = f"{self.folder}/images/{index:06d}.png"
        content = self._read(name, _MAX_PNG_BYTES, index)
        if not content.startswith(_PNG_START) or len(content) < 24:
            raise DatasetFileError(self.path, f"{name} is no PNG picture.")
        width, height = struct.unpack_from(">2L", content, 16)
        if max(width, height) > _MAX_SIDE:
            raise DatasetFileError(
                self.path,
                f"{name} has {width}x{height} pixels: this is another archive.",
            )
        return content

    def read_labels(self, num_factors: int) -> npt.NDArray[np.floating]:
        """The labels (pictures, factors); read anew each time, since they are large.

        Args:
            num_factors: Columns that are expected; many more are refused before
                anything is unpacked.
        """
        name = self._labels_name
        # Twice as many columns, or 16-byte numbers, still get a plainer message below.
        limit = _MAX_HEADER_BYTES + 32 * (len(self) + 64) * num_factors
        content = self._read(name, limit)
        with naming_damage(self.path, f"{name} is no plain .npy array"):
            labels = np.load(io.BytesIO(content), allow_pickle=False)
            if not isinstance(labels, np.ndarray):
                raise ValueError(f"found a {type(labels).__name__}")
        if labels.ndim != 2 or not np.issubdtype(labels.dtype, np.floating):
            raise DatasetFileError(
                self.path,
                f"{name} has shape {labels.shape} and dtype {labels.dtype}, expected "
                "(images, factors) floating-point numbers.",
            )
        if len(labels) != len(self):
            raise DatasetFileError(
                self.path,
                f"{len(self)} pictures but {len(labels)} rows of labels; the two must "
                "agree.",
            )
        return labels

    def _read(self, name: str, max_bytes: int, number: int | None = None) -> bytes:
        try:
            if number is None:
                return self._archive.read_name(name, max_bytes)
            return self._archive.read_number(number, max_bytes)
        except KeyError as error:
            raise DatasetFileError(
                self.path,
                f"there is no {name} in it ({len(self._archive)} pictures in "
                f"{self.folder}/images, otherwise {self._archive.other_names[:5]}): it "
                "is incomplete or another archive.",
            ) from error
