"""The gap in the support against plain NumPy with the same points."""

import numpy as np
import pytest

from qlayers.functional import independent_support
from tests.finite_differences import finite_differences
from tests.gradients import as_float64, gradient_of

pytestmark = pytest.mark.backends
rng = np.random.default_rng(0)
Z = (rng.normal(size=(40, 3)) * [1.0, 5.0, 0.1]).astype("float32")
POINTS = rng.uniform(size=(300, 3)).astype("float32")


def reference(z, points=POINTS, trim=0.01):
    z = np.asarray(z, "float64")
    unit = (z - z.min(0)) / (z.max(0) - z.min(0))
    ordered = np.sort(unit, axis=0)
    k = int(trim * len(z)) + 1
    low, high = ordered[k - 1], ordered[-k]
    placed = low + points.astype("float64") * (high - low)
    nearest = np.linalg.norm(placed[:, None] - unit[None], axis=-1).min(1)
    return np.sort(nearest)[-(int(trim * len(points)) + 1)]


@pytest.mark.parametrize("trim", [0.0, 0.01, 0.05, 0.1, 0.4])
def test_value(trim):
    value = independent_support(Z, trim=trim, points=POINTS)
    expected = reference(Z, trim=trim)
    np.testing.assert_allclose(as_float64(value), expected, rtol=1e-4)


def test_trim_counts_whole_numbers_exactly():
    """0.01 * 100 and 0.01 * 300 are 1 and 3, whatever their floating-point error."""
    z = rng.normal(size=(100, 2)).astype("float32")
    points = rng.uniform(size=(300, 2)).astype("float32")
    np.testing.assert_allclose(
        as_float64(independent_support(z, points=points)),
        reference(z, points),
        rtol=1e-4,
    )


@pytest.mark.parametrize("trim", [0.0, 0.05])
def test_gradient_through_rescaling_box_and_nearest_sample(trim):
    expected = finite_differences(lambda z: reference(z, trim=trim), Z, step=1e-6)
    ours = gradient_of(lambda z: independent_support(z, trim=trim, points=POINTS), Z)
    np.testing.assert_allclose(ours, expected, rtol=2e-3, atol=1e-4)


def test_scale_of_a_latent_does_not_matter():
    value = as_float64(independent_support(Z, points=POINTS))
    moved = (Z * [1e-12, 1.0, 1e12]).astype("float32")
    np.testing.assert_allclose(
        as_float64(independent_support(moved, points=POINTS)), value, rtol=1e-3
    )


def test_a_filled_box_has_smaller_gaps_than_a_diagonal():
    filled = rng.uniform(size=(400, 2)).astype("float32")
    diagonal = np.repeat(filled[:, :1], 2, axis=1)
    small = as_float64(independent_support(filled, 2000, seed=0))
    large = as_float64(independent_support(diagonal, 2000, seed=0))
    assert small < 0.15
    # The corner of the unit box is 1 / sqrt 2 away from the diagonal.
    assert 0.5 < large < np.sqrt(0.5)
