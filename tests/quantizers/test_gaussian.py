"""GaussianLatent: moments, samples, divergence, gradients and prior quantiles."""

import keras
import numpy as np
import pytest
from keras import ops
from scipy import stats

import qlayers
from tests.gradients import as_float64, gradients

pytestmark = pytest.mark.backends

N = 3
rng = np.random.default_rng(0)
X = rng.normal(size=(6, 2 * N)).astype("float32")
MEAN, RAW = np.split(X.astype("float64"), 2, axis=-1)
SCALES = {
    "log_variance": np.exp(0.5 * RAW),
    "softplus": np.log1p(np.exp(RAW)),
}
SLOPES = {
    "log_variance": 0.5 * np.exp(0.5 * RAW),
    "softplus": 1 / (1 + np.exp(-RAW)),
}


def make(**kwargs):
    layer = qlayers.GaussianLatent(seed=0, **kwargs)
    layer.build((None, 2 * N))
    return layer


@pytest.mark.parametrize("scale", ["log_variance", "softplus"])
def test_inference_returns_the_mean_and_the_moments(scale):
    z, mean, deviation = make(scale=scale)(X, return_moments=True)
    np.testing.assert_array_equal(as_float64(z), MEAN)
    np.testing.assert_array_equal(as_float64(mean), MEAN)
    np.testing.assert_allclose(as_float64(deviation), SCALES[scale], rtol=1e-5)


@pytest.mark.parametrize("scale", ["log_variance", "softplus"])
def test_training_samples_the_posterior(scale):
    layer = make(scale=scale)
    x = np.repeat(X[:1], 8000, axis=0)
    z = as_float64(layer(x, training=True))
    noise = (z - MEAN[0]) / SCALES[scale][0]
    for j in range(N):
        assert stats.kstest(noise[:, j], "norm").pvalue > 1e-3
    assert abs(np.corrcoef(noise.T)[0, 1]) < 0.05
    assert stats.kstest(1.1 * noise[:, 0], "norm").pvalue < 1e-3


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("scale", ["log_variance", "softplus"])
def test_divergence(scale, training):
    layer = make(scale=scale, kl_weight=4.0, name="z")
    layer(X, training=training)
    s = SCALES[scale]
    expected = 0.5 * (MEAN**2 + s**2 - 1 - 2 * np.log(s)).sum(-1).mean()
    (loss,) = layer.losses
    np.testing.assert_allclose(as_float64(loss), 4.0 * expected, rtol=1e-4)
    (metric,) = (m for m in layer.metrics if m.name == "z_kl")
    np.testing.assert_allclose(as_float64(metric.result()), expected, rtol=1e-4)


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="TFP is the oracle")
def test_divergence_is_the_one_of_tfp():
    import tensorflow_probability as tfp

    tfd = tfp.distributions
    layer = make()
    _, mean, scale = layer(X, return_moments=True)
    divergence = tfd.kl_divergence(tfd.Normal(mean, scale), tfd.Normal(0.0, 1.0))
    np.testing.assert_allclose(
        layer.losses[0], divergence.numpy().sum(-1).mean(), rtol=1e-5
    )


@pytest.mark.parametrize("scale", ["log_variance", "softplus"])
def test_reparameterized_gradient(scale):
    """dz/dm = 1, dz/dh = e ds/dh, with e recovered from the sample."""
    found = gradients(make(scale=scale), X, ops.sum, training=True)
    noise = (found.outputs[0] - MEAN) / SCALES[scale]
    in_mean, in_raw = np.split(found.inputs, 2, axis=-1)
    np.testing.assert_array_equal(in_mean, 1.0)
    np.testing.assert_allclose(in_raw, noise * SLOPES[scale], rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("scale", ["log_variance", "softplus"])
def test_divergence_gradient(scale):
    found = gradients(make(scale=scale, kl_weight=2.0), X, add_losses=True)
    in_mean, in_raw = np.split(found.inputs, 2, axis=-1)
    s = SCALES[scale]
    np.testing.assert_allclose(in_mean, 2.0 * MEAN / len(X), rtol=1e-4, atol=1e-7)
    expected = 2.0 * (s - 1 / s) * SLOPES[scale] / len(X)
    np.testing.assert_allclose(in_raw, expected, rtol=1e-3, atol=1e-6)


def test_codes_are_nearest_prior_quantiles_and_do_not_touch_the_output():
    layer = make(num_values=7)
    quantiles = stats.norm.ppf((np.arange(7) + 0.5) / 7)
    np.testing.assert_allclose(
        as_float64(layer.value_table()), [quantiles] * N, rtol=1e-4, atol=1e-6
    )
    codes = np.abs(MEAN[..., None] - quantiles).argmin(-1)
    np.testing.assert_array_equal(as_float64(layer.codes(X)), codes)
    np.testing.assert_allclose(
        as_float64(layer.lookup(codes)), quantiles[codes], rtol=1e-4, atol=1e-6
    )


def test_prior_samples_use_all_codes_about_equally():
    layer = make(num_values=4)
    x = rng.normal(size=(4000, 2 * N)).astype("float32")
    shares = np.bincount(as_float64(layer.codes(x)).astype(int).ravel()) / (4000 * N)
    # The outer quantiles take the whole tails.
    edges = stats.norm.ppf((np.arange(4) + 0.5) / 4)
    borders = stats.norm.cdf((edges[1:] + edges[:-1]) / 2)
    np.testing.assert_allclose(
        shares, np.diff(np.concatenate([[0], borders, [1]])), atol=0.02
    )


@pytest.mark.parametrize("scale", ["log_variance", "softplus"])
def test_extreme_scales_stay_finite(scale):
    x = np.array([[0.0, 0.0, 0.0, 500.0, -500.0, -1e30]], "float32")
    layer = make(scale=scale)
    found = gradients(layer, x, ops.sum, add_losses=True, training=True)
    assert np.isfinite(found.outputs[0]).all()
    assert np.isfinite(found.inputs).all()
