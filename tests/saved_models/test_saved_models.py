"""Models saved by version 0.1 load and behave as they did when they were saved.

The `.keras` files beside this test hold trained models, one for each layer of the
package in its variants; the `.npz` files hold what they computed on the day they were
saved. They were written at commit acdc30b and stay as they are: a change of a layer
must keep them loading.
"""

from pathlib import Path

import keras
import numpy as np
import pytest
from keras import ops

import qlayers  # noqa: F401 (registers the layers)

pytestmark = pytest.mark.backends

FOLDER = Path(__file__).parent
NAMES = sorted(path.stem for path in FOLDER.glob("*.keras"))


def load(name):
    model = keras.saving.load_model(FOLDER / f"{name}.keras", safe_mode=True)
    with np.load(FOLDER / f"{name}.npz", allow_pickle=False) as file:
        return model, dict(file)


def quantizer_of(model):
    return next(layer for layer in model.layers if hasattr(layer, "codes"))


def test_there_is_a_file_for_every_layer():
    assert len(NAMES) == 29


@pytest.mark.parametrize("name", NAMES)
def test_outputs_are_those_of_the_day_it_was_saved(name):
    model, expected = load(name)
    outputs = ops.convert_to_numpy(model(expected["x"], training=False))
    np.testing.assert_allclose(outputs, expected["outputs"], rtol=1e-6, atol=1e-6)
    if "codes" in expected:
        layer = quantizer_of(model)
        codes = ops.convert_to_numpy(layer.codes(expected["layer_inputs"]))
        np.testing.assert_array_equal(codes, expected["codes"])
        values = ops.convert_to_numpy(layer.lookup(codes))
        np.testing.assert_allclose(values, expected["values"], rtol=1e-6, atol=1e-6)


@pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="backends draw other numbers"
)
@pytest.mark.parametrize("name", [name for name in NAMES if name != "qlae_encoder"])
def test_training_goes_on_as_on_the_day_it_was_saved(name):
    """Random state, schedules, optimizer and the counts of idle codes included."""
    model, expected = load(name)
    model.run_eagerly = True
    x = np.random.default_rng(0).normal(size=(8, 6)).astype("float32")
    history = model.fit(x, x, batch_size=8, epochs=2, verbose=0, shuffle=False).history
    assert list(history) == list(expected["loss_names"])
    np.testing.assert_allclose(
        list(history.values()), expected["losses"], rtol=1e-4, atol=1e-6
    )
    outputs = ops.convert_to_numpy(model(expected["x"], training=False))
    # Second differences over a narrow step amplify rounding, which is not the same on
    # every processor: 7e-5 with the kernels of SSE 4.1. Steps move outputs by 0.2.
    atol = 2e-4 if name == "normalized_hessian_lazy" else 1e-5
    np.testing.assert_allclose(outputs, expected["outputs_after"], rtol=1e-4, atol=atol)
