"""The three parts of the divergence against scipy's densities and known cases."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

from qlayers.functional import minibatch_total_correlation
from tests.finite_differences import finite_differences
from tests.gradients import as_float64, gradient_of

rng = np.random.default_rng(0)
MEAN = rng.normal(size=(9, 3)).astype("float32")
SCALE = rng.uniform(0.2, 1.5, size=(9, 3)).astype("float32")
Z = (MEAN + SCALE * rng.normal(size=(9, 3))).astype("float32")
DATASET = 1000
NAMES = ("mutual_information", "total_correlation", "dimension_kl")


def reference(z, mean, scale):
    """Minibatch weights 1 / (batch * dataset) as printed, then reported as we do."""
    log_pairs = stats.norm(mean[None], scale[None]).logpdf(z[:, None])
    count, n = z.shape
    log_joint = logsumexp(log_pairs.sum(-1), axis=1) - np.log(count * DATASET)
    log_marginals = logsumexp(log_pairs, axis=1) - np.log(count * DATASET)
    log_own = stats.norm(mean, scale).logpdf(z).sum(-1)
    log_prior = stats.norm.logpdf(z).sum(-1)
    total_correlation = (log_joint - log_marginals.sum(-1)).mean()
    return {
        "mutual_information": (log_own - log_joint).mean(),
        "total_correlation": total_correlation - (n - 1) * np.log(DATASET),
        "dimension_kl": (log_marginals.sum(-1) - log_prior).mean()
        + n * np.log(DATASET),
    }


@pytest.mark.backends
def test_values():
    values = minibatch_total_correlation(Z, MEAN, SCALE, DATASET)
    expected = reference(*(x.astype("float64") for x in (Z, MEAN, SCALE)))
    assert tuple(values) == NAMES
    for name in NAMES:
        np.testing.assert_allclose(as_float64(values[name]), expected[name], rtol=1e-5)


@pytest.mark.backends
def test_the_three_add_up_to_the_divergence_from_the_prior():
    values = minibatch_total_correlation(Z, MEAN, SCALE, DATASET)
    log_ratio = stats.norm(MEAN, SCALE).logpdf(Z) - stats.norm.logpdf(Z)
    expected = log_ratio.sum(-1).mean() + np.log(DATASET)
    total = sum(as_float64(value) for value in values.values())
    np.testing.assert_allclose(total, expected, rtol=1e-5)


@pytest.mark.backends
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_gradients(name, place):
    arguments = [x.astype("float64") for x in (Z, MEAN, SCALE)]

    def vary(x):
        return reference(*[x if i == place else a for i, a in enumerate(arguments)])

    expected = finite_differences(lambda x: vary(x)[name], arguments[place])

    def ours(x):
        changed = [x if i == place else a for i, a in enumerate((Z, MEAN, SCALE))]
        return minibatch_total_correlation(*changed, DATASET)[name]

    gradient = gradient_of(ours, (Z, MEAN, SCALE)[place])
    np.testing.assert_allclose(gradient, expected, rtol=1e-3, atol=1e-4)


@pytest.mark.backends
def test_posteriors_equal_to_the_prior_cost_nothing():
    z = rng.normal(size=(50, 4)).astype("float32")
    values = minibatch_total_correlation(
        z, np.zeros_like(z), np.ones_like(z), dataset_size=50
    )
    np.testing.assert_allclose(as_float64(values["total_correlation"]), 0, atol=1e-5)
    np.testing.assert_allclose(as_float64(values["dimension_kl"]), 0, atol=1e-5)
    np.testing.assert_allclose(
        as_float64(values["mutual_information"]), np.log(50), rtol=1e-5
    )


def test_total_correlation_of_correlated_means_is_the_gaussian_one():
    """Means N(0, C), noise s: the aggregate posterior is N(0, C + s^2 I)."""
    correlation, noise = 0.9, 0.5
    covariance = np.array([[1.0, correlation], [correlation, 1.0]])
    generator = np.random.default_rng(3)
    mean = generator.multivariate_normal([0, 0], covariance, size=1500)
    z = mean + noise * generator.normal(size=mean.shape)
    values = minibatch_total_correlation(
        z.astype("float32"),
        mean.astype("float32"),
        np.full(mean.shape, noise, "float32"),
        dataset_size=1500,
    )
    rho = correlation / (1 + noise**2)
    expected = -0.5 * np.log(1 - rho**2)
    np.testing.assert_allclose(
        as_float64(values["total_correlation"]), expected, rtol=0.1
    )
