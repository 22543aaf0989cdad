"""The quantizer that sizes itself: nothing retired, something retired, in training."""

import keras
import numpy as np
import pytest
from keras import ops

import qlayers
from qlayers.functional import nearest_code

X = np.random.default_rng(0).normal(0.0, 0.6, (64, 3)).astype("float32")


def as_numpy(x):
    return ops.convert_to_numpy(x)


def trained(layer, steps=5):
    keras.utils.set_random_seed(1)
    inputs = keras.Input((3,))
    model = keras.Model(inputs, keras.layers.Dense(3)(layer(inputs)))
    model.compile("adam", "mse")
    history = model.fit(X, X, epochs=steps, batch_size=64, verbose=0, shuffle=False)
    return model, history.history


@pytest.mark.backends
def test_nothing_retired_is_a_latent_quantizer_to_the_last_bit():
    own, history = trained(qlayers.SelfSizingQuantizer(6, name="q"))
    plain, expected = trained(qlayers.LatentQuantizer(6, name="q"))
    for name, values in expected.items():
        assert history[name] == values
    by_path = {w.path.rpartition("/")[2]: as_numpy(w) for w in plain.weights}
    for weight in own.weights:
        name = weight.path.rpartition("/")[2]
        if name in by_path and by_path[name].dtype == "float32":
            np.testing.assert_array_equal(as_numpy(weight), by_path[name])
    np.testing.assert_array_equal(
        own.predict(X, verbose=0), plain.predict(X, verbose=0)
    )


@pytest.mark.backends
def test_nearest_code_passes_over_what_is_not_available():
    rng = np.random.default_rng(1)
    table = rng.normal(size=(3, 7)).astype("float32")
    available = rng.random((3, 7)) < 0.5
    available[:, 2] = True
    x = np.concatenate([X, [[1e30, -1e30, np.inf]], table.T]).astype("float32")
    found = as_numpy(nearest_code(x, table, available))
    for j in range(3):
        left = np.flatnonzero(available[j])
        distance = np.abs(np.clip(x[:, j : j + 1], -1e6, 1e6) - table[j, left])
        np.testing.assert_array_equal(found[:, j], left[distance.argmin(axis=1)])


@pytest.mark.backends
def test_merged_values_are_one_and_a_fixed_latent_is_constant():
    layer = qlayers.SelfSizingQuantizer(4, init_range=1.5)
    layer.build((None, 3))  # -1.5, -0.5, 0.5, 1.5
    layer.merge(0, 1, 2, value=0.25)
    layer.fix(1, value=0.75)
    assert layer.sizes() == [3, 1, 4]
    z = as_numpy(layer(X))
    assert set(np.unique(z[:, 0])) <= {-1.5, 0.25, 1.5}
    assert set(np.unique(z[:, 1])) == {0.75}
    nearest = np.array([-1.5, 0.25, 1.5])
    distance = np.abs(X[:, :1] - nearest)
    np.testing.assert_allclose(z[:, 0], nearest[distance.argmin(axis=1)])
    np.testing.assert_allclose(layer.values_left()[0], [-1.5, 0.25, 1.5])
    np.testing.assert_allclose(
        as_numpy(layer.value_table()),
        [[-1.5, 0.25, 0.25, 1.5], [0.75] * 4, [-1.5, -0.5, 0.5, 1.5]],
    )
    np.testing.assert_allclose(as_numpy(layer.lookup(layer.codes(X))), z)


@pytest.mark.backends
def test_what_is_retired_stays_so_in_a_file_and_in_training(tmp_path):
    layer = qlayers.SelfSizingQuantizer(6, name="q")
    model, _ = trained(layer, steps=1)
    layer.merge(0, 0, 1, value=-0.4)
    layer.fix(2, value=0.1)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert loaded.get_layer("q").sizes() == [5, 6, 1]
    np.testing.assert_array_equal(
        loaded.predict(X, verbose=0), model.predict(X, verbose=0)
    )
    history = loaded.fit(X, X, epochs=2, verbose=0).history
    assert loaded.get_layer("q").sizes() == [5, 6, 1]
    assert history["q_active_latents"] == [2.0, 2.0]
    assert history["q_values_left"] == [11.0, 11.0]


@pytest.mark.backends
def test_a_coarse_start_is_refined_by_splits(tmp_path):
    layer = qlayers.SelfSizingQuantizer(5, start_values=3, init_range=1.0, name="q")
    model, _ = trained(layer, steps=1)
    assert layer.sizes() == [3, 3, 3]
    coarse = qlayers.LatentQuantizer(3, init_range=1.0)
    same = qlayers.SelfSizingQuantizer(5, start_values=3, init_range=1.0)
    np.testing.assert_array_equal(as_numpy(same(X)), as_numpy(coarse(X)))
    layer.split(1, 0, low=-1.25, high=-0.75)
    assert layer.sizes() == [3, 4, 3]
    values = layer.values_left()[1]
    assert -1.25 in values and -0.75 in values
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert loaded.get_layer("q").sizes() == [3, 4, 3]
    np.testing.assert_array_equal(
        loaded.predict(X, verbose=0), model.predict(X, verbose=0)
    )


def test_mistakes_are_named():
    layer = qlayers.SelfSizingQuantizer(3)
    with pytest.raises(ValueError, match="does not know its number of latents"):
        layer.sizes()
    layer.build((None, 2))
    layer.merge(0, 0, 1, value=0.0)
    with pytest.raises(ValueError, match="no two values 0 and 1 left"):
        layer.merge(0, 0, 1, value=0.0)
    layer.split(0, 0, low=0.0, high=0.1)
    with pytest.raises(ValueError, match="no room"):
        layer.split(0, 0, low=0.0, high=0.1)
    for count in (1, 4):
        with pytest.raises(ValueError, match="start_values"):
            qlayers.SelfSizingQuantizer(3, start_values=count)
    for name in ("shared_codebook", "revive_after"):
        with pytest.raises(ValueError, match=name):
            qlayers.SelfSizingQuantizer(3, **{name: 1})
