"""Thousands of damaged files: every reader answers with data or `DatasetFileError`."""

import gzip
import io
import tarfile
import zipfile
from pathlib import Path
from types import SimpleNamespace

import h5py
import numpy as np
import pytest
import tensorflow as tf
from scipy.io import savemat

from qlayers.datasets import readers
from qlayers.datasets.builders.png_grid_builder import PngGridBuilder
from qlayers.datasets.factor_space import FactorSpace
from qlayers.datasets.prepared_dataset import PreparedDataset
from qlayers.datasets.record_index import RecordIndex
from tests.datasets import published_files

LIMIT = 1 << 22


def damaged(content: bytes, generator: np.random.Generator) -> bytes:
    """Flips bits, cuts, overwrites or repeats a part; headers are hit most often."""
    data = bytearray(content)
    kind = generator.integers(5)
    # Half of the places lie near an end, where headers and directories are.
    reach = len(data) if generator.random() < 0.5 else min(300, len(data))
    places = generator.integers(0, reach, generator.integers(1, 9))
    if generator.random() < 0.5:
        places = len(data) - 1 - places
    if kind <= 1:
        for place in places:
            data[place] ^= 1 << int(generator.integers(8))
    elif kind == 2:
        for place in places:
            data[place] = int(generator.choice([0, 1, 0x7F, 0x80, 0xFF]))
    elif kind == 3:
        return bytes(data[: int(generator.integers(0, len(data)))])
    else:
        first, second = sorted(int(place) for place in generator.choice(places, 2))
        data[first:second] = data[first : first + 8] * int(generator.integers(0, 3))
    return bytes(data)


def _npz() -> bytes:
    stream = io.BytesIO()
    np.savez(stream, images=published_files.pictures(5, 8, 8, 3))
    return stream.getvalue()


def _npz_packed() -> bytes:
    stream = io.BytesIO()
    np.savez_compressed(stream, images=published_files.pictures(5, 8, 8, 3) % 4)
    return stream.getvalue()


def _hdf5() -> bytes:
    stream = io.BytesIO()
    with h5py.File(stream, "w") as file:
        file.create_dataset(
            "group/images",
            data=published_files.pictures(6, 8, 8, 3) % 4,
            chunks=(4, 4, 8, 1),
            compression="gzip",
        )
        file["labels"] = np.arange(12.0).reshape(6, 2)
    return stream.getvalue()


def _png_zip() -> bytes:
    stream = io.BytesIO()
    sizes = (2, 3)
    grid = np.stack(np.unravel_index(np.arange(6), sizes), axis=1) / (1, 2)
    labels = io.BytesIO()
    np.save(labels, grid)
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for number, picture in enumerate(published_files.pictures(6, 8, 8, 3)):
            with archive.open(
                f"f/images/{number:06d}.png", "w", force_zip64=number % 2 == 0
            ) as member:
                member.write(published_files.png_bytes(picture))
        archive.writestr("f/labels.npy", labels.getvalue())
    return stream.getvalue()


def _matlab() -> bytes:
    stream = io.BytesIO()
    car = np.zeros((128, 128, 3, 24, 4), np.uint8)
    savemat(stream, {"mask": np.ones((2, 2)), "im": car}, do_compression=True)
    return stream.getvalue()


def _tar(matlab: bytes) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, content in (
            ("data/cars/list.txt", b"car_001_mesh"),
            ("data/cars/car_001_mesh.mat", matlab),
        ):
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            entry.pax_headers = {"comment": "a header of its own"}
            archive.addfile(entry, io.BytesIO(content))
    return stream.getvalue()


def _norb() -> bytes:
    return published_files.norb_bytes(published_files.pictures(3, 2, 8, 8))


def _read_npz(path: Path) -> None:
    rows = readers.NpzRows(path, "images")
    if rows.shape[1:] == (8, 8, 3):  # as the builders check it
        for _ in rows.chunks(2):
            pass
    rows.read(LIMIT)


def _read_hdf5(path: Path) -> None:
    for key in ("group/images", "labels"):
        rows = readers.Hdf5Rows(path, key)
        if rows.shape in ((6, 8, 8, 3), (6, 2)):
            for _ in rows.chunks(2):
                pass
        rows.read(LIMIT)


def _read_png_zip(path: Path) -> None:
    with readers.PngArchive(path, "f", "labels.npy") as archive:
        archive.read_labels(2)
        for number in range(len(archive)):
            archive.png(number)


def _read_cars(path: Path) -> None:
    for _ in readers.CarsArchive(path).cars():
        pass


def _read_cars_packed(path: Path) -> None:
    path.write_bytes(gzip.compress(path.read_bytes(), 1))
    _read_cars(path)


def _read_matlab(path: Path) -> None:
    archive = readers.CarsArchive.__new__(readers.CarsArchive)
    archive.path = path
    archive._views("data/cars/car_001_mesh.mat", path.read_bytes())


