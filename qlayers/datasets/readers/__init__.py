"""Readers of the published files: chunk by chunk, and plain about what is wrong."""

from qlayers.datasets.readers.cars_archive import CarsArchive
from qlayers.datasets.readers.damage import check_size, naming_damage
from qlayers.datasets.readers.dataset_file_error import DatasetFileError
from qlayers.datasets.readers.file_checks import (
    check_digest,
    check_is_data,
    content_digest,
)
from qlayers.datasets.readers.hdf5_rows import Hdf5Rows
from qlayers.datasets.readers.norb_matrix import read_norb_matrix
from qlayers.datasets.readers.npz_rows import NpzRows
from qlayers.datasets.readers.png_archive import PngArchive

__all__ = [
    "CarsArchive",
    "DatasetFileError",
    "Hdf5Rows",
    "NpzRows",
    "PngArchive",
    "check_digest",
    "check_is_data",
    "check_size",
    "content_digest",
    "naming_damage",
    "read_norb_matrix",
]
