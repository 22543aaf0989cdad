"""Divergences against float64 formulas, TFP and analytic gradients."""

import numpy as np
import pytest
from keras import ops
from scipy.special import log_softmax

from qlayers.functional import standard_normal_kl, uniform_kl
from tests.gradients import as_float64, gradient_of

rng = np.random.default_rng(0)
LOGITS = (3 * rng.normal(size=(5, 4, 6))).astype("float32")


def reference_uniform_kl(logits):
    """sum_k q_k (log q_k - log 1/K), in float64."""
    log_q = log_softmax(logits.astype("float64"), axis=-1)
    return (np.exp(log_q) * (log_q + np.log(logits.shape[-1]))).sum(-1)


@pytest.mark.backends
def test_uniform_kl_is_the_formula():
    np.testing.assert_allclose(
        as_float64(uniform_kl(LOGITS)), reference_uniform_kl(LOGITS), rtol=1e-5
    )


@pytest.mark.backends
def test_uniform_kl_knows_its_extremes():
    one_hot = np.array([[1e30, -1e30, -1e30, -1e30]], "float32")
    np.testing.assert_allclose(as_float64(uniform_kl(one_hot)), [np.log(4)], rtol=1e-6)
    flat = np.full((1, 4), 7.0, "float32")
    np.testing.assert_allclose(as_float64(uniform_kl(flat)), [0.0], atol=1e-6)


@pytest.mark.backends
def test_uniform_kl_over_the_active_categories_only():
    masked = LOGITS.copy()
    masked[..., [1, 4]] = -2e30
    np.testing.assert_allclose(
        as_float64(uniform_kl(masked, num_active=np.array([4]))),
        reference_uniform_kl(LOGITS[..., [0, 2, 3, 5]]),
        rtol=1e-5,
    )


@pytest.mark.backends
def test_uniform_kl_gradient():
    """d/dl_k sum q log q = q_k (log q_k - sum q log q)."""
    log_q = log_softmax(LOGITS.astype("float64"), axis=-1)
    q = np.exp(log_q)
    expected = q * (log_q - (q * log_q).sum(-1, keepdims=True))
    actual = gradient_of(lambda t: ops.sum(uniform_kl(t)), LOGITS)
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.backends
def test_standard_normal_kl_is_the_formula_and_its_gradient():
    mean = rng.normal(size=(20,)).astype("float32")
    scale = rng.uniform(0.05, 3.0, size=(20,)).astype("float32")
    m, s = mean.astype("float64"), scale.astype("float64")
    np.testing.assert_allclose(
        as_float64(standard_normal_kl(mean, scale)),
        0.5 * (m**2 + s**2 - 1 - np.log(s**2)),
        rtol=1e-5,
        atol=1e-6,
    )
    in_mean = gradient_of(lambda t: ops.sum(standard_normal_kl(t, scale)), mean)
    in_scale = gradient_of(lambda t: ops.sum(standard_normal_kl(mean, t)), scale)
    np.testing.assert_allclose(in_mean, m, rtol=1e-6)
    np.testing.assert_allclose(in_scale, s - 1 / s, rtol=1e-4, atol=1e-5)


def test_against_tensorflow_probability():
    import tensorflow_probability as tfp

    tfd = tfp.distributions
    posterior = tfd.OneHotCategorical(logits=LOGITS)
    uniform = tfd.OneHotCategorical(logits=np.zeros_like(LOGITS))
    np.testing.assert_allclose(
        uniform_kl(LOGITS), tfd.kl_divergence(posterior, uniform), rtol=1e-4, atol=1e-6
    )
    mean = rng.normal(size=(7, 3)).astype("float32")
    scale = rng.uniform(0.1, 2.0, size=(7, 3)).astype("float32")
    np.testing.assert_allclose(
        standard_normal_kl(mean, scale),
        tfd.kl_divergence(tfd.Normal(mean, scale), tfd.Normal(0.0, 1.0)),
        rtol=1e-4,
        atol=1e-6,
    )
