"""The factor view: sampling, streams, resuming, number types."""

import numpy as np
import pytest
import tensorflow as tf

from qlayers import datasets
from qlayers.datasets.samplers import FixedFactorSampler, ShuffledSampler


@pytest.fixture(scope="module")
def dataset():
    return datasets.load("mini_shapes3d", image_size=16)


def test_sample_pairs_sources_with_their_images(dataset):
    sources, images = dataset.sample(50, seed=1)
    assert sources.shape == (50, 6)
    assert np.issubdtype(sources.dtype, np.integer)
    assert images.dtype == np.float32
    assert 0 <= images.min() < images.max() <= 1
    np.testing.assert_array_equal(images, dataset.images_of(sources))


def test_same_seed_same_draw_other_seed_other_draw(dataset):
    first, second, other = (dataset.sample(100, seed=s)[0] for s in (4, 4, 5))
    np.testing.assert_array_equal(first, second)
    assert np.mean(np.all(first == other, axis=1)) < 0.05


def test_bytes_and_floats_are_the_same_image(dataset):
    _, floats = dataset.sample(20, seed=2)
    _, raw = dataset.sample(20, seed=2, dtype="uint8")
    assert raw.dtype == np.uint8
    np.testing.assert_allclose(floats, raw / 255.0, atol=1e-7)


def test_fixed_factor_is_fixed_and_the_others_vary(dataset):
    sources, _ = dataset.sample_with_fixed_factor("shape", 200, seed=0)
    assert np.unique(sources[:, 4]).size == 1
    assert all(np.unique(sources[:, c]).size > 5 for c in (0, 1, 2, 3, 5))
    values = {
        int(dataset.sample_with_fixed_factor(4, 2, seed=s)[0][0, 4]) for s in range(40)
    }
    assert values == {0, 1, 2, 3}
    chosen, _ = dataset.sample_with_fixed_factor("shape", 5, value=2)
    assert np.all(chosen[:, 4] == 2)


def test_evaluation_set_is_fixed_random_and_without_repeats(dataset):
    sources, images = dataset.evaluation_set(3000, dtype="uint8")
    again, _ = dataset.evaluation_set(3000, dtype="uint8")
    np.testing.assert_array_equal(sources, again)
    assert len(images) == 3000
    assert len(np.unique(dataset.space.index_of(sources))) == 3000
    for column, size in enumerate(dataset.factor_sizes):
        counts = np.bincount(sources[:, column], minlength=size)
        deviation = np.sum((counts - 3000 / size) ** 2 / (3000 / size))
        # Chi-square with size-1 degrees of freedom: mean size-1, variance 2(size-1).
        assert deviation < (size - 1) + 5 * np.sqrt(2 * (size - 1))


def test_stream_yields_full_float_batches_with_matching_sources(dataset):
    stream = dataset.as_tf_dataset(32, seed=7, with_sources=True)
    assert stream.cardinality() == tf.data.INFINITE_CARDINALITY or (
        stream.cardinality() > 10**15
    )
    for images, sources in stream.take(3):
        assert images.shape == (32, 16, 16, 3)
        assert images.dtype == tf.float32
        np.testing.assert_array_equal(images, dataset.images_of(sources.numpy()))
    image_spec, source_spec = stream.element_spec
    assert image_spec.shape == (32, 16, 16, 3)
    assert source_spec.shape == (32, 6)


def test_stream_starts_anywhere(dataset):
    whole = [batch.numpy() for batch in dataset.as_tf_dataset(8, seed=1).take(6)]
    rest = [b.numpy() for b in dataset.as_tf_dataset(8, seed=1, start=4).take(2)]
    np.testing.assert_array_equal(whole[4:], rest)
    assert not np.array_equal(whole[0], whole[1])


@pytest.mark.parametrize("sampler", [None, ShuffledSampler()])
def test_stream_position_survives_a_checkpoint(dataset, tmp_path, sampler):
    iterator = iter(dataset.as_tf_dataset(8, seed=3, sampler=sampler))
    for _ in range(5):
        next(iterator)
    path = tf.train.Checkpoint(iterator=iterator).save(str(tmp_path / "position"))
    expected = [next(iterator).numpy() for _ in range(4)]
    restored = iter(dataset.as_tf_dataset(8, seed=3, sampler=sampler))
    tf.train.Checkpoint(iterator=restored).restore(path)
    np.testing.assert_array_equal(expected, [next(restored) for _ in range(4)])


def test_stream_takes_a_sampler(dataset):
    stream = dataset.as_tf_dataset(
        16, seed=0, sampler=FixedFactorSampler("scale", 3), with_sources=True
    )
    for _, sources in stream.take(2):
        assert np.all(sources.numpy()[:, 3] == 3)


def test_stream_feeds_model_fit(dataset):
    import keras

    inputs = keras.Input((16, 16, 3))
    flat = keras.layers.Flatten()(inputs)
    model = keras.Model(inputs, keras.layers.Dense(6)(flat))
    model.compile("adam", "mse")
    stream = dataset.as_tf_dataset(16, seed=0, with_sources=True)
    history = model.fit(stream, steps_per_epoch=3, epochs=2, verbose=0)
    assert len(history.history["loss"]) == 2


@pytest.mark.parametrize(
    "call",
    [
        lambda d: d.sample(0),
        lambda d: d.sample(3, seed=-1),
        lambda d: d.sample(3, dtype="float16"),
        lambda d: d.as_tf_dataset(0),
        lambda d: d.as_tf_dataset(4, start=-1),
        lambda d: d.as_tf_dataset(4, dtype="int32"),
        lambda d: d.as_tf_dataset(4, sampler=FixedFactorSampler("colour")),
        lambda d: d.sample_with_fixed_factor("shape", 3, value=4),
    ],
)
def test_bad_arguments_fail_at_once(dataset, call):
    with pytest.raises(ValueError, match=r"received|Unknown factor"):
        call(dataset)
