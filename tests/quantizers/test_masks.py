"""Padding has no part in losses, usage and updates of a quantizer."""

import keras
import numpy as np
import pytest
from keras import ops

import qlayers
from qlayers.testing import case_name
from tests.quantizers.cases import CASES

pytestmark = pytest.mark.backends

LENGTHS = (3, 5, 1)
MASK = np.arange(5) < np.array(LENGTHS)[:, None]
# Draws of noise depend on the shape of the batch, and with them the outputs; what is
# compared does not.
SAMPLED = ("gumbel", "gumbel_vector", "gaussian_softplus", "categorical")
NAMES = ("latent", "latent_revived", "vector", "vector_revived", "finite_scalar")
CHOSEN = [case for case in CASES if case.name in (*NAMES, *SAMPLED)]


def padded_and_plain(size, seed=0):
    """Sequences with far padding, and their unmasked rows."""
    padded = np.random.default_rng(seed).normal(size=(3, 5, size)).astype("float32")
    padded[~MASK] = 40.0
    return padded, padded[MASK]


def state_of(layer):
    """Losses, usage and weights after a call."""
    state = {f"loss_{i}": value for i, value in enumerate(layer.losses)}
    state |= {weight.name: weight for weight in layer.weights}
    if layer.usage is not None:
        state["counts"] = layer.usage.counts
    return {name: ops.convert_to_numpy(value) for name, value in state.items()}


@pytest.mark.parametrize("case", CHOSEN, ids=case_name)
def test_a_padded_batch_equals_the_unpadded_one(case):
    padded, plain = padded_and_plain(case.size)
    masked, unmasked = case.make(), case.make()
    for layer in (masked, unmasked):
        layer.build((None, case.size))
    for _ in range(2):
        masked(padded, training=True, mask=MASK)
        unmasked(plain, training=True)
        found, expected = state_of(masked), state_of(unmasked)
        assert found.keys() == expected.keys() and found
        for name, value in expected.items():
            np.testing.assert_allclose(
                found[name], value, rtol=2e-5, atol=1e-6, err_msg=name
            )


def sequence_model(jit_compile):
    keras.utils.set_random_seed(0)
    inputs = keras.Input((None, 4))
    hidden = keras.layers.Masking(40.0)(inputs)
    layer = qlayers.VectorQuantizer(16, 2, revive_after=1, seed=3, name="q")
    outputs = keras.layers.LSTM(2)(layer(hidden))
    model = keras.Model(inputs, outputs)
    model.compile(keras.optimizers.SGD(0.1), "mse", jit_compile=jit_compile)
    return model, layer


def test_masks_of_keras_in_a_compiled_fit():
    """More padding, the same training: history, weights and what follows the layer."""
    padded, _ = padded_and_plain(4)
    longer = np.pad(padded, [(0, 0), (0, 3), (0, 0)], constant_values=40.0)
    y = np.ones((3, 2), "float32")
    results = []
    # XLA's own unrolled recurrence compares with another order of sums.
    jit_compile = keras.backend.backend() == "jax"
    for x in (padded, longer):
        model, layer = sequence_model(jit_compile)
        history = model.fit(x, y, batch_size=3, epochs=2, verbose=0).history
        results.append((history, layer.get_weights()))
    (short, weights), (long, others) = results
    assert short["q_usage"] == pytest.approx(long["q_usage"])
    assert short["q_commit_loss"] == pytest.approx(long["q_commit_loss"], rel=1e-4)
    assert short["loss"] == pytest.approx(long["loss"], rel=1e-4)
    for ours, theirs in zip(weights, others, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-6)


def test_codes_pass_the_mask_on_and_a_wrong_one_is_named():
    layer = qlayers.LatentQuantizer(5)
    x = keras.layers.Masking(40.0)(padded_and_plain(4)[0])
    for outputs in (layer(x), qlayers.Codes(layer)(x)):
        np.testing.assert_array_equal(outputs._keras_mask, MASK)
    with pytest.raises(ValueError, match=r"mask of shape \(3, 5, 4\)"):
        layer(x, mask=np.ones((3, 5, 4), bool))


def test_all_masked_is_finite_and_moves_nothing():
    layer = qlayers.LatentQuantizer(5, revive_after=1, seed=0)
    layer.build((None, 4))
    start = ops.convert_to_numpy(layer.value_table())
    x = np.full((2, 3, 4), np.float32(3.0))
    for _ in range(3):
        layer(x, training=True, mask=np.zeros((2, 3), bool))
    assert all(np.isfinite(ops.convert_to_numpy(loss)) for loss in layer.losses)
    np.testing.assert_array_equal(ops.convert_to_numpy(layer.value_table()), start)