def _read_picture(path: Path) -> None:
    """A damaged picture in a sound archive."""
    archive_path = path.with_suffix(".zip")
    with zipfile.ZipFile(archive_path, "w") as archive:
        archive.writestr("f/images/000000.png", path.read_bytes())
    builder = SimpleNamespace(builder_config=SimpleNamespace(image_shape=(64, 64, 3)))
    with readers.PngArchive(archive_path, "f", "labels.npy") as archive:
        PngGridBuilder._pictures(builder, archive_path, [archive.png(0)])


READERS = {
    "npz": (_npz, _read_npz, 1500),
    "npz_packed": (_npz_packed, _read_npz, 1000),
    "hdf5": (_hdf5, _read_hdf5, 1500),
    "png_zip": (_png_zip, _read_png_zip, 1500),
    "norb": (_norb, lambda path: readers.read_norb_matrix(path, LIMIT), 500),
    "norb_packed": (
        lambda: gzip.compress(_norb()),
        lambda path: readers.read_norb_matrix(path, LIMIT),
        500,
    ),
    "cars": (lambda: gzip.compress(_tar(_matlab())), _read_cars, 250),
    "cars_tar": (lambda: _tar(_matlab()), _read_cars_packed, 250),
    "matlab": (_matlab, _read_matlab, 250),
    "picture": (
        lambda: published_files.png_bytes(published_files.pictures(1, 128, 128, 3)[0]),
        _read_picture,
        400,
    ),
}


def _attempt(read, path: Path, content: bytes) -> str:
    path.write_bytes(content)
    try:
        read(path)
    except readers.DatasetFileError as error:
        assert str(path.with_suffix("")) in str(error)
        return "refused"
    return "read"


# A fifth of the cases in the default run; all, other ones, in the slow run.
few_or_all = pytest.mark.parametrize(
    ("part", "seed"), [(5, 17), pytest.param(1, 18, marks=pytest.mark.slow)]
)


@few_or_all
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", READERS)
def test_damaged_files_give_data_or_the_documented_error(name, part, seed, tmp_path):
    write, read, cases = READERS[name]
    cases //= part
    sound = write()
    path = tmp_path / "file.bin"
    assert _attempt(read, path, sound) == "read"
    generator = np.random.default_rng(seed)
    outcomes = [_attempt(read, path, damaged(sound, generator)) for _ in range(cases)]
    # Damage is noticed far more often than it hits an unused byte.
    assert outcomes.count("refused") > 0.4 * cases


def _example(number: int, picture: bytes) -> bytes:
    features = {
        "index": tf.train.Feature(int64_list=tf.train.Int64List(value=[number])),
        "image": tf.train.Feature(bytes_list=tf.train.BytesList(value=[picture])),
    }
    example = tf.train.Example(features=tf.train.Features(feature=features))
    return example.SerializeToString()


def _write_records(path: Path, examples: list[bytes]) -> None:
    with tf.io.TFRecordWriter(str(path)) as writer:
        for example in examples:
            writer.write(example)


def _open_records(path: Path) -> PreparedDataset:
    records = RecordIndex(
        [path], lambda e: e.features.feature["index"].int64_list.value[0]
    )
    return PreparedDataset("few", FactorSpace(("a",), (4,)), records, (8, 8, 3), 8)


def _read_records(path: Path) -> None:
    dataset = _open_records(path)
    dataset.images_of(dataset.space.sources_of(np.arange(4)))


@few_or_all
@pytest.mark.parametrize("target", ["records", "records_later", "examples", "notes"])
def test_damaged_prepared_records(target, part, seed, tmp_path):
    """In the file, in the file after its notes were made, inside records, in notes."""
    pictures = [
        published_files.png_bytes(p) for p in published_files.pictures(4, 8, 8, 3)
    ]
    examples = [_example(number, png) for number, png in enumerate(pictures)]
    path = tmp_path / "file.tfrecord-00000-of-00001"
    notes = tmp_path / "picture_index.npz"
    _write_records(path, examples)
    _read_records(path)
    sound, sound_notes = path.read_bytes(), notes.read_bytes()
    generator = np.random.default_rng(seed)
    refused, cases = 0, 500 // part
    for _ in range(cases):
        notes.write_bytes(sound_notes)
        path.write_bytes(sound)
        if target == "examples":
            notes.unlink()
            _write_records(path, [damaged(e, generator) for e in examples])
        elif target == "notes":
            notes.write_bytes(damaged(sound_notes, generator))
        else:
            path.write_bytes(damaged(sound, generator))
            if target == "records":
                notes.unlink()
        try:
            _read_records(path)
        except readers.DatasetFileError as error:
            assert str(tmp_path) in str(error)
            refused += 1
    assert refused == 0 if target == "notes" else refused > 0.4 * cases
