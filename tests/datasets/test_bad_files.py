"""Files that are not what they should be: told plainly, and nothing half-built."""

import errno
import io
import itertools
import shutil
import zipfile

import numpy as np
import pytest

from qlayers import datasets
from qlayers.datasets import file_datasets
from qlayers.datasets.readers import (
    CarsArchive,
    DatasetFileError,
    NpzRows,
    read_norb_matrix,
)
from qlayers.datasets.readers.numbered_zip import NumberedZip
from qlayers.datasets.spaces import FALCOR3D
from tests.datasets import published_files
from tests.datasets.test_builders import TESTING, TRAINING

WEB_PAGE = b"<!DOCTYPE html><html><body>Quota exceeded</body></html>"


def _refused(name, tmp_path, file, message, partial=True, **options):
    """Loads, expects the error to name the file, and finds nothing prepared."""
    data_dir = tmp_path / "data"
    with pytest.raises(DatasetFileError, match=message) as caught:
        datasets.load(
            name, data_dir=str(data_dir), file=file, allow_partial=partial, **options
        )
    assert str(file) in str(caught.value)
    assert str(caught.value).rstrip().endswith(".")
    assert not list(data_dir.rglob("*.tfrecord*"))
    assert not list(data_dir.rglob("dataset_info.json"))


@pytest.mark.parametrize(
    ("name", "file_name"),
    [
        ("mpi3d", "real3d_complicated_shapes_ordered.npz"),
        ("falcor3d", "Falcor3D_down128.zip"),
        ("isaac3d", "Isaac3D_down128.zip"),
        ("shapes3d", "3dshapes.h5"),
        ("dsprites", "dsprites.hdf5"),
        ("dsprites", "dsprites.npz"),
        ("cars3d", "nips2015-analogy-data.tar.gz"),
    ],
)
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (WEB_PAGE, "web page"),
        (b"", "empty"),
        (b"\x00\x01\x02" * 500, "not a readable"),
    ],
)
def test_foreign_content(tmp_path, name, file_name, content, message):
    file = tmp_path / file_name
    file.write_bytes(content)
    _refused(name, tmp_path, file, message)


def test_missing_file_says_where_to_put_which(tmp_path):
    for name, file_name in (
        ("mpi3d", "real3d_complicated_shapes_ordered.npz"),
        ("isaac3d", "Isaac3D_down128.zip"),
    ):
        with pytest.raises(DatasetFileError, match=file_name) as caught:
            datasets.load(name, data_dir=str(tmp_path))
        assert str(tmp_path / "downloads" / "manual") in str(caught.value)
        assert "drive.google.com" in str(caught.value)


@pytest.mark.parametrize("keep", [0.5, 0.95])
def test_truncated_archives(tmp_path, keep):
    def cut(file):
        content = file.read_bytes()
        file.write_bytes(content[: int(keep * len(content))])
        return file

    published_files.write_npz(tmp_path / "part.npz")
    _refused("mpi3d", tmp_path, cut(tmp_path / "part.npz"), "not a readable .npz")
    archive = tmp_path / "Falcor3D_down128.zip"
    images = published_files.pictures(3, 128, 128, 3)
    published_files.write_png_archive(
        archive, "Falcor3D_down128", "train-rec.labels", FALCOR3D.sizes, images
    )
    _refused("falcor3d", tmp_path, cut(archive), "not a readable zip")
    shapes = tmp_path / "3dshapes.h5"
    published_files.write_shapes3d(shapes)
    _refused("shapes3d", tmp_path, cut(shapes), "not a readable HDF5")
    cars = tmp_path / "cars.tar.gz"
    published_files.write_cars(cars)
    _refused("cars3d", tmp_path, cut(cars), "not a readable tar.gz")


