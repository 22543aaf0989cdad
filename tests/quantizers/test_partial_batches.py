"""A last, smaller batch counts for what it holds, in terms as in Keras's own loss."""

import keras
import numpy as np
import pytest

import qlayers
from qlayers.backend import mirrored_strategy


def data():
    x = np.random.default_rng(0).normal(size=(35, 4)).astype("float32")
    x[32:] = [[3.0], [4.0], [5.0]]  # alone in their batch
    return x


def make_model():
    inputs = keras.Input((4,))
    z = keras.layers.Dense(4, kernel_initializer="identity")(inputs)
    z = qlayers.LatentQuantizer(
        5, quantize_weight=0.0, commit_weight=1.0, name="quantizer"
    )(z)
    energy = qlayers.ActivityEnergy(0.5, 0.0, name="activity", at_inference=True)
    z = energy(z)
    model = keras.Model(inputs, z)
    model.compile("sgd", "mse")
    return model


@pytest.mark.parametrize("size", [32, 20])
def test_terms_do_not_depend_on_the_batch_size(size):
    x = data()
    whole = make_model().evaluate(x, x, batch_size=35, verbose=0, return_dict=True)
    parts = make_model().evaluate(x, x, batch_size=size, verbose=0, return_dict=True)
    for name in ("loss", "quantizer_commit_loss", "activity_activity"):
        assert parts[name] == pytest.approx(whole[name], rel=1e-5), name


def test_terms_add_up_to_the_loss_of_an_epoch():
    x = data()
    model = make_model()
    model.optimizer.learning_rate = 0.0
    history = model.fit(x, x, batch_size=32, shuffle=False, verbose=0).history
    found = {name: values[0] for name, values in history.items()}
    error = np.mean((np.asarray(model(x)) - x) ** 2)
    terms = found["quantizer_commit_loss"] + 0.5 * found["activity_activity"]
    assert found["loss"] == pytest.approx(error + terms, rel=1e-5)


@pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="replicas are TensorFlow's"
)
def test_terms_of_replicas_with_batches_of_other_sizes():
    x = data()
    with mirrored_strategy().scope():
        model = make_model()
    parts = model.evaluate(x, x, batch_size=32, verbose=0, return_dict=True)
    whole = make_model().evaluate(x, x, batch_size=35, verbose=0, return_dict=True)
    for name in ("quantizer_commit_loss", "activity_activity"):
        assert parts[name] == pytest.approx(whole[name], rel=1e-5), name
