"""The Hausdorff distance against a search over all triples of samples."""

import itertools

import numpy as np
import pytest

from qlayers.functional import hausdorff_factorized_support
from tests.finite_differences import finite_differences
from tests.gradients import as_float64, gradient_of

pytestmark = pytest.mark.backends
rng = np.random.default_rng(0)
Z = rng.normal(size=(9, 4)).astype("float32")
ALL_PAIRS = np.array(list(itertools.combinations(range(4), 2)))


def reference(z, pairs=ALL_PAIRS):
    total = 0.0
    for i, j in pairs:
        farthest = 0.0
        for a, b in itertools.product(range(len(z)), repeat=2):
            squares = (z[a, i] - z[:, i]) ** 2 + (z[b, j] - z[:, j]) ** 2
            farthest = max(farthest, squares.min())
        total += farthest
    return total


def test_value_over_all_pairs():
    expected = reference(Z.astype("float64"))
    for num_pairs in (6, 25):
        value = hausdorff_factorized_support(Z, num_pairs)
        np.testing.assert_allclose(as_float64(value), expected, rtol=1e-5)


def test_value_of_given_pairs():
    pairs = np.array([[0, 3], [2, 1]])
    value = hausdorff_factorized_support(Z, pairs=pairs)
    expected = reference(Z.astype("float64"), pairs)
    np.testing.assert_allclose(as_float64(value), expected, rtol=1e-5)


def test_gradient_reaches_both_sides():
    expected = finite_differences(reference, Z)
    ours = gradient_of(hausdorff_factorized_support, Z)
    np.testing.assert_allclose(ours, expected, rtol=1e-3, atol=1e-4)


def test_random_pairs_are_distinct_and_differ():
    singles = {
        round(reference(Z.astype("float64"), [pair]), 4): tuple(pair)
        for pair in ALL_PAIRS
    }
    seen = set()
    for seed in range(12):
        value = round(float(hausdorff_factorized_support(Z, 1, seed=seed)), 4)
        seen.add(min(singles, key=lambda s: abs(s - value)))
        assert min(abs(s - value) for s in singles) < 1e-3
    assert len(seen) >= 3
    # Five of six pairs without repetition: all but one.
    value = float(hausdorff_factorized_support(Z, 5, seed=0))
    total = sum(singles)
    assert min(abs(total - s - value) for s in singles) < 1e-3


def test_a_product_set_has_distance_zero():
    grid = np.stack(np.meshgrid([0.0, 1.0, 5.0], [2.0, 3.0]), -1).reshape(-1, 2)
    value = hausdorff_factorized_support(grid.astype("float32"))
    assert as_float64(value) == 0.0
    # Without one corner, the missing corner's distance to its neighbour.
    value = hausdorff_factorized_support(grid[:-1].astype("float32"))
    np.testing.assert_allclose(as_float64(value), 1.0)


def test_one_latent_is_refused():
    with pytest.raises(ValueError, match="two"):
        hausdorff_factorized_support(Z[:, :1])
