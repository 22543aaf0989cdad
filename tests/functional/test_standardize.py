"""Standard deviations and standardised latents, at ordinary and at extreme scales."""

import numpy as np
import pytest
from keras import ops

from qlayers.functional import standard_deviation, standardize
from tests.finite_differences import finite_differences
from tests.gradients import as_float64, gradient_of

pytestmark = pytest.mark.backends
rng = np.random.default_rng(0)
Z = rng.normal(size=(12, 3)).astype("float32")


@pytest.mark.parametrize("scale", [1e-30, 1e-12, 1.0, 1e12, 1e30])
def test_standard_deviation_is_numpys_at_any_scale(scale):
    z = (Z * np.float64(scale)).astype("float32")
    expected = z.astype("float64").std(axis=0)
    np.testing.assert_allclose(as_float64(standard_deviation(z)), expected, rtol=1e-5)


def test_a_common_offset_costs_no_digits():
    z = (1e6 + np.arange(8)[:, None]).astype("float32")
    np.testing.assert_allclose(
        as_float64(standard_deviation(z)), np.arange(8).std(), rtol=1e-6
    )


def test_standardize_gives_mean_0_and_variance_1():
    u = as_float64(standardize(5 * Z + 3))
    np.testing.assert_allclose(u.mean(0), 0, atol=1e-6)
    np.testing.assert_allclose(u.std(0), 1, rtol=1e-6)


def test_constants_are_exactly_zero_whatever_their_value():
    z = np.full((7, 2), 0.3, "float32")
    np.testing.assert_array_equal(as_float64(standardize(z)), 0.0)
    np.testing.assert_array_equal(as_float64(standard_deviation(z)), 0.0)
    np.testing.assert_array_equal(as_float64(standard_deviation(z, 1.0)), 1.0)


def test_gradient_of_the_standard_deviation():
    weights = np.array([1.0, -2.0, 0.5])
    expected = finite_differences(lambda z: float((z.std(0) * weights).sum()), Z)
    ours = gradient_of(
        lambda z: ops.dot(standard_deviation(z), weights.astype("float32")), Z
    )
    np.testing.assert_allclose(ours, expected, rtol=1e-4, atol=1e-6)


def test_a_constant_latent_has_a_zero_gradient_not_nan():
    z = Z.copy()
    z[:, 1] = 2.0
    ours = gradient_of(lambda z: ops.sum(ops.square(standard_deviation(z))), z)
    assert np.all(ours[:, 1] == 0)
    assert np.all(ours[:, 0] != 0)
