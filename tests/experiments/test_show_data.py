"""The sheets of experiments.show_data."""

import os
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from experiments.reporting import data_sheets
from qlayers import datasets
from tests.conftest import ROOT
from tests.datasets import published_files


@pytest.fixture(scope="module")
def dataset():
    return datasets.load("mini_shapes3d", image_size=16)


def test_tiles_stand_where_they_should():
    images = np.arange(5, dtype=np.uint8)[:, None, None, None] * np.ones(
        (5, 4, 3, 1), np.uint8
    )
    sheet = data_sheets.sheet_of(images, columns=2, gap=1)
    assert sheet.shape == (3 * 5 + 1, 2 * 4 + 1, 3)
    for number in range(5):
        top, left = 1 + number // 2 * 5, 1 + number % 2 * 4
        assert np.all(sheet[top : top + 4, left : left + 3] == number)
    assert np.all(sheet[11:15, 5:8] == sheet[0, 0])


def test_each_row_varies_one_factor(dataset):
    sources, used = data_sheets.traversal_sources(dataset, 10, seed=1)
    assert sources.shape == (6, 10, 6)
    assert used.sum(axis=1).tolist() == [10, 10, 10, 8, 4, 10]
    for factor in range(6):
        row = sources[factor][used[factor]]
        others = np.delete(row, factor, axis=1)
        assert np.all(others == others[0])
        assert len(np.unique(row[:, factor])) == len(row)
    assert set(sources[5, :, 5]) >= {0, 14}


def test_sheets_contain_the_images(dataset):
    sheet = data_sheets.contact_sheet(dataset, 2, 3, seed=4)
    _, images = dataset.sample(6, 4, dtype="uint8")
    np.testing.assert_array_equal(sheet[2:18, 2:18], images[0])
    np.testing.assert_array_equal(sheet[20:36, 38:54], images[5])
    sheet = data_sheets.traversal_sheet(dataset, 10, seed=4)
    assert sheet.shape[0] == 6 * 18 + 2
    assert sheet.shape[1] > 10 * 18 + 2


def test_partial_files_leave_gaps(tmp_path):
    published_files.write_npz(tmp_path / "part.npz", n=45)
    dataset = datasets.load(
        "mpi3d",
        data_dir=str(tmp_path / "data"),
        file=tmp_path / "part.npz",
        allow_partial=True,
    )
    sheet = data_sheets.traversal_sheet(dataset, 4, seed=0)
    # Only the last two factors vary within the first 45 images.
    cells = sheet[2:, -4 * 66 :].reshape(7, 66, 4, 66, 3)[:, :64, :, :64]
    empty = np.all(cells == cells[0, 0, 3, 0, 0], axis=(1, 3, 4))
    assert empty[:5, 1:].all()
    assert not empty[6].any()


@pytest.mark.slow
def test_command_writes_two_pictures(tmp_path):
    command = [sys.executable, "-m", "experiments.show_data", "--dataset=grid2d"]
    done = subprocess.run(
        [*command, f"--folder={tmp_path / 'sheets'}"],
        cwd=ROOT,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    written = sorted((tmp_path / "sheets").iterdir())
    assert [path.name for path in written] == [
        "grid2d_contact.png",
        "grid2d_traversals.png",
    ]
    assert all(str(path) in done.stdout for path in written)
    for path in written:
        assert min(Image.open(path).size) > 300


def test_own_images_with_gaps_and_without_labels(tmp_path):
    images = published_files.pictures(3, 8, 8, 3)
    labelled = datasets.from_arrays(images, [[0, 0], [1, 1], [0, 1]], ["a", "b"])
    sheet = data_sheets.traversal_sheet(labelled, columns=2, seed=0)
    assert sheet.shape[0] == 2 * (8 + 2) + 2
    plain = datasets.from_arrays(images, name="plain")
    written = data_sheets.save_sheets(plain, tmp_path, rows=8, columns=12, seed=0)
    assert [path.name for path in written] == ["plain_contact.png"]
