"""Cliff's terms against loops in float64, scipy's densities and its own landscape."""

import keras
import numpy as np
import pytest
from keras import ops
from scipy import integrate, stats

from benchmarks.cliff_landscape import (
    bivariate,
    grid_density,
    landscapes,
    univariate,
)
from qlayers.functional import cliff_terms
from qlayers.functional.cliff_terms import kernel_heights, kernel_slopes
from tests.finite_differences import finite_differences
from tests.functional.cliff_reference import (
    reference_terms,
    reference_uniform_of_pairs,
    standardize,
)
from tests.gradients import as_float64, gradient_of

rng = np.random.default_rng(0)
MIXING = np.array([[1.0, 0.5, 0.0], [0.2, 1.0, 0.3], [0.0, -0.4, 1.0]])
Z = (rng.uniform(-1, 1, size=(30, 3)) @ MIXING + [0.0, 5.0, -1.0]).astype("float32")
CONDITIONS = np.array([3, 7, 11, 20])
POINTS = np.linspace(-1.7, 1.7, 40).astype("float32")
TERMS = ("univariate", "bivariate", "uniform")


def ours(z, **arguments):
    arguments = {"conditions": CONDITIONS, "uniform_points": POINTS, **arguments}
    return cliff_terms(z, **arguments)


@pytest.mark.backends
@pytest.mark.parametrize(
    "settings",
    [{}, {"bandwidth": 0.3}, {"num_grid": 61, "grid_limit": 3.0, "bandwidth": 0.5}],
)
def test_values_are_the_formulas(settings):
    expected = reference_terms(Z, CONDITIONS, POINTS.astype("float64"), **settings)
    values = ours(Z, **settings)
    assert set(values) == set(expected)
    for name, value in values.items():
        np.testing.assert_allclose(
            as_float64(value), expected[name], rtol=1e-4, err_msg=name
        )


@pytest.mark.backends
def test_the_bandwidth_may_be_a_tensor():
    expected, values = (
        ours(Z, bandwidth=0.3),
        ours(Z, bandwidth=ops.cast(0.3, "float32")),
    )
    for name, value in values.items():
        np.testing.assert_allclose(
            as_float64(value), as_float64(expected[name]), rtol=1e-5, err_msg=name
        )


@pytest.mark.backends
@pytest.mark.parametrize("term", TERMS)
def test_gradients_are_those_of_the_formulas(term):
    settings = {"bandwidth": 0.4, "num_grid": 50}

    def reference(z):
        points = POINTS.astype("float64")
        return reference_terms(z, CONDITIONS, points, **settings)[term]

    expected = finite_differences(reference, Z)
    gradient = gradient_of(lambda z: ours(z, terms=[term], **settings)[term], Z)
    scale = np.abs(expected).max()
    np.testing.assert_allclose(gradient, expected, rtol=5e-3, atol=5e-3 * scale)


def test_scipy_agrees_on_the_densities_and_their_slopes():
    u = standardize(Z)
    grid = np.linspace(-2, 2, 21)
    kde = stats.gaussian_kde(u[:, 0], bw_method=0.3 / u[:, 0].std(ddof=1))
    heights = as_float64(
        kernel_heights(u.T.astype("float32"), grid[None].astype("float32"), 0.3)
    )[0]
    norm = 0.3 * np.sqrt(2 * np.pi)
    np.testing.assert_allclose(heights.mean(-1) / norm, kde(grid), rtol=1e-4)
    slopes = as_float64(
        kernel_slopes(u.T.astype("float32"), grid.astype("float32"), 0.3)
    )
    step = 1e-5
    derivative = (kde(grid + step) - kde(grid - step)) / (2 * step)
    np.testing.assert_allclose(
        slopes[0].mean(-1) * np.sqrt(2) / (norm * 0.3), derivative, rtol=1e-3, atol=1e-5
    )


def test_scipy_agrees_on_the_divergence_from_the_uniform():
    """The constant of equation 7 is -log(2 sqrt 3): KL by quadrature says so."""
    u = standardize(Z)
    half_width = np.sqrt(3)
    expected = 0.0
    for column in u.T:
        kde = stats.gaussian_kde(column, bw_method=0.3 / column.std(ddof=1))
        density = 1 / (2 * half_width)
        expected += integrate.quad(
            lambda x, kde=kde, density=density: (
                density * (np.log(density) - float(kde.logpdf(x)[0]))
            ),
            -half_width,
            half_width,
            limit=200,
        )[0]
    points = np.linspace(-half_width, half_width, 4001)
    middles = (0.5 * (points[1:] + points[:-1])).astype("float32")
    value = cliff_terms(Z, bandwidth=0.3, uniform_points=middles, terms=["uniform"])
    np.testing.assert_allclose(as_float64(value["uniform"]), expected, rtol=1e-4)
    assert expected > 0


@pytest.mark.backends
def test_uniform_is_least_for_a_uniform():
    even = np.linspace(-1, 1, 200, dtype="float32")[:, None]
    peaked = np.sign(even) + 0.1 * even
    values = [
        as_float64(cliff_terms(z, terms=["uniform"], uniform_points=POINTS)["uniform"])
        for z in (even, peaked)
    ]
    assert 0 < values[0] < 0.05
    assert values[1] > 1


@pytest.mark.backends
def test_scale_and_offset_of_the_latents_do_not_matter():
    values = ours(Z)
    moved = ours((Z * [1e-6, 1.0, 1e6] + [0.0, 3.0, 0.0]).astype("float32"))
    for name in TERMS:
        np.testing.assert_allclose(
            as_float64(moved[name]), as_float64(values[name]), rtol=1e-3
        )


