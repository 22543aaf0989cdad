"""LatentQuantizer against section 3 and Algorithm 1 of the QLAE paper."""

import keras
import numpy as np
import pytest
import scipy.stats
from keras import ops

import qlayers
from tests.gradients import as_float64, gradients

pytestmark = pytest.mark.backends

N, NUM_VALUES = 4, 5
rng = np.random.default_rng(0)
X = (0.6 * rng.normal(size=(7, N))).astype("float32")
# Codebooks in no order, a different one for each latent.
TABLE = rng.normal(size=(N, NUM_VALUES)).astype("float32")


def algorithm_1(x, table):
    """Lines 3 to 5 for a batch, in float64: z, quantize loss, commit loss, codes."""
    x, table = x.astype("float64"), table.astype("float64")
    codes = np.empty(x.shape, dtype=int)
    for index in np.ndindex(*x.shape):
        codes[index] = np.abs(x[index] - table[index[-1]]).argmin()
    z = np.take_along_axis(table[None], codes.reshape(-1, x.shape[-1], 1), axis=2)
    z = z[..., 0].reshape(x.shape)
    squared_norm = ((x - z) ** 2).sum(-1).mean()
    return z, squared_norm, squared_norm, codes


def make(**kwargs):
    layer = qlayers.LatentQuantizer(NUM_VALUES, seed=0, **kwargs)
    layer.build((None, N))
    rows = layer.codebook.shape[0]
    layer.codebook.assign(TABLE[:rows, :, None])
    return layer


def table_of(layer):
    return np.broadcast_to(as_float64(layer.codebook)[..., 0], (N, NUM_VALUES))


@pytest.mark.parametrize("shared", [False, True])
def test_codebooks_start_as_linspace(shared):
    layer = qlayers.LatentQuantizer(10, shared_codebook=shared)
    layer.build((None, N))
    assert layer.codebook.shape == ((1 if shared else N), 10, 1)
    expected = np.broadcast_to(np.linspace(-0.5, 0.5, 10), (N, 10))
    np.testing.assert_allclose(as_float64(layer.value_table()), expected, rtol=1e-6)
    wide = qlayers.LatentQuantizer(3, init_range=2.0)
    wide.build((None, 1))
    np.testing.assert_array_equal(as_float64(wide.value_table()), [[-2.0, 0.0, 2.0]])


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("leading", [(7,), (2, 3), ()])
def test_output_codes_and_losses(shared, leading, training):
    layer = make(shared_codebook=shared, quantize_weight=0.3, commit_weight=0.07)
    x = (0.6 * rng.normal(size=(*leading, N))).astype("float32")
    z, quantize, commit, codes = algorithm_1(x, table_of(layer))
    output = layer(x, training=training)
    # Exactly the code's float, not the straight-through sum x + (z - x).
    np.testing.assert_array_equal(as_float64(output), z)
    np.testing.assert_array_equal(as_float64(layer.codes(x)), codes)
    np.testing.assert_array_equal(as_float64(layer.lookup(layer.codes(x))), z)
    losses = sorted(as_float64(loss) for loss in layer.losses)
    np.testing.assert_allclose(losses, [0.07 * commit, 0.3 * quantize], rtol=1e-5)


def test_terms_are_tracked_unweighted_under_their_names():
    layer = make(quantize_weight=0.3, commit_weight=0.07, name="bottleneck")
    layer(X)
    _, quantize, commit, _ = algorithm_1(X, TABLE)
    results = {m.name: m.result() for m in layer.metrics if "loss" in m.name}
    assert set(results) == {"bottleneck_quantize_loss", "bottleneck_commit_loss"}
    for name, expected in (("quantize", quantize), ("commit", commit)):
        np.testing.assert_allclose(
            as_float64(results[f"bottleneck_{name}_loss"]), expected, rtol=1e-5
        )


