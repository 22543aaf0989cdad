"""Preparing: which file is which, one process at a time, files that are missing."""

import fcntl
import io
import itertools
import os
import shutil
import stat
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import requests

from qlayers import datasets
from qlayers.datasets.builders.png_encoding import encode_png, encoded_ahead
from qlayers.datasets.builders.preparation_progress import PreparationProgress
from qlayers.datasets.file_datasets import builder_class
from qlayers.datasets.readers import DatasetFileError, Hdf5Rows
from qlayers.datasets.registration import BUILDERS
from tests.datasets import published_files
from tests.datasets.test_builders import TESTING, TRAINING

FIRST = [[0] * 7]


def _load(tmp_path, file, name="mpi3d", **options):
    return datasets.load(
        name, data_dir=str(tmp_path / "data"), file=file, allow_partial=True, **options
    )


def test_two_partial_files_of_equal_name_and_size_are_kept_apart(tmp_path):
    shown = []
    for seed in (1, 2):
        file = tmp_path / str(seed) / "part.npz"
        file.parent.mkdir()
        images = published_files.pictures(6, 64, 64, 3, seed=seed)
        np.savez(file, images=images)
        shown.append(_load(tmp_path, file).images_of(FIRST, dtype="uint8")[0])
        np.testing.assert_array_equal(shown[-1], images[0])
    # The same content under another name is the same dataset.
    other = tmp_path / "renamed.npz"
    other.write_bytes(file.read_bytes())
    _load(tmp_path, other)
    assert len(list((tmp_path / "data" / "mpi3d").glob("*_partial_*"))) == 2


def test_given_smallnorb_files_must_be_the_published_ones(tmp_path):
    grid = np.array(list(itertools.product(range(2), [0, 1], [0], [0], range(3))))
    toys = {TRAINING: grid[grid[:, 1] == 1], TESTING: grid[grid[:, 1] == 0]}
    published_files.write_smallnorb(tmp_path, toys)
    with pytest.raises(DatasetFileError, match=r"mat\.gz: its sha256 is"):
        datasets.load(
            "smallnorb",
            data_dir=str(tmp_path / "data"),
            file=tmp_path / f"{TRAINING}-dat.mat.gz",
        )


def test_what_a_killed_preparation_left_is_removed(tmp_path, capfd):
    file = tmp_path / "part.npz"
    published_files.write_npz(file)
    _load(tmp_path, file)
    assert "interrupted" not in capfd.readouterr().err
    (version,) = (tmp_path / "data").rglob("1.0.0")
    stale = version.parent / "incomplete.ABC123_1.0.0"
    shutil.rmtree(version)
    stale.mkdir()
    (stale / "bucket_000.tmp").write_bytes(bytes(2_500_000))
    _load(tmp_path, file)
    assert version.is_dir()
    assert not stale.exists()
    said = capfd.readouterr().err
    assert "an earlier preparation was interrupted. Its 2.5 MB cannot be" in said


_HANGS = """
import sys, time
from qlayers import datasets
from qlayers.datasets.file_datasets import builder_class

builder = builder_class("mpi3d")
usual = builder._example

def example(self, index, *rest):
    if index == 4:
        print("at image 4", flush=True)
        time.sleep(600)
    return usual(self, index, *rest)

builder._example = example
datasets.load("mpi3d", data_dir=sys.argv[1], file=sys.argv[2], allow_partial=True)
"""


@pytest.mark.slow
def test_killed_preparation_has_finished_no_part_and_starts_again(tmp_path, capfd):
    """The reason why a preparation is not continued, and what comes instead."""
    file = tmp_path / "part.npz"
    images = published_files.write_npz(file)
    folder = tmp_path / "data"
    with subprocess.Popen(
        [sys.executable, "-c", _HANGS, str(folder), str(file)],
        stdout=subprocess.PIPE,
        text=True,
    ) as killed:
        assert "at image 4\n" in iter(killed.stdout.readline, "")
        killed.kill()
    (left,) = folder.rglob("incomplete.*")
    assert not list(left.rglob("*tfrecord*"))
    _load(tmp_path, file)
    assert "an earlier preparation was interrupted" in capfd.readouterr().err
    assert not list(folder.rglob("incomplete.*"))
    dataset = _load(tmp_path, file)
    np.testing.assert_array_equal(dataset.images_of(FIRST, dtype="uint8")[0], images[0])


