"""Relaxed one-hot samples: their distribution, gradient and limits."""

import keras
import numpy as np
import pytest
from keras import ops
from scipy import stats
from scipy.special import softmax

from qlayers.functional import gumbel_softmax
from tests.gradients import as_float64, gradient_of

LOGITS = np.array([1.0, -0.5, 0.3, 0.0], "float32")
NUM_SAMPLES = 20_000


def draw(temperature, noise_scale, seed=0, logits=LOGITS):
    many = np.broadcast_to(logits, (NUM_SAMPLES, len(logits)))
    generator = keras.random.SeedGenerator(seed)
    return as_float64(gumbel_softmax(many, temperature, noise_scale, generator))


def implied_noise_differences(weights, temperature, noise_scale):
    """(g_0 - g_k) recovered from y = softmax((l + s g) / t)."""
    log_ratio = np.log(weights[:, :1]) - np.log(weights[:, 1:])
    shift = LOGITS.astype("float64")[:1] - LOGITS.astype("float64")[1:]
    return (temperature * log_ratio - shift) / noise_scale


@pytest.mark.backends
@pytest.mark.parametrize(
    ("temperature", "noise_scale"), [(1.0, 1.0), (0.7, 1.0), (1.0, 0.5), (2.0, 2.0)]
)
def test_the_noise_is_gumbel(temperature, noise_scale):
    """The difference of two independent Gumbel variables is a standard logistic."""
    weights = draw(temperature, noise_scale)
    np.testing.assert_allclose(weights.sum(-1), 1.0, rtol=1e-5)
    differences = implied_noise_differences(weights, temperature, noise_scale)
    for k in range(differences.shape[1]):
        assert stats.kstest(differences[:, k], "logistic").pvalue > 1e-3
    # Two differences share g_0: their correlation is 1/2.
    correlation = np.corrcoef(differences.T)[0, 1]
    assert abs(correlation - 0.5) < 0.03
    # The test can tell: with another scale the same samples are no logistic.
    assert stats.kstest(1.1 * differences[:, 0], "logistic").pvalue < 1e-6


@pytest.mark.parametrize(
    ("temperature", "noise_scale"), [(1.0, 1.0), (0.5, 1.0), (1.0, 0.5), (1.0, 2.0)]
)
def test_against_tensorflow_probability(temperature, noise_scale):
    """With noise scale s it is the relaxed one-hot of temperature t/s, logits l/s."""
    import tensorflow_probability as tfp

    oracle = tfp.distributions.RelaxedOneHotCategorical(
        temperature=temperature / noise_scale, logits=LOGITS / noise_scale
    )
    theirs = oracle.sample(NUM_SAMPLES, seed=(1, 2)).numpy()
    ours = draw(temperature, noise_scale, seed=5)
    for k in range(len(LOGITS)):
        assert stats.ks_2samp(ours[:, k], theirs[:, k]).pvalue > 1e-3
    np.testing.assert_allclose(ours.mean(0), theirs.mean(0), atol=0.015)
    np.testing.assert_allclose(np.cov(ours.T), np.cov(theirs.T), atol=0.01)
    other = tfp.distributions.RelaxedOneHotCategorical(
        temperature=1.15 * temperature / noise_scale, logits=LOGITS / noise_scale
    )
    wrong = other.sample(NUM_SAMPLES, seed=(1, 2)).numpy()
    assert stats.ks_2samp(ours[:, 0], wrong[:, 0]).pvalue < 1e-4


@pytest.mark.backends
def test_argmax_follows_the_categorical():
    """The Gumbel-max trick: the argmax has probability softmax(l)."""
    counts = np.bincount(draw(0.3, 1.0, seed=2).argmax(-1), minlength=4)
    expected = NUM_SAMPLES * softmax(LOGITS.astype("float64"))
    assert stats.chisquare(counts, expected).pvalue > 1e-3


@pytest.mark.backends
def test_without_noise_it_is_a_softmax():
    for scale in (0, 0.0, ops.zeros(())):
        weights = gumbel_softmax(LOGITS[None], 0.5, scale, seed=0)
        np.testing.assert_allclose(
            as_float64(weights)[0], softmax(LOGITS.astype("float64") / 0.5), rtol=1e-5
        )


@pytest.mark.backends
def test_gradient_given_the_sample():
    """dy_i/dl_j = y_i (delta_ij - y_j) / t, whatever the noise was."""
    direction = np.array([1.0, 2.0, -1.0, 0.5], "float32")
    # Far from one-hot, where the differences below would cancel in float32.
    logits, temperature = np.tile(LOGITS, (5, 1)), 2.0
    weights = as_float64(gumbel_softmax(logits, temperature, 0.5, seed=11))

    def loss(t):
        weights = gumbel_softmax(t, temperature, 0.5, seed=11)
        return ops.sum(ops.multiply(direction, weights))

    inner = (weights * direction).sum(-1, keepdims=True)
    expected = weights * (direction - inner) / temperature
    np.testing.assert_allclose(
        gradient_of(loss, logits), expected, rtol=1e-4, atol=1e-7
    )


@pytest.mark.backends
def test_low_temperature_gives_one_hot_and_extreme_logits_stay_finite():
    weights = draw(1e-3, 1.0, seed=3)
    assert (weights.max(-1) > 0.99).mean() > 0.99
    extreme = np.array([1e30, 0.0, -1e30, -2e30], "float32")
    weights = draw(1.0, 1.0, logits=extreme)
    # Some processors divide 1 by a sum of 1 with an approximate reciprocal.
    one_hot = np.broadcast_to([1.0, 0.0, 0.0, 0.0], weights.shape)
    np.testing.assert_allclose(weights, one_hot, rtol=2e-7)


@pytest.mark.backends
def test_seeds():
    first, again, other = (
        as_float64(gumbel_softmax(LOGITS[None], seed=seed)) for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
