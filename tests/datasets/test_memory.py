"""Large files are read in pieces."""

import tracemalloc

import numpy as np
from tensorflow_datasets.core import shuffle

from qlayers import datasets
from qlayers.datasets.builders.mpi3d import mpi3d_dataset_builder
from qlayers.datasets.readers import NpzRows
from qlayers.datasets.readers.numbered_zip import NumberedZip
from tests.datasets import published_files


def _peak_bytes(work):
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_npz_rows_hold_a_few_chunks_at_most(tmp_path):
    np.savez(tmp_path / "big.npz", images=np.zeros((4000, 64, 64, 3), np.uint8))
    chunk = 128 * 64 * 64 * 3

    def read():
        rows = sum(
            len(part) for part in NpzRows(tmp_path / "big.npz", "images").chunks(128)
        )
        assert rows == 4000

    assert _peak_bytes(read) < 5 * chunk


def test_zip_directory_takes_little_per_member(tmp_path):
    import zipfile

    with zipfile.ZipFile(tmp_path / "many.zip", "w") as archive:
        for number in range(20_000):
            archive.writestr(f"images/{number:06d}.png", b"x")

    # 30 bytes an entry, and the directory itself while it is being parsed.
    ours = _peak_bytes(lambda: NumberedZip(tmp_path / "many.zip", "images/", ".png"))
    usual = _peak_bytes(lambda: zipfile.ZipFile(tmp_path / "many.zip"))
    assert ours < 20_000 * 150
    assert ours < usual / 3


def test_shuffle_buffer_is_small_while_preparing_and_as_before_afterwards(
    tmp_path, monkeypatch
):
    usual = shuffle.MAX_MEM_BUFFER_SIZE
    seen = []
    original = mpi3d_dataset_builder.Builder._example

    def watch(self, *args):
        seen.append(shuffle.MAX_MEM_BUFFER_SIZE)
        return original(self, *args)

    monkeypatch.setattr(mpi3d_dataset_builder.Builder, "_example", watch)
    published_files.write_npz(tmp_path / "part.npz")
    datasets.load(
        "mpi3d",
        data_dir=str(tmp_path / "data"),
        file=tmp_path / "part.npz",
        allow_partial=True,
    )
    assert set(seen) == {32 << 20}
    assert usual == shuffle.MAX_MEM_BUFFER_SIZE
