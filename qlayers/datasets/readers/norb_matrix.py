"""The binary matrix format of NORB."""

import gzip
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from qlayers.datasets.readers.dataset_file_error import DatasetFileError
from qlayers.datasets.readers.file_checks import check_is_data

_DTYPES = {
    0x1E3D4C51: "<f4",
    0x1E3D4C53: "<f8",
    0x1E3D4C54: "<i4",
    0x1E3D4C55: "u1",
    0x1E3D4C56: "<i2",
}


def read_norb_matrix(path: str | Path) -> npt.NDArray[Any]:
    """Reads a NORB `.mat` file, gzipped or not. (It is no MATLAB file.)

    The format: a magic number that names the type, the number of axes, at least three
    sizes, all little-endian int32, and then the numbers in C order.

    Args:
        path: the file.

    Returns:
        The array.
    """
    check_is_data(path)
    raw = _decompress(Path(path))
    if len(raw) < 20:
        raise DatasetFileError(path, f"only {len(raw)} bytes: the file is truncated.")
    magic, num_axes = np.frombuffer(raw, "<i4", 2)
    if int(magic) not in _DTYPES or not 1 <= num_axes <= 8:
        raise DatasetFileError(
            path,
            f"begins with 0x{int(magic) & 0xFFFFFFFF:08X}, which no NORB matrix does.",
        )
    start = 8 + 4 * max(3, int(num_axes))
    shape = tuple(int(n) for n in np.frombuffer(raw, "<i4", num_axes, 8))
    dtype = np.dtype(_DTYPES[int(magic)])
    expected = start + int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    if len(raw) != expected:
        raise DatasetFileError(
            path,
            f"holds {len(raw)} bytes, its header (shape {shape}) promises {expected}: "
            "the file is truncated or damaged.",
        )
    return np.frombuffer(raw, dtype, offset=start).reshape(shape)


def _decompress(path: Path) -> bytes:
    raw = path.read_bytes()
    if raw[:2] != b"\x1f\x8b":
        return raw
    try:
        return gzip.decompress(raw)
    except (EOFError, OSError, zlib.error) as error:
        raise DatasetFileError(
            path, f"cannot be unpacked ({error}): the file is truncated or damaged."
        ) from error
