"""The archive of Reed et al. that holds the cars."""

import contextlib
import gzip
import io
import struct
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from qlayers.datasets.readers.damage import check_size, naming_damage
from qlayers.datasets.readers.dataset_file_error import DatasetFileError
from qlayers.datasets.readers.file_checks import check_is_data

_LIST = "data/cars/list.txt"
_VIEWS = (128, 128, 3, 24, 4)
_MAX_LIST_BYTES = 1 << 20
_MAX_CARS = 10_000
# A car has 4.7 MB of pixels and 1.6 MB of masks.
_MAX_CAR_BYTES = 32 << 20
_MATLAB_HEADER, _COMPRESSED = 128, 15


class CarsArchive:
    """Reads `nips2015-analogy-data.tar.gz` one car at a time, without unpacking it.

    Cars are numbered by their line in `data/cars/list.txt`; the order in which a
    directory lists its files differs between machines.

    Args:
        path: The archive.
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
        for name, content in self._members(set(numbers), _MAX_CAR_BYTES):
            if name in numbers:
                yield numbers.pop(name), self._views(name, content)
        if numbers:
            raise DatasetFileError(
                self.path,
                f"{len(numbers)} of the {len(self)} cars in {_LIST} are missing, the "
                f"first is {min(numbers)}.",
            )

    def _views(self, name: str, content: bytes) -> npt.NDArray[np.uint8]:
        from scipy.io import loadmat

        with naming_damage(self.path, f"{name} holds no readable array 'im'"):
            _check_matlab_size(content)
            found = loadmat(io.BytesIO(content), variable_names=["im"])
            pictures = np.asarray(found["im"])
        if pictures.shape != _VIEWS or pictures.dtype != np.uint8:
            raise DatasetFileError(
                self.path,
                f"{name}: 'im' has shape {pictures.shape} and dtype {pictures.dtype}, "
                f"expected {_VIEWS} uint8.",
            )
        return pictures.transpose(4, 3, 0, 1, 2)

    def _read_names(self) -> tuple[str, ...]:
        for _, content in self._members({_LIST}, _MAX_LIST_BYTES):
            with naming_damage(self.path, f"{_LIST} is no list of names"):
                names = tuple(content.decode().split())
            if not 0 < len(set(names)) == len(names) <= _MAX_CARS:
                raise DatasetFileError(
                    self.path, f"{_LIST} names {len(names)} cars, or some twice."
                )
            return names
        raise DatasetFileError(
            self.path, f"there is no {_LIST} in it: this is another archive."
        )

    def _members(self, wanted: set[str], max_bytes: int) -> Iterator[tuple[str, bytes]]:
        """Walks through the archive once, in its own order."""
        problem = "not a readable tar.gz archive"
        with contextlib.ExitStack() as stack:
            with naming_damage(self.path, problem):
                stream: Any = _BoundedReads(stack.enter_context(_open(self.path)))
                archive = stack.enter_context(tarfile.open(fileobj=stream, mode="r:"))
            while True:
                with naming_damage(self.path, problem):
                    member = archive.next()
                if member is None:
                    return
                name = member.name.removeprefix("./")
                if name in wanted and member.isreg():
                    check_size(self.path, name, member.size, max_bytes)
                    with naming_damage(self.path, problem):
                        file = archive.extractfile(member)
                        content = file.read() if file else b""
                    yield name, content


class _BoundedReads:
    """A stream that never reads much at once; `tarfile` believes any header's size."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self.seek, self.tell = stream.seek, stream.tell

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= _MAX_CAR_BYTES:
            raise ValueError(f"an entry claims {size} bytes")
        return self._stream.read(size)


def _open(path: Path) -> IO[bytes]:
    with path.open("rb") as stream:
        packed = stream.read(2) == b"\x1f\x8b"
    return gzip.open(path) if packed else path.open("rb")  # type: ignore[return-value]


def _check_matlab_size(content: bytes) -> None:
    """Walks over the elements of a MATLAB file; raises if they unpack to too much."""
    position, total = _MATLAB_HEADER, 0
    order = ">" if content[126:128] == b"MI" else "<"
    while position + 8 <= len(content):
        kind, size = struct.unpack_from(f"{order}2L", content, position)
        start = position + 8
        if kind == _COMPRESSED:
            limit = _MAX_CAR_BYTES - total + 1
            unpacked = zlib.decompressobj().decompress(
                content[start : start + size], limit
            )
            total += len(unpacked)
        position = start + size
    if total > _MAX_CAR_BYTES:
        raise ValueError(f"unpacks to more than {_MAX_CAR_BYTES} bytes")
