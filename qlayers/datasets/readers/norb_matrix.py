"""The binary matrix format of NORB."""

import gzip
import math
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from qlayers.datasets.readers.damage import check_size, naming_damage
from qlayers.datasets.readers.dataset_file_error import DatasetFileError
from qlayers.datasets.readers.file_checks import check_is_data

_DTYPES = {
    0x1E3D4C51: "<f4",
    0x1E3D4C53: "<f8",
    0x1E3D4C54: "<i4",
    0x1E3D4C55: "u1",
    0x1E3D4C56: "<i2",
}


def read_norb_matrix(path: str | Path, max_bytes: int) -> npt.NDArray[Any]:
    """Reads a NORB `.mat` file, gzipped or not. (It is no MATLAB file.)

    The format: a magic number that names the type, the number of axes, at least three
    sizes, all little-endian int32, and then the numbers in C order.

    Args:
        path: The file.
        max_bytes: More than this is refused before anything is unpacked.

    Returns:
        The array.
    """
    check_is_data(path)
    with (
        naming_damage(path, "cannot be unpacked"),
        _open(Path(path)) as stream,
    ):
        return _read(Path(path), stream, max_bytes)


def _read(path: Path, stream: IO[bytes], max_bytes: int) -> npt.NDArray[Any]:
    head = stream.read(20)
    if len(head) < 20:
        raise DatasetFileError(path, f"only {len(head)} bytes: the file is truncated.")
    magic, num_axes = (int(number) for number in np.frombuffer(head, "<i4", 2))
    if magic not in _DTYPES or not 1 <= num_axes <= 8:
        raise DatasetFileError(
            path,
            f"begins with 0x{magic & 0xFFFFFFFF:08X}, which no NORB matrix does.",
        )
    head += stream.read(4 * max(0, num_axes - 3))
    shape = tuple(int(size) for size in np.frombuffer(head, "<i4", num_axes, 8))
    dtype = np.dtype(_DTYPES[magic])
    expected = math.prod(shape) * dtype.itemsize
    if min(shape) < 0:
        raise DatasetFileError(path, f"its header holds the negative shape {shape}.")
    check_size(path, "the array", expected, max_bytes)
    raw = stream.read(expected + 1)
    if len(raw) != expected:
        found = f"only {len(raw)}" if len(raw) < expected else "more"
        raise DatasetFileError(
            path,
            f"holds {found} bytes, its header (shape {shape}) promises {expected}: "
            "the file is truncated or damaged.",
        )
    return np.frombuffer(raw, dtype).reshape(shape)


def _open(path: Path) -> IO[bytes]:
    with path.open("rb") as stream:
        packed = stream.read(2) == b"\x1f\x8b"
    return gzip.open(path) if packed else path.open("rb")  # type: ignore[return-value]