def test_array_shorter_than_its_header_promises(tmp_path):
    stream = io.BytesIO()
    np.save(stream, published_files.pictures(6, 64, 64, 3))
    with zipfile.ZipFile(tmp_path / "part.npz", "w") as archive:
        archive.writestr("images.npy", stream.getvalue()[: -2 * 12288 - 5])
    _refused("mpi3d", tmp_path, tmp_path / "part.npz", "ends after 3 of 6 rows")


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"imgs": np.zeros((4, 64, 64, 3), np.uint8)}, r"'images', found \['imgs'\]"),
        ({"images": np.zeros((4, 32, 32, 3), np.uint8)}, r"\(4, 32, 32, 3\)"),
        ({"images": np.zeros((4, 64, 64, 3), np.float32)}, "float32"),
        ({"images": np.zeros((0, 64, 64, 3), np.uint8)}, r"\(0, 64, 64, 3\)"),
        ({"images": np.array([{"a": 1}], dtype=object)}, "plain numbers"),
    ],
)
def test_wrong_key_shape_or_type(tmp_path, arrays, message):
    np.savez(tmp_path / "part.npz", **arrays)
    _refused("mpi3d", tmp_path, tmp_path / "part.npz", message)


def test_damaged_bytes_are_noticed(tmp_path):
    published_files.write_npz(tmp_path / "part.npz")
    content = bytearray((tmp_path / "part.npz").read_bytes())
    content[30_000] ^= 0xFF
    (tmp_path / "part.npz").write_bytes(content)
    _refused("mpi3d", tmp_path, tmp_path / "part.npz", "CRC")


def test_checksum_mismatch(tmp_path):
    published_files.write_npz(tmp_path / "mpi3d_toy.npz")
    _refused(
        "mpi3d",
        tmp_path,
        tmp_path / "mpi3d_toy.npz",
        "md5 is [0-9a-f]{32}, the published one is 55889cb7c7dfc655d6e0277beee88868",
        partial=False,
        variant="toy",
    )
    published_files.write_shapes3d(tmp_path / "3dshapes.h5")
    _refused("shapes3d", tmp_path, tmp_path / "3dshapes.h5", "sha256", partial=False)


def test_checksum_mismatch_in_the_manual_directory(tmp_path):
    manual = tmp_path / "manual"
    manual.mkdir()
    published_files.write_shapes3d(manual / "3dshapes.h5")
    with pytest.raises(DatasetFileError, match=r"3dshapes\.h5: its sha256 is"):
        datasets.load("shapes3d", data_dir=str(tmp_path / "d"), manual_dir=str(manual))
    assert not list((tmp_path / "d").rglob("*.tfrecord*"))


def _png_archive(tmp_path, **changes):
    file = tmp_path / "Falcor3D_down128.zip"
    settings = {"images": published_files.pictures(4, 128, 128, 3), **changes}
    published_files.write_png_archive(
        file, "Falcor3D_down128", "train-rec.labels", FALCOR3D.sizes, **settings
    )
    return file


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"skip": 2}, "3 pictures but 4 rows of labels"),
        ({"labels": np.zeros((5, 7))}, "4 pictures but 5 rows"),
        ({"labels": np.zeros((4, 9))}, r"shape \(4, 9\), expected \(n, 7\)"),
        ({"labels": np.full((4, 7), 0.55)}, "none of the published values"),
        ({"labels": np.zeros((4, 7))}, "image 1 has the labels"),
        ({"labels": np.zeros((4, 7), int)}, "floating-point"),
        (
            {"images": published_files.pictures(4, 64, 64, 3)},
            r"pictures of shape \[\(64, 64, 3\)\]",
        ),
    ],
)
def test_incomplete_or_inconsistent_png_archives(tmp_path, changes, message):
    _refused("falcor3d", tmp_path, _png_archive(tmp_path, **changes), message)