def test_mean_reduction_is_the_sum_divided_by_the_number_of_latents():
    layer = make(loss_reduction="mean", quantize_weight=1.0, commit_weight=0.0)
    layer(X)
    _, quantize, _, _ = algorithm_1(X, TABLE)
    (loss,) = layer.losses
    np.testing.assert_allclose(as_float64(loss), quantize / N, rtol=1e-5)


def test_straight_through_gradient_is_the_identity():
    layer = make()
    direction = rng.normal(size=X.shape).astype("float32")
    found = gradients(
        layer, X, lambda z: ops.sum(ops.multiply(direction, z)), training=True
    )
    np.testing.assert_array_equal(found.inputs, direction.astype("float64"))
    # Reconstruction does not reach the codebook.
    np.testing.assert_array_equal(found.variables["codebook"], 0.0)


@pytest.mark.parametrize("shared", [False, True])
def test_quantize_loss_moves_only_the_codebook(shared):
    layer = make(quantize_weight=0.3, commit_weight=0.0, shared_codebook=shared)
    found = gradients(layer, X, add_losses=True)
    np.testing.assert_array_equal(found.inputs, 0.0)
    z, _, _, codes = algorithm_1(X, table_of(layer))
    expected = np.zeros((N, NUM_VALUES))
    for i, j in np.ndindex(*X.shape):
        expected[j, codes[i, j]] += 0.3 * 2 * (z[i, j] - X[i, j]) / len(X)
    if shared:
        expected = expected.sum(0, keepdims=True)
    np.testing.assert_allclose(
        found.variables["codebook"][..., 0], expected, rtol=1e-4, atol=1e-7
    )


def test_commit_loss_moves_only_the_encoder():
    layer = make(quantize_weight=0.0, commit_weight=0.07)
    found = gradients(layer, X, add_losses=True)
    np.testing.assert_array_equal(found.variables["codebook"], 0.0)
    z = algorithm_1(X, TABLE)[0]
    np.testing.assert_allclose(
        found.inputs, 0.07 * 2 * (X - z) / len(X), rtol=1e-4, atol=1e-8
    )


def test_encoder_gets_straight_through_plus_commit():
    layer = make(quantize_weight=0.3, commit_weight=0.07)
    direction = rng.normal(size=X.shape).astype("float32")
    found = gradients(
        layer, X, lambda z: ops.sum(ops.multiply(direction, z)), add_losses=True
    )
    z = algorithm_1(X, TABLE)[0]
    expected = direction + 0.07 * 2 * (X - z) / len(X)
    np.testing.assert_allclose(found.inputs, expected, rtol=1e-5, atol=1e-7)


def test_training_step_pulls_the_used_codes_towards_their_inputs():
    layer = make(quantize_weight=1.0, commit_weight=0.0)
    inputs = keras.Input((N,))
    model = keras.Model(inputs, layer(inputs))
    model.compile(keras.optimizers.SGD(0.1), "mse")
    before = as_float64(layer.codebook)[..., 0]
    model.train_on_batch(X, X)
    after = as_float64(layer.codebook)[..., 0]
    codes = algorithm_1(X, TABLE)[3]
    for j in range(N):
        used = np.unique(codes[:, j])
        unused = np.setdiff1d(np.arange(NUM_VALUES), used)
        np.testing.assert_array_equal(after[j, unused], before[j, unused])
        for k in used:
            centre = X[codes[:, j] == k, j].mean()
            assert abs(after[j, k] - centre) < abs(before[j, k] - centre)


def test_codebooks_can_start_from_a_normal():
    layer = qlayers.LatentQuantizer(50, init="normal", seed=0)
    layer.build((None, 40))
    values = np.sort(as_float64(layer.value_table()).ravel())
    # Kolmogorov-Smirnov: 2,000 draws stay within 0.04 of the distribution.
    expected = scipy.stats.norm.cdf(values)
    assert np.abs(expected - np.arange(1, 2001) / 2000).max() < 0.04
    assert layer.get_config()["init"] == "normal"
    with pytest.raises(ValueError, match="init"):
        qlayers.LatentQuantizer(init="random")
