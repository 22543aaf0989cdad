"""Pictures of prepared datasets are decoded once, and come out the same."""

import numpy as np
import pytest

from qlayers import datasets
from qlayers.datasets import prepared_dataset
from qlayers.datasets.picture_cache import MOST_BYTES, cache_for
from qlayers.datasets.record_index import RecordIndex
from tests.datasets import published_files

COUNT = 40


@pytest.fixture
def load(tmp_path):
    published_files.write_shapes3d(tmp_path / "3dshapes.h5", n=COUNT)

    def load_prepared():
        return datasets.load(
            "shapes3d",
            image_size=16,
            data_dir=str(tmp_path / "data"),
            file=tmp_path / "3dshapes.h5",
            allow_partial=True,
        )

    return load_prepared


@pytest.fixture
def rows_read(monkeypatch):
    """Numbers of the pictures that are read from files from now on."""
    numbers: list[int] = []
    original = RecordIndex.read

    def read(self, rows):
        numbers.extend(rows)
        return original(self, rows)

    monkeypatch.setattr(RecordIndex, "read", read)
    return numbers


def _without_cache(monkeypatch, load):
    with monkeypatch.context() as patch:
        patch.setattr(prepared_dataset, "cache_for", lambda *_: None)
        return load()


def _batches(dataset, count):
    stream = iter(dataset.as_tf_dataset(16, seed=3, dtype="uint8", with_sources=True))
    return [tuple(part.numpy() for part in next(stream)) for _ in range(count)]


def test_stream_is_the_same_with_and_without_a_cache(load, monkeypatch):
    plain = _without_cache(monkeypatch, load)
    # 20 batches of 16 show most of the 40 pictures several times.
    cached, expected = _batches(load(), 20), _batches(plain, 20)
    for batch, plain_batch in zip(cached, expected, strict=True):
        for part, plain_part in zip(batch, plain_batch, strict=True):
            np.testing.assert_array_equal(part, plain_part)


def test_images_of_sources_are_the_same_with_repeats_and_a_part_held(load, monkeypatch):
    dataset, plain = load(), _without_cache(monkeypatch, load)
    for index in ([3, 3, 1], [7, 3, 7, 0, 1], [], [1, 0]):
        sources = dataset.space.sources_of(np.array(index, int))
        images = dataset.images_of(sources)
        assert images.shape == (len(index), 16, 16, 3)
        np.testing.assert_array_equal(images, plain.images_of(sources))


def test_each_picture_is_read_once(load, rows_read):
    dataset = load()
    every = dataset.space.sources_of(np.arange(COUNT))
    dataset.images_of(every)
    assert sorted(rows_read) == list(range(COUNT))
    # The stream finds all of them decoded.
    _batches(dataset, 5)
    dataset.images_of(every[::-1])
    assert len(rows_read) == COUNT


def test_dataset_larger_than_the_limit_is_decoded_again(load, monkeypatch, rows_read):
    monkeypatch.setattr("qlayers.datasets.picture_cache.MOST_BYTES", 1)
    dataset = load()
    some = dataset.space.sources_of(np.arange(4))
    dataset.images_of(some)
    dataset.images_of(some)
    assert len(rows_read) == 8


def test_limit_counts_the_size_that_is_delivered():
    assert cache_for(MOST_BYTES // 256, (16, 16, 1)) is not None
    assert cache_for(MOST_BYTES // 256 + 1, (16, 16, 1)) is None
