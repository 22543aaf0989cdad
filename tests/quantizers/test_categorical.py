"""CategoricalQuantizer (dVAE): logits in, learned shared codebook."""

import numpy as np
import pytest
from keras import ops
from scipy import stats
from scipy.special import log_softmax

import qlayers
from tests.gradients import as_float64, gradients

N, NUM_VALUES = 3, 5
rng = np.random.default_rng(0)
LOGITS = (2 * rng.normal(size=(6, N * NUM_VALUES))).astype("float32")
L = LOGITS.astype("float64").reshape(6, N, NUM_VALUES)

pytestmark = pytest.mark.backends


def make(size=N, **kwargs):
    layer = qlayers.CategoricalQuantizer(NUM_VALUES, seed=0, **kwargs)
    layer.build((None, size * NUM_VALUES))
    return layer


def test_inference_is_the_value_of_the_most_likely_category():
    layer = make()
    codes = L.argmax(-1)
    values = as_float64(layer.codebook)
    z, weights = layer(LOGITS, return_assignments=True)
    np.testing.assert_array_equal(as_float64(z), values[codes])
    np.testing.assert_array_equal(as_float64(weights), np.eye(NUM_VALUES)[codes])
    np.testing.assert_array_equal(as_float64(layer.codes(LOGITS)), codes)
    np.testing.assert_array_equal(as_float64(layer.lookup(codes)), values[codes])
    np.testing.assert_array_equal(as_float64(layer.value_table()), [values] * N)


def test_equal_logits_go_to_the_lowest_index():
    layer = make(size=2)
    logits = np.array([[0.0, 0.0, 0.0, 0.0, 0.0, -1.0, -0.0, 0.0, 0.0, -3.0]])
    codes = as_float64(layer.codes(logits.astype("float32")))
    np.testing.assert_array_equal(codes, [[0, 1]])


def test_training_draws_relaxed_one_hots():
    layer = make(size=1, temperature=0.5)
    logits = np.repeat(LOGITS[:1, :NUM_VALUES], 8000, axis=0)
    z, weights = layer(logits, training=True, return_assignments=True)
    weights = as_float64(weights)[:, 0]
    np.testing.assert_allclose(
        as_float64(z)[:, 0],
        weights @ as_float64(layer.codebook),
        rtol=1e-4,
        atol=1e-5,
    )
    log_ratio = np.log(weights[:, 0]) - np.log(weights[:, 1])
    noise = 0.5 * log_ratio - (L[0, 0, 0] - L[0, 0, 1])
    assert stats.kstest(noise, "logistic").pvalue > 1e-3
    assert stats.kstest(noise + 0.1, "logistic").pvalue < 1e-2


@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_kl_ignores_temperature(reduction):
    layer = make(kl_weight=0.2, kl_reduction=reduction, temperature=0.1)
    layer(LOGITS, training=True)
    log_q = log_softmax(L, axis=-1)
    per_latent = (np.exp(log_q) * (log_q + np.log(NUM_VALUES))).sum(-1)
    expected = per_latent.sum(-1) if reduction == "sum" else per_latent.mean(-1)
    (loss,) = layer.losses
    np.testing.assert_allclose(as_float64(loss), 0.2 * expected.mean(), rtol=1e-4)


def test_no_loss_without_weight():
    layer = make()
    layer(LOGITS, training=True)
    assert not layer.losses
    assert all("kl" not in metric.name for metric in layer.metrics)


def test_training_gradient():
    """dz/dl_k = y_k (M_k - z) / t and dz/dM_k = y_k, given the drawn y."""
    layer = make(temperature=0.6)
    found = gradients(layer, LOGITS, ops.sum, training=True, return_assignments=True)
    z, y = found.outputs
    values = as_float64(layer.codebook)
    expected = y * (values - z[..., None]) / 0.6
    np.testing.assert_allclose(
        found.inputs.reshape(y.shape), expected, rtol=1e-3, atol=1e-5
    )
    np.testing.assert_allclose(
        found.variables["codebook"], y.sum((0, 1)), rtol=1e-4, atol=1e-5
    )


def test_inference_gradient_reaches_the_codebook_only():
    layer = make()
    found = gradients(layer, LOGITS, ops.sum)
    np.testing.assert_array_equal(found.inputs, 0.0)
    counts = np.bincount(L.argmax(-1).ravel(), minlength=NUM_VALUES)
    np.testing.assert_array_equal(found.variables["codebook"], counts)


def test_kl_gradient_by_finite_differences():
    layer = make(kl_weight=0.2)
    found = gradients(layer, LOGITS, add_losses=True)

    def kl(logits):
        log_q = log_softmax(logits.reshape(6, N, NUM_VALUES), axis=-1)
        return 0.2 * (np.exp(log_q) * log_q).sum((-1, -2)).mean()

    step = 1e-5
    base = LOGITS.astype("float64")
    for index in [(0, 0), (3, 7), (5, 14)]:
        up, down = base.copy(), base.copy()
        up[index] += step
        down[index] -= step
        slope = (kl(up) - kl(down)) / (2 * step)
        np.testing.assert_allclose(found.inputs[index], slope, rtol=1e-3, atol=1e-6)