def test_gap_in_the_numbers_of_pictures(tmp_path):
    """As many pictures as labels, but one has a wrong number."""
    file = _png_archive(tmp_path)
    with zipfile.ZipFile(file) as source:
        members = {name: source.read(name) for name in source.namelist()}
    members["Falcor3D_down128/images/000004.png"] = members.pop(
        "Falcor3D_down128/images/000001.png"
    )
    with zipfile.ZipFile(file, "w") as target:
        for name, content in members.items():
            target.writestr(name, content)
    _refused("falcor3d", tmp_path, file, r"no Falcor3D_down128/images/000001\.png")


def test_other_archive_and_damaged_picture(tmp_path):
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr("holiday/beach.png", b"")
    _refused("falcor3d", tmp_path, tmp_path / "x.zip", "another archive")
    file = _png_archive(tmp_path)
    content = bytearray(file.read_bytes())
    content[5000] ^= 0xFF
    file.write_bytes(content)
    _refused("falcor3d", tmp_path, file, r"000000\.png cannot be unpacked")


def test_labels_of_another_length_or_order_in_hdf5(tmp_path):
    import h5py

    file = tmp_path / "3dshapes.h5"
    published_files.write_shapes3d(file)
    with h5py.File(file, "r+") as stored:
        labels = stored["labels"][:]
        del stored["labels"]
        stored["labels"] = labels[:5]
    _refused("shapes3d", tmp_path, file, "6 rows but 'labels' has 5")
    with h5py.File(file, "r+") as stored:
        del stored["labels"]
        stored["labels"] = labels[::-1]
    _refused("shapes3d", tmp_path, file, "image 0 has the labels")
    with h5py.File(file, "r+") as stored:
        del stored["labels"]
    _refused("shapes3d", tmp_path, file, "'labels', found")


def test_sprites_that_fill_no_grid(tmp_path):
    classes = np.array(list(itertools.product(*map(range, (3, 2, 2, 2, 2)))))[1:]
    masks = published_files.pictures(len(classes), 64, 64) % 2
    np.savez(tmp_path / "s.npz", imgs=masks, latents_classes=classes)
    _refused("dsprites", tmp_path, tmp_path / "s.npz", "do not fill a grid")


def test_cars_missing_from_the_archive(tmp_path):
    published_files.write_cars(tmp_path / "cars.tar.gz", num_cars=3, missing=1)
    archive = CarsArchive(tmp_path / "cars.tar.gz")
    with pytest.raises(DatasetFileError, match="1 of the 3 cars"):
        list(archive.cars())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda raw: raw[:-3], "promises"),
        (lambda raw: b"\x00" * 8 + raw[8:], "no NORB matrix"),
        (lambda raw: raw[:10], "truncated"),
    ],
)
def test_norb_matrices(tmp_path, change, message):
    array = np.arange(24, dtype=np.int32).reshape(6, 4)
    file = tmp_path / "info.mat"
    file.write_bytes(published_files.norb_bytes(array))
    np.testing.assert_array_equal(read_norb_matrix(file, 1000), array)
    file.write_bytes(change(published_files.norb_bytes(array)))
    with pytest.raises(DatasetFileError, match=message):
        read_norb_matrix(file, 1000)


def test_norb_labels_that_disagree(tmp_path):
    rows = np.array([[0, 1, 0, 0, 0], [0, 1, 0, 0, 1]])
    published_files.write_smallnorb(tmp_path, {TRAINING: rows, TESTING: rows})
    short = published_files.norb_bytes(np.zeros((1, 4), np.int32))
    (tmp_path / f"{TRAINING}-info.mat.gz").write_bytes(short)
    with pytest.raises(DatasetFileError, match="labels must agree"):
        datasets.load(
            "smallnorb",
            data_dir=str(tmp_path / "data"),
            file=tmp_path / f"{TRAINING}-dat.mat.gz",
            allow_partial=True,
        )


