"""Frozen means frozen, and no optimizer's weight decay shrinks codes."""

import keras
import numpy as np
import pytest
from keras import ops

import qlayers
from qlayers.backend import mirrored_strategy
from qlayers.testing import case_name
from tests.quantizers.cases import CASES

pytestmark = pytest.mark.backends


def weights_of(layer):
    return [ops.convert_to_numpy(weight) for weight in layer.weights]


@pytest.mark.parametrize("case", CASES, ids=case_name)
def test_a_frozen_quantizer_keeps_its_weights(case):
    layer = case.make()
    # Nearest to few codes: the others would be revived.
    x = np.random.default_rng(0).normal(size=(4, case.size)).astype("float32")
    layer.build(x.shape)
    start = weights_of(layer)
    layer.trainable = False
    for _ in range(3):
        layer(x, training=True)
    for before, after in zip(start, weights_of(layer), strict=True):
        np.testing.assert_array_equal(before, after)


def test_a_thawed_quantizer_moves_again():
    decay = keras.optimizers.schedules.ExponentialDecay(1.0, 10, 0.5)
    layer = qlayers.GumbelQuantizer(8, temperature=decay, revive_after=1, seed=0)
    x = np.zeros((4, 2), "float32")
    layer.build(x.shape)
    start = weights_of(layer)
    layer.trainable = False
    layer(x, training=True)
    layer.trainable = True
    layer(x, training=True)
    assert int(layer.training_step) == 1
    after = weights_of(layer)
    assert any(not np.array_equal(*both) for both in zip(start, after, strict=True))


def test_frozen_in_fit():
    quantizer = qlayers.LatentQuantizer(12, init_range=5.0, revive_after=1, seed=0)
    model = keras.Sequential([keras.Input((3,)), quantizer, keras.layers.Dense(3)])
    quantizer.trainable = False
    model.compile("adamw", "mse")
    start = weights_of(quantizer)
    x = np.random.default_rng(0).normal(size=(16, 3)).astype("float32")
    model.fit(x, x, batch_size=4, verbose=0)
    for before, after in zip(start, weights_of(quantizer), strict=True):
        np.testing.assert_array_equal(before, after)


# ------------------------------------------------------------------ weight decay


def make_optimizers():
    adamw = keras.optimizers.AdamW(0.1, weight_decay=0.5)
    yield "sgd", keras.optimizers.SGD(0.1, weight_decay=0.5)
    yield "muon", keras.optimizers.Muon(0.1, weight_decay=0.5, adam_weight_decay=0.5)
    yield "scaled", keras.optimizers.LossScaleOptimizer(adamw, initial_scale=1.0)


@pytest.mark.parametrize("name", ["sgd", "muon", "scaled"])
def test_a_step_of_no_gradient_leaves_codes_and_shrinks_kernels(name):
    if name == "scaled" and keras.backend.backend() == "jax":
        pytest.skip("Keras scales losses on JAX inside a compiled step only")
    optimizer = dict(make_optimizers())[name]
    layer = qlayers.CategoricalQuantizer(5)
    layer.build((None, 10))
    kernel = keras.Variable(np.ones((3, 3), "float32"))
    variables = [*layer.trainable_variables, kernel]
    start = weights_of(layer)[0]
    gradients = [ops.zeros(variable.shape) for variable in variables]
    optimizer.build(variables)
    optimizer.apply(gradients, variables)
    np.testing.assert_array_equal(weights_of(layer)[0], start)
    assert np.all(ops.convert_to_numpy(kernel) < 0.99)


def fit_on_codes(optimizer):
    """Trains on inputs that are codes: the codebook's gradient is exactly 0."""
    quantizer = qlayers.LatentQuantizer(2, init_range=0.5, name="q")
    inputs = keras.Input((3,))
    outputs = keras.layers.Dense(3, use_bias=False)(quantizer(inputs))
    model = keras.Model(inputs, outputs)
    model.compile(optimizer, "mse")
    x = np.random.default_rng(0).choice([-0.5, 0.5], size=(16, 3)).astype("float32")
    y = ops.convert_to_numpy(model(x))
    model.fit(x, y, batch_size=8, verbose=0)
    return weights_of(quantizer)[0]


def test_compile_adamw_in_one_word():
    codebook = fit_on_codes("adamw")
    np.testing.assert_array_equal(np.unique(codebook), [-0.5, 0.5])


def test_on_two_replicas():
    if keras.backend.backend() != "tensorflow":
        pytest.skip("replicas of tf.distribute")
    with mirrored_strategy().scope():
        codebook = fit_on_codes(keras.optimizers.AdamW(0.01, weight_decay=0.5))
    np.testing.assert_array_equal(np.unique(codebook), [-0.5, 0.5])


def test_a_keras_that_does_not_ask_warns_once(monkeypatch):
    from qlayers import weight_decay

    monkeypatch.setattr(weight_decay, "_install", lambda: False)
    weight_decay._warn_once.cache_clear()
    with pytest.warns(UserWarning, match="exclude_from_weight_decay") as caught:
        for _ in range(2):
            qlayers.LatentQuantizer(3).build((None, 2))
    assert len(caught) == 1
