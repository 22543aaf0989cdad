"""Multiinformation against equations 11 to 14 written out, and against scipy."""

import numpy as np
import pytest
from scipy import stats

from qlayers.functional import kernel_multiinformation, standard_deviation
from tests.finite_differences import finite_differences
from tests.gradients import as_float64, gradient_of

rng = np.random.default_rng(0)
MIXING = np.array([[1.0, 0.0, 0.0], [0.8, 0.6, 0.0], [0.1, 0.2, 0.9]])
Z = (rng.normal(size=(20, 3)) @ MIXING.T * [1.0, 3.0, 0.2]).astype("float32")


def silverman(num_samples, n):
    """Equation 12, as a variance."""
    return (4 / ((n + 2) * num_samples)) ** (2 / (n + 4))


def reference(z, scale=None, bandwidth=None):
    """Equations 11, 13 and 14 with all their constants, in float64."""
    z = np.asarray(z, "float64")
    scale = z.std(0) if scale is None else scale
    if bandwidth is None:
        joint_covariance = np.diag(silverman(*z.shape) * scale**2)
    else:
        scale = np.full(z.shape[1], bandwidth)
        joint_covariance = np.diag(scale**2)
    differences = z[:, None] - z[None]
    joint = stats.multivariate_normal(cov=joint_covariance).pdf(differences).mean(1)
    marginals = stats.norm(scale=scale).pdf(differences).mean(1)
    return float(np.mean(np.log(joint) - np.log(marginals).sum(-1)))


@pytest.mark.backends
def test_value_is_the_formula():
    value = as_float64(kernel_multiinformation(Z))
    np.testing.assert_allclose(value, reference(Z), rtol=1e-5)


@pytest.mark.backends
def test_scale_of_the_continuous_latents_sets_the_smoothing():
    quantized = np.round(Z * 2) / 2
    value = as_float64(kernel_multiinformation(quantized, standard_deviation(Z)))
    expected = reference(quantized, Z.astype("float64").std(0))
    np.testing.assert_allclose(value, expected, rtol=1e-5)
    assert abs(expected - reference(quantized)) > 1e-3


@pytest.mark.backends
@pytest.mark.parametrize("bandwidth", [0.1, 2])
def test_fixed_bandwidth(bandwidth):
    value = as_float64(kernel_multiinformation(Z, bandwidth=bandwidth))
    np.testing.assert_allclose(value, reference(Z, bandwidth=bandwidth), rtol=1e-5)


def test_scipy_agrees_on_the_densities():
    """gaussian_kde smooths with the full covariance: use data where it is diagonal."""
    white = (Z - Z.mean(0)) @ np.linalg.inv(np.linalg.cholesky(np.cov(Z.T, ddof=0))).T
    num_samples, n = white.shape
    ddof_1 = num_samples / (num_samples - 1)  # scipy's variance over ours
    factor = np.sqrt(silverman(num_samples, n) / ddof_1)
    joint = stats.gaussian_kde(white.T, bw_method=factor)(white.T)
    marginals = [
        stats.gaussian_kde(column, bw_method=np.sqrt(1 / ddof_1))(column)
        for column in white.T
    ]
    expected = np.mean(np.log(joint) - np.log(marginals).sum(0))
    value = as_float64(kernel_multiinformation(white.astype("float32")))
    np.testing.assert_allclose(value, expected, rtol=1e-5)


@pytest.mark.backends
def test_gradient_flows_through_latents_and_scale():
    expected = finite_differences(reference, Z)
    ours = gradient_of(kernel_multiinformation, Z)
    np.testing.assert_allclose(ours, expected, rtol=1e-3, atol=1e-5)


@pytest.mark.backends
def test_gradient_in_the_scale_alone():
    quantized = np.round(Z * 2) / 2

    def of_continuous(c):
        return reference(quantized, c.std(0))

    expected = finite_differences(of_continuous, Z)
    ours = gradient_of(
        lambda c: kernel_multiinformation(quantized, standard_deviation(c)), Z
    )
    np.testing.assert_allclose(ours, expected, rtol=1e-3, atol=1e-5)


@pytest.mark.backends
def test_rescaling_a_latent_changes_nothing():
    value = as_float64(kernel_multiinformation(Z))
    for scale in (1e-12, 1e12):
        rescaled = (Z * [1.0, scale, 1.0]).astype("float32")
        np.testing.assert_allclose(
            as_float64(kernel_multiinformation(rescaled)), value, rtol=1e-4
        )
    # So no gradient points along a scale. With a stopped scale one would.
    gradient = gradient_of(kernel_multiinformation, Z)
    np.testing.assert_allclose((gradient * (Z - Z.mean(0))).sum(0), 0, atol=1e-5)
    sigma = Z.std(0)
    stopped = gradient_of(lambda z: kernel_multiinformation(z, sigma), Z)
    assert np.all(np.abs((stopped * (Z - Z.mean(0))).sum(0)) > 1e-2)


@pytest.mark.backends
def test_dependence_raises_it():
    noise = rng.normal(size=(256, 2))
    independent = as_float64(kernel_multiinformation(noise.astype("float32")))
    together = noise @ np.array([[1.0, 0.95], [0.0, 0.3]])
    dependent = as_float64(kernel_multiinformation(together.astype("float32")))
    assert dependent > independent + 0.3


@pytest.mark.parametrize("bandwidth", [0.0, -1.0, "scott", None, float("nan")])
def test_bad_bandwidth(bandwidth):
    with pytest.raises(ValueError, match="bandwidth"):
        kernel_multiinformation(Z, bandwidth=bandwidth)