def test_one_prepares_while_the_others_wait_and_say_so(tmp_path, capfd, monkeypatch):
    file = tmp_path / "part.npz"
    images = published_files.write_npz(file)
    builder = builder_class("mpi3d")
    prepared = []
    usual = builder._split_generators
    monkeypatch.setattr(
        builder,
        "_split_generators",
        lambda self, *args: prepared.append(1) or usual(self, *args),
    )
    # This process holds the lock, as another one would.
    config = _load(tmp_path / "elsewhere", file)._records.files[0].parent.parent
    prepared.clear()
    folder = tmp_path / "data" / "mpi3d" / config.name
    folder.mkdir(parents=True)
    lock = os.open(folder / ".1.0.0.lock", os.O_RDWR | os.O_CREAT)
    os.write(lock, b"4711 on elsewhere\n")
    fcntl.flock(lock, fcntl.LOCK_EX)
    results = []
    workers = [
        threading.Thread(target=lambda: results.append(_load(tmp_path, file)))
        for _ in range(3)
    ]
    for worker in workers:
        worker.start()
    said = ""
    deadline = time.monotonic() + 120
    while said.count("Waiting for process") < 3 and time.monotonic() < deadline:
        said += capfd.readouterr().err
        time.sleep(0.05)
    assert said.count("Waiting for process 4711 on elsewhere, which prepares") == 3
    assert str(folder / "1.0.0") in said
    assert not results
    os.close(lock)
    for worker in workers:
        worker.join(timeout=300)
    assert len(prepared) == 1
    assert len(results) == 3
    for dataset in results:
        np.testing.assert_array_equal(
            dataset.images_of(FIRST, dtype="uint8")[0], images[0]
        )


def test_progress_says_how_much_and_how_long():
    now = [0.0]
    said = io.StringIO()
    progress = PreparationProgress("shapes3d", 480_000, lambda: now[0], said)
    for seconds, count in ((4, 16_000), (16, 32_000), (5, 12_000), (90, 400_000)):
        now[0] += seconds
        progress.advance(count)
    progress.finish()
    assert said.getvalue().splitlines() == [
        "shapes3d: 48,000 of 480,000 images, 3 min left",
        "shapes3d: 460,000 of 480,000 images, 5 s left",
        "shapes3d: all 460,000 images read, writing them in random order",
    ]


def test_pictures_are_encoded_without_loss_and_in_order():
    from PIL import Image

    images = [*published_files.pictures(70, 8, 8, 3)]
    grey = [*published_files.pictures(3, 8, 8, 1)]
    ready = encode_png(images[0])
    chunks = [(0, images, "a"), (1, grey, "b"), (2, [ready], "c")]
    for (number, pictures, letter), chunk in zip(
        encoded_ahead(iter(chunks)), chunks, strict=True
    ):
        assert (number, letter) == (chunk[0], chunk[2])
        if number == 2:
            assert pictures == [ready]
            continue
        for picture, image in zip(pictures, chunk[1], strict=True):
            shown = np.array(Image.open(io.BytesIO(picture)))
            np.testing.assert_array_equal(shown.reshape(image.shape), image)


def test_hdf5_pieces_are_unpacked_once(tmp_path, monkeypatch):
    """Reading few rows at a time from pieces of many rows asks for each piece once."""
    import h5py

    images = published_files.pictures(1000, 8, 8, 3)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset(
            "images", data=images, chunks=(400, 4, 4, 1), compression="gzip"
        )
    asked = []
    usual = h5py.Dataset.__getitem__
    monkeypatch.setattr(
        h5py.Dataset,
        "__getitem__",
        lambda self, rows: asked.append((rows.start, rows.stop)) or usual(self, rows),
    )
    chunks = list(Hdf5Rows(tmp_path / "a.h5", "images").chunks(64))
    assert asked == [(0, 400), (400, 800), (800, 1000)]
    assert max(map(len, chunks)) == 64
    np.testing.assert_array_equal(np.concatenate(chunks), images)


