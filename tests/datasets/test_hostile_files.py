"""Files that promise too much or point elsewhere are refused before they are read."""

import gzip
import io
import struct
import tarfile
import tracemalloc
import zipfile
import zlib

import h5py
import numpy as np
import pytest

from qlayers.datasets.readers import (
    CarsArchive,
    DatasetFileError,
    Hdf5Rows,
    NpzRows,
    PngArchive,
    read_norb_matrix,
)
from tests.datasets import published_files

MUCH = 300 << 20  # what the bombs below unpack to


@pytest.fixture(autouse=True)
def _little_memory():
    tracemalloc.start()
    yield
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100 << 20


def _zeros(size, **options):
    """Packed zeros, without ever holding them unpacked."""
    packer = zlib.compressobj(**options)
    block = bytes(1 << 20)
    parts = [packer.compress(block) for _ in range(size >> 20)]
    return b"".join(parts) + packer.flush()


def test_labels_that_unpack_to_far_more_than_the_pictures_need(tmp_path):
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("f/images/000000.png", b"x")
        with archive.open("f/labels.npy", "w") as member:
            for _ in range(MUCH >> 20):
                member.write(bytes(1 << 20))
    assert path.stat().st_size < 1 << 20
    with (
        PngArchive(path, "f", "labels.npy") as archive,
        pytest.raises(DatasetFileError, match=r"a\.zip: f/labels\.npy claims"),
    ):
        archive.read_labels(7)


def test_member_that_unpacks_to_more_than_its_directory_says(tmp_path):
    path = tmp_path / "a.zip"
    packed = _zeros(MUCH, wbits=-15)
    name = b"f/images/000000.png"
    sizes = (0, len(packed), 1000)
    local = struct.pack("<4s5H3L2H", b"PK\3\4", 20, 0, 8, 0, 0, *sizes, len(name), 0)
    entry = struct.pack(
        "<4s6H3L5H2L",
        *(b"PK\1\2", 20, 20, 0, 8, 0, 0, *sizes, len(name), 0, 0, 0, 0, 0, 0),
    )
    body = local + name + packed
    directory = entry + name
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 1, 1, len(directory), len(body), 0)
    path.write_bytes(body + directory + end)
    with (
        PngArchive(path, "f", "labels.npy") as archive,
        pytest.raises(DatasetFileError, match="checksum"),
    ):
        archive.png(0)


def test_zip_directory_with_billions_of_entries(tmp_path):
    path = tmp_path / "a.zip"
    record = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, *[2**40] * 2, 0, 0)
    locator = struct.pack("<4sLQL", b"PK\6\7", 0, 0, 1)
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 65535, 65535, 0, 0, 0)
    path.write_bytes(record + locator + end)
    with pytest.raises(DatasetFileError, match="longer than the file"):
        PngArchive(path, "f", "labels.npy")


def test_picture_with_billions_of_pixels(tmp_path):
    path = tmp_path / "a.zip"
    png = bytearray(published_files.png_bytes(np.zeros((8, 8, 3), np.uint8)))
    png[16:24] = struct.pack(">2L", 60_000, 60_000)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("f/images/000000.png", bytes(png))
    with (
        PngArchive(path, "f", "labels.npy") as archive,
        pytest.raises(DatasetFileError, match="60000x60000"),
    ):
        archive.png(0)


def test_npz_headers(tmp_path):
    for header in (
        b"{'descr': '<i8', 'fortran_order': False, 'shape': (-4, 6)}",
        b"{'descr': '<i8', 'fortran_order': False, 'shape': (99999999, 6)}",
        b"{'descr': '<i8', 'fortran_order': " + b"(" * 3000,
    ):
        with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
            start = b"\x93NUMPY\1\0" + struct.pack("<H", len(header))
            archive.writestr("classes.npy", start + header)
        with pytest.raises(DatasetFileError, match=r"a\.npz"):
            NpzRows(tmp_path / "a.npz", "classes").read(1 << 20)
    with (
        zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("classes.npy", "w") as member,
    ):
        member.write(b"\x93NUMPY\2\0" + struct.pack("<L", MUCH))
        for _ in range(MUCH >> 20):
            member.write(b" " * (1 << 20))
    with pytest.raises(DatasetFileError, match="header"):
        NpzRows(tmp_path / "a.npz", "classes")


