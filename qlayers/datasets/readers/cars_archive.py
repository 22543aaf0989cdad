"""The archive of Reed et al. that holds the cars."""

import io
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from qlayers.datasets.readers.dataset_file_error import DatasetFileError
from qlayers.datasets.readers.file_checks import check_is_data

_LIST = "data/cars/list.txt"


class CarsArchive:
    """Reads `nips2015-analogy-data.tar.gz` one car at a time, without unpacking it.

    Cars are numbered by their line in `data/cars/list.txt`; the order in which a
    directory lists its files differs between machines.

    Args:
        path: the archive.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        check_is_data(self.path)
        self.names = self._read_names()

    def __len__(self) -> int:
        return len(self.names)

    def cars(self) -> Iterator[tuple[int, npt.NDArray[np.uint8]]]:
        """Yields (number of the car, images (4 elevations, 24 azimuths, h, w, 3))."""
        numbers = {f"data/cars/{name}.mat": i for i, name in enumerate(self.names)}
        for name, content in self._members(set(numbers)):
            yield numbers.pop(name), self._views(name, content)
        if numbers:
            raise DatasetFileError(
                self.path,
                f"{len(numbers)} of the {len(self)} cars in {_LIST} are missing, the "
                f"first is {min(numbers)}.",
            )

    def _views(self, name: str, content: bytes) -> npt.NDArray[np.uint8]:
        from scipy.io import loadmat

        try:
            pictures = loadmat(io.BytesIO(content))["im"]
        except (KeyError, ValueError, TypeError, OSError, zlib.error) as error:
            raise DatasetFileError(
                self.path, f"{name} holds no readable array 'im' ({error})."
            ) from error
        if pictures.ndim != 5 or pictures.shape[2:] != (3, 24, 4):
            raise DatasetFileError(
                self.path,
                f"{name}: 'im' has shape {pictures.shape}, expected (128, 128, 3, 24, "
                "4).",
            )
        return pictures.transpose(4, 3, 0, 1, 2)

    def _read_names(self) -> tuple[str, ...]:
        for _, content in self._members({_LIST}):
            return tuple(content.decode().split())
        raise DatasetFileError(
            self.path, f"there is no {_LIST} in it: this is another archive."
        )

    def _members(self, wanted: set[str]) -> Iterator[tuple[str, bytes]]:
        """Walks through the archive once, in its own order."""
        try:
            with tarfile.open(self.path, "r:*") as archive:
                for member in archive:
                    name = member.name.removeprefix("./")
                    if name in wanted and (stream := archive.extractfile(member)):
                        yield name, stream.read()
        except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
            raise DatasetFileError(
                self.path, f"not a readable tar.gz archive ({error}); truncated?"
            ) from error
