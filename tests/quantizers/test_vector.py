"""VectorQuantizer: slots, one shared codebook, the losses of the VQ-VAE."""

import numpy as np
import pytest
from keras import ops

import qlayers
from tests.gradients import as_float64, gradients
from tests.quantizers.plain_vectors import plain_vector_quantizer

pytestmark = pytest.mark.backends

SLOTS, DIM, NUM_CODES = 3, 4, 9
rng = np.random.default_rng(0)
X = rng.normal(size=(8, SLOTS * DIM)).astype("float32")
TABLE = rng.normal(size=(NUM_CODES, DIM)).astype("float32")


def make(**kwargs):
    return plain_vector_quantizer(TABLE, SLOTS, **kwargs)


def exhaustive_search(x):
    slots = x.astype("float64").reshape(*x.shape[:-1], SLOTS, 1, DIM)
    distance = ((slots - TABLE.astype("float64")) ** 2).sum(-1)
    codes = distance.argmin(-1)
    z = TABLE.astype("float64")[codes].reshape(x.shape)
    return z, codes, ((x - z) ** 2).sum(-1).mean()


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("leading", [(8,), (2, 3), ()])
def test_output_codes_and_losses(leading, training):
    layer = make()
    x = rng.normal(size=(*leading, SLOTS * DIM)).astype("float32")
    z, codes, squared_norm = exhaustive_search(x)
    np.testing.assert_array_equal(as_float64(layer(x, training=training)), z)
    np.testing.assert_array_equal(as_float64(layer.codes(x)), codes)
    np.testing.assert_array_equal(as_float64(layer.lookup(codes)), z)
    # Defaults: 1 for the codebook, 0.25 (the paper's beta) for the encoder.
    losses = sorted(as_float64(loss) for loss in layer.losses)
    np.testing.assert_allclose(losses, [0.25 * squared_norm, squared_norm], rtol=1e-5)


def test_mean_reduction_divides_by_all_numbers_of_a_sample():
    layer = make(loss_reduction="mean", commit_weight=0.0)
    layer(X)
    (loss,) = layer.losses
    expected = exhaustive_search(X)[2] / (SLOTS * DIM)
    np.testing.assert_allclose(as_float64(loss), expected, rtol=1e-5)


def test_slots_share_the_codebook():
    layer = make()
    table = as_float64(layer.value_table())
    assert table.shape == (SLOTS, NUM_CODES, DIM)
    for slot in range(SLOTS):
        np.testing.assert_array_equal(table[slot], TABLE)
    x = np.tile(X[:1, :DIM], (1, SLOTS))
    assert len(np.unique(as_float64(layer.codes(x)))) == 1


def test_codebook_starts_uniform_with_unit_expected_squared_length():
    layer = qlayers.VectorQuantizer(2000, 8, seed=1)
    layer.build((None, 8))
    start = as_float64(layer.codebook)
    limit = np.sqrt(3 / 8)
    assert np.abs(start).max() <= limit
    assert np.abs(start).max() > 0.99 * limit
    np.testing.assert_allclose((start**2).sum(-1).mean(), 1.0, atol=0.03)


def test_gradient_routing():
    direction = rng.normal(size=X.shape).astype("float32")
    z, codes, _ = exhaustive_search(X)
    layer = make()
    found = gradients(
        layer, X, lambda out: ops.sum(ops.multiply(direction, out)), add_losses=True
    )
    np.testing.assert_allclose(
        found.inputs, direction + 0.25 * 2 * (X - z) / len(X), rtol=1e-5, atol=1e-6
    )
    expected = np.zeros((NUM_CODES, DIM))
    errors = 2 * (z - X).reshape(-1, DIM) / len(X)
    np.add.at(expected, codes.reshape(-1), errors)
    np.testing.assert_allclose(
        found.variables["codebook"][0], expected, rtol=1e-4, atol=1e-6
    )
    found = gradients(layer, X, lambda out: ops.sum(ops.multiply(direction, out)))
    np.testing.assert_array_equal(found.inputs, direction.astype("float64"))
    np.testing.assert_array_equal(found.variables["codebook"], 0.0)