@pytest.mark.backends
def test_only_the_wanted_terms_are_computed():
    assert set(ours(Z, terms=["uniform"])) == {"uniform"}
    assert set(ours(Z, terms=["bivariate"])) == {"bivariate"}


@pytest.mark.backends
def test_random_choices_average_to_the_full_ones():
    full = cliff_terms(
        Z, conditions=np.arange(30), uniform_points=np.linspace(-1.73, 1.73, 500)
    )
    generator = keras.random.SeedGenerator(0)
    draws = [
        cliff_terms(
            Z, seed=generator, num_conditions=30, terms=["bivariate", "uniform"]
        )
        for _ in range(20)
    ]
    # All samples condition: their order must not matter.
    for draw in draws:
        np.testing.assert_allclose(
            as_float64(draw["bivariate"]), as_float64(full["bivariate"]), rtol=1e-4
        )
    uniform = np.array([float(draw["uniform"]) for draw in draws])
    error = uniform.std() / np.sqrt(len(draws))
    assert abs(uniform.mean() - float(full["uniform"])) < 4 * error + 0.05
    assert uniform.std() > 0


@pytest.mark.backends
def test_fewer_samples_than_conditions():
    values = cliff_terms(Z[:5], num_conditions=20, seed=0)
    expected = cliff_terms(Z[:5], conditions=np.arange(5), terms=["bivariate"])
    np.testing.assert_allclose(
        as_float64(values["bivariate"]), as_float64(expected["bivariate"]), rtol=1e-4
    )


PLANE = rng.uniform(-np.sqrt(3), np.sqrt(3), size=(25, 2)).astype("float32")


def of_pairs(z, **arguments):
    settings = {"uniform_points": PLANE, "bandwidth": 0.3, **arguments}
    return cliff_terms(z, terms=["uniform"], uniform_dimensions=2, **settings)[
        "uniform"
    ]


@pytest.mark.backends
def test_divergence_of_pairs_from_the_uniform_on_a_square():
    """Appendix F.5, values and gradients."""
    plane = PLANE.astype("float64")
    expected = reference_uniform_of_pairs(Z, plane, 0.3)
    np.testing.assert_allclose(as_float64(of_pairs(Z)), expected, rtol=1e-4)
    gradient = gradient_of(of_pairs, Z[:8])
    slopes = finite_differences(
        lambda z: reference_uniform_of_pairs(z, plane[:25], 0.3), Z[:8]
    )
    np.testing.assert_allclose(
        gradient, slopes, rtol=5e-3, atol=5e-3 * np.abs(slopes).max()
    )


@pytest.mark.backends
def test_divergence_of_pairs_sees_a_support_that_does_not_factorize():
    """Both squares have uniform latents; one of them is filled along its diagonal."""
    side = np.linspace(-1, 1, 15, dtype="float32")
    filled = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    diagonal = np.repeat(side, 15)[:, None] * np.ones((1, 2), "float32")
    one = [
        as_float64(cliff_terms(z, terms=["uniform"], uniform_points=POINTS)["uniform"])
        for z in (filled, diagonal)
    ]
    np.testing.assert_allclose(*one, rtol=1e-3)
    two = [float(as_float64(of_pairs(z, bandwidth=0.1))) for z in (filled, diagonal)]
    assert 0 <= two[0] < 1 and two[1] > 10 * max(two[0], 0.5)
    # Far from all samples single precision knows no density, but its logarithm.
    assert np.isfinite(two).all()
    assert float(as_float64(of_pairs(Z[:, :1]))) == 0.0


@pytest.mark.backends
def test_divergence_of_pairs_leaves_masked_samples_out():
    weights = np.array([1.0] * 20 + [0.0] * 10, "float32")
    padded = np.concatenate([Z[:20], np.tile(Z[:1], (10, 1))])
    np.testing.assert_allclose(
        as_float64(of_pairs(padded, weights=weights)),
        as_float64(of_pairs(Z[:20])),
        rtol=1e-4,
    )


@pytest.mark.backends
def test_random_points_of_the_square_average_to_the_even_ones():
    middles = (np.arange(60) + 0.5) / 60 * 2 * np.sqrt(3) - np.sqrt(3)
    even = np.stack(np.meshgrid(middles, middles), axis=-1).reshape(-1, 2)
    expected = float(as_float64(of_pairs(Z, uniform_points=even.astype("float32"))))
    draws = [
        float(as_float64(of_pairs(Z, uniform_points=None, num_grid=2000, seed=seed)))
        for seed in range(4)
    ]
    error = np.std(draws, ddof=1) / 2
    assert abs(np.mean(draws) - expected) < 5 * error + 0.02 * expected
    assert np.std(draws) > 0
    with pytest.raises(ValueError, match="uniform_dimensions"):
        cliff_terms(Z, uniform_dimensions=3)


def test_landscape_of_appendix_d():
    z = grid_density()
    angles = np.arange(0, 180, 10)
    one = [univariate(z, angle) for angle in angles]
    assert set(angles[np.argsort(one)[:2]]) == {0, 90}

    coarse = np.arange(0, 180, 15)
    _, two = landscapes(z, coarse)
    first, second = np.unravel_index(two.argmin(), two.shape)
    assert {coarse[first], coarse[second]} == {0, 90}
    assert two.min() < 0.5 * min(bivariate(z, 0, 0), bivariate(z, 90, 90))


def test_matrix_product_is_the_only_pairwise_work(monkeypatch):
    shapes = []
    matmul = ops.matmul

    def spy(a, b):
        shapes.append((tuple(a.shape), tuple(b.shape)))
        return matmul(a, b)

    monkeypatch.setattr(ops, "matmul", spy)
    cliff_terms(Z, num_grid=50, num_conditions=7, seed=0)
    assert shapes == [((3 * 50, 30), (30, 3 * 7))]