def test_numbered_zip_agrees_with_zipfile(tmp_path):
    """Also for zip64 records, which archives above 4 GB have."""
    file = tmp_path / "many.zip"
    generator = np.random.default_rng(0)
    contents = {f"a/{i:06d}.png": generator.bytes(50 + i) for i in range(20)}
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in contents.items():
            with archive.open(name, "w", force_zip64=True) as member:
                member.write(content)
        archive.writestr("a/labels.npy", b"labels")
        archive.comment = b"a comment at the end"
    numbered = NumberedZip(file, "a/", ".png")
    assert len(numbered) == 20
    assert numbered.other_names == ["a/labels.npy"]
    for i in range(20):
        assert numbered.read_number(i, 1000) == contents[f"a/{i:06d}.png"]
    assert numbered.read_name("a/labels.npy", 1000) == b"labels"
    with pytest.raises(KeyError):
        numbered.read_number(20, 1000)
    numbered.close()


def test_full_disk_is_noticed_before_and_while_writing(tmp_path, monkeypatch):
    published_files.write_npz(tmp_path / "real3d_complicated_shapes_ordered.npz")
    usage = shutil.disk_usage(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=10**6))
        with pytest.raises(OSError, match=r"GB are free there.*data_dir"):
            datasets.load(
                "mpi3d", data_dir=str(tmp_path / "data"), manual_dir=str(tmp_path)
            )

    def no_space(*args, **kwargs):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        builder = file_datasets.builder_class("mpi3d")
        patch.setattr(builder, "_example", no_space)
        with pytest.raises(OSError, match="nothing was kept") as caught:
            datasets.load(
                "mpi3d",
                data_dir=str(tmp_path / "data"),
                file=tmp_path / "real3d_complicated_shapes_ordered.npz",
                allow_partial=True,
            )
        assert caught.value.errno == errno.ENOSPC
    assert not list((tmp_path / "data").rglob("*.tfrecord*"))


def test_a_failed_preparation_does_not_spoil_the_next(tmp_path):
    """The third chunk is damaged; after repair the same folder serves."""
    file = tmp_path / "part.npz"
    images = published_files.write_npz(file, n=1200)
    good = file.read_bytes()
    bad = bytearray(good)
    bad[1100 * 12288] ^= 0xFF
    file.write_bytes(bad)
    _refused("mpi3d", tmp_path, file, "CRC")
    file.write_bytes(good)
    dataset = datasets.load(
        "mpi3d", data_dir=str(tmp_path / "data"), file=file, allow_partial=True
    )
    sources = dataset.space.sources_of(np.array([0, 511, 512, 1199]))
    shown = dataset.images_of(sources, dtype="uint8")
    np.testing.assert_array_equal(shown, images[[0, 511, 512, 1199]])


def test_truncated_records_are_noticed(tmp_path):
    file = tmp_path / "part.npz"
    published_files.write_npz(file)
    datasets.load("mpi3d", data_dir=str(tmp_path / "d"), file=file, allow_partial=True)
    (records,) = (tmp_path / "d").rglob("*.tfrecord*")
    records.write_bytes(records.read_bytes()[:-100])
    with pytest.raises(ValueError, match=r"unreadable.*Delete the folder"):
        datasets.load(
            "mpi3d", data_dir=str(tmp_path / "d"), file=file, allow_partial=True
        )


def test_unknown_variant(tmp_path):
    with pytest.raises(ValueError, match="complex"):
        datasets.load("mpi3d", data_dir=str(tmp_path), variant="simple")


def test_npz_chunks_equal_numpy(tmp_path):
    images = published_files.write_npz(tmp_path / "a.npz", n=11)
    np.savez_compressed(tmp_path / "b.npz", images=images)
    for name in ("a.npz", "b.npz"):
        rows = NpzRows(tmp_path / name, "images")
        chunks = list(rows.chunks(4))
        assert [len(chunk) for chunk in chunks] == [4, 4, 3]
        np.testing.assert_array_equal(np.concatenate(chunks), images)
