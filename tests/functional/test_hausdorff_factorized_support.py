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


def many_samples(kind, num_samples):
    """Latents whose farthest combination is in a corner, a gap or anywhere."""
    draw = np.random.default_rng(7)
    z = {
        "normal": lambda: draw.normal(size=(num_samples, 3)),
        "uniform": lambda: draw.uniform(size=(num_samples, 3)),
        "heavy tails": lambda: draw.standard_t(1.5, size=(num_samples, 3)),
        "diagonal": lambda: (
            draw.normal(size=(num_samples, 1))
            + 0.05 * draw.normal(size=(num_samples, 3))
        ),
        "clusters": lambda: (
            draw.integers(3, size=(num_samples, 3))
            + 0.01 * draw.normal(size=(num_samples, 3))
        ),
    }[kind]()
    return z.astype("float32")


def deciding_samples(z, i, j):
    """The three samples that decide a pair, by distances of all triples."""
    u, v = z[:, i].astype("float64"), z[:, j].astype("float64")
    first = (u[:, None] - u) ** 2
    second = (v[:, None] - v) ** 2
    nearest = np.stack([(line + second).argmin(-1) for line in first])
    values = np.stack([(line + second).min(-1) for line in first])
    a, b = np.unravel_index(values.argmax(), values.shape)
    return a, b, nearest[a, b]


@pytest.mark.parametrize(
    "kind", ["normal", "uniform", "heavy tails", "diagonal", "clusters"]
)
@pytest.mark.parametrize(
    "num_samples", [1, 65, pytest.param(200, marks=pytest.mark.slow)]
)
def test_search_in_cells_finds_the_samples_of_an_exhaustive_one(kind, num_samples):
    z = many_samples(kind, num_samples)
    expected, gradient = 0.0, np.zeros(z.shape)
    for i, j in itertools.combinations(range(3), 2):
        a, b, k = deciding_samples(z, i, j)
        wide = z.astype("float64")
        along, across = wide[a, i] - wide[k, i], wide[b, j] - wide[k, j]
        expected += along**2 + across**2
        for row, latent, value in ((a, i, along), (b, j, across)):
            gradient[row, latent] += 2 * value
            gradient[k, latent] -= 2 * value
    value = as_float64(hausdorff_factorized_support(z))
    np.testing.assert_allclose(value, expected, rtol=1e-5, atol=1e-12)
    ours = gradient_of(hausdorff_factorized_support, z)
    np.testing.assert_allclose(ours, gradient, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_samples_that_are_not_finite_show_in_the_value(bad):
    for latent in (0, 1):
        z = many_samples("normal", 150)[:, :2]
        z[97, latent] = bad
        assert not np.isfinite(as_float64(hausdorff_factorized_support(z)))


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