def test_norb_matrix_of_zeros_without_end(tmp_path):
    header = published_files.norb_bytes(np.zeros((3, 4), np.int32))[:20]
    for sizes in ((20_000, 20_000, 1), (-1, 4, 1), (2**31 - 1,) * 3):
        raw = header[:8] + struct.pack("<3i", *sizes)
        (tmp_path / "a.mat").write_bytes(raw + bytes(100))
        with pytest.raises(DatasetFileError, match=r"a\.mat"):
            read_norb_matrix(tmp_path / "a.mat", 1 << 20)
    packer = gzip.compress(header) + _zeros(MUCH, wbits=31)
    (tmp_path / "a.mat.gz").write_bytes(packer)
    with pytest.raises(DatasetFileError, match=r"more bytes.*promises 48"):
        read_norb_matrix(tmp_path / "a.mat.gz", 1 << 20)


def _tar_gz(path, name, size, kind=tarfile.REGTYPE):
    """One entry of zeros that claims to have this size."""
    entry = tarfile.TarInfo(name)
    entry.size, entry.type = size, kind
    packed = gzip.compress(entry.tobuf()) + _zeros(MUCH, wbits=31)
    path.write_bytes(packed)


@pytest.mark.parametrize(
    ("name", "kind"),
    [("data/cars/list.txt", tarfile.REGTYPE), ("x", tarfile.XHDTYPE)],
)
def test_tar_entries_without_end(tmp_path, name, kind):
    _tar_gz(tmp_path / "a.tar.gz", name, MUCH, kind)
    with pytest.raises(DatasetFileError, match=r"claims"):
        CarsArchive(tmp_path / "a.tar.gz")


def test_matlab_array_that_unpacks_to_too_much(tmp_path):
    packed = _zeros(MUCH)
    matlab = b"MATLAB 5.0 MAT-file".ljust(124) + b"\x00\x01IM"
    matlab += struct.pack("<2L", 15, len(packed)) + packed
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as archive:
        for name, content in (("list.txt", b"car"), ("car.mat", matlab)):
            entry = tarfile.TarInfo(f"data/cars/{name}")
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    with pytest.raises(DatasetFileError, match=r"car\.mat.*unpacks to more"):
        list(CarsArchive(tmp_path / "a.tar.gz").cars())


@pytest.mark.parametrize("kind", ["external", "soft", "storage", "virtual", "text"])
def test_hdf5_arrays_that_lie_elsewhere(tmp_path, kind):
    secret = tmp_path / "secret.h5"
    with h5py.File(secret, "w") as file:
        file["labels"] = np.arange(12.0).reshape(6, 2)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        if kind == "external":
            file["labels"] = h5py.ExternalLink(str(secret), "labels")
        elif kind == "soft":
            file["labels"] = h5py.SoftLink("/elsewhere")
        elif kind == "storage":
            file.create_dataset("labels", (6, 2), "f8", external=[(str(secret), 0, 96)])
        elif kind == "virtual":
            layout = h5py.VirtualLayout((6, 2), "f8")
            layout[:] = h5py.VirtualSource(str(secret), "labels", (6, 2))
            file.create_virtual_dataset("labels", layout)
        else:
            file["labels"] = ["some", "words"]
    message = "expected numbers" if kind == "text" else "refused"
    with pytest.raises(DatasetFileError, match=rf"a\.h5.*{message}"):
        Hdf5Rows(tmp_path / "a.h5", "labels")


def test_hdf5_array_larger_than_any_label(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("labels", (10**9, 6), "f8", chunks=(1000, 6))
        file.create_dataset("piece", (10**6, 60), "f8", chunks=(10**6, 60))
    with pytest.raises(DatasetFileError, match="48,000,000,000"):
        Hdf5Rows(tmp_path / "a.h5", "labels").read(1 << 25)
    with pytest.raises(DatasetFileError, match="a piece of"):
        Hdf5Rows(tmp_path / "a.h5", "piece")