@pytest.mark.parametrize(
    ("name", "file", "size"),
    [
        ("shapes3d", "3dshapes.h5", "267,573,662 bytes"),
        ("dsprites", "dsprites_ndarray_co1sh3sc6or40x32y32_64x64.hdf5", "28,024,106"),
        ("smallnorb", f"{TRAINING}-dat.mat.gz", "262,778,180 bytes with"),
        ("cars3d", "nips2015-analogy-data.tar.gz", "size not published"),
        ("mpi3d", "real3d_complicated_shapes_ordered.npz", "about 5.7 GB"),
        ("falcor3d", "Falcor3D_down128.zip", "about 3.7 GB"),
    ],
)
def test_missing_file_without_a_network(tmp_path, monkeypatch, name, file, size):
    asked = []

    def no_network(url, **limits):
        asked.append(limits["timeout"])
        raise requests.ConnectionError("Name or service not known")

    monkeypatch.setattr(requests, "get", no_network)
    with pytest.raises(DatasetFileError) as caught:
        datasets.load(name, data_dir=str(tmp_path))
    said = str(caught.value)
    assert said.startswith(str((tmp_path / "downloads" / "manual" / file).resolve()))
    assert size in said
    assert "http" in said
    # One question of a few seconds, no retries.
    assert len(asked) == (0 if name in ("mpi3d", "falcor3d") else 1)
    assert sum(map(sum, asked)) < 10


def test_an_address_that_never_answers_is_given_up(monkeypatch):
    from qlayers.datasets.builders import network

    monkeypatch.setattr(network, "_SECONDS", 0.05)
    forever = threading.Event()
    monkeypatch.setattr(network, "_problem_of", lambda url: forever.wait(60) and None)
    assert "no answer" in network.why_unreachable("https://example.org/file")
    forever.set()


def test_a_file_in_the_manual_directory_needs_no_network(tmp_path, monkeypatch):
    monkeypatch.setattr(requests, "get", lambda *_, **__: pytest.fail("network"))
    manual = tmp_path / "manual"
    manual.mkdir()
    published_files.write_cars(manual / "nips2015-analogy-data.tar.gz")
    dataset = datasets.load(
        "cars3d",
        data_dir=str(tmp_path / "data"),
        manual_dir=str(manual),
        allow_partial=True,
    )
    assert dataset.factor_sizes == (4, 24, 2)


def test_picture_index_is_for_all_who_may_read_the_records(tmp_path):
    published_files.write_npz(tmp_path / "part.npz")
    dataset = _load(tmp_path, tmp_path / "part.npz")
    (records,) = dataset._records.files
    notes = records.parent / "picture_index.npz"
    wanted = stat.S_IMODE(records.stat().st_mode) & 0o666
    assert stat.S_IMODE(notes.stat().st_mode) == wanted
    assert wanted & stat.S_IRGRP


def test_importing_datasets_registers_the_builders_and_exits_silently(tmp_path):
    published_files.write_npz(tmp_path / "part.npz")
    script = f"""
import sys
import qlayers.datasets
assert "tensorflow_datasets" not in sys.modules
import tensorflow_datasets as tfds
assert set({BUILDERS!r}) <= set(tfds.list_builders(with_community_datasets=False))
print(tfds.builder("mpi3d/toy", data_dir={str(tmp_path)!r}).info.full_name)
dataset = qlayers.datasets.load(
    "mpi3d", data_dir={str(tmp_path / "data")!r}, file={str(tmp_path / "part.npz")!r},
    allow_partial=True)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "mpi3d/toy/1.0.0" in done.stdout
    # The interpreter ends without a word about files that were closed too late.
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
