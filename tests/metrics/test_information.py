"""Discrete and nearest-neighbour mutual information against scikit-learn."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import digamma
from sklearn.feature_selection import mutual_info_classif
from sklearn.metrics import mutual_info_score

from qlayers.metrics import information
from qlayers.metrics.neighbors import neighbor_information
from tests.metrics.samples import SilentRandomState, full_grid, noisy


def pairs(function, sources, latents):
    return np.array([[function(s, z) for z in latents.T] for s in sources.T])


def reference_ksg(sources, latents, k, random_state):
    return np.stack(
        [
            mutual_info_classif(latents, s, n_neighbors=k, random_state=random_state)
            for s in sources.T
        ]
    )


def ross_by_definition(labels, values, k):
    kept = np.bincount(labels)[labels] > 1
    labels, values = labels[kept], values[kept]
    terms = []
    for label, value in zip(labels, values, strict=True):
        same = np.sort(np.abs(values[labels == label] - value))
        neighbors = min(k, len(same) - 1)
        nearer = np.sum(np.abs(values - value) < same[neighbors])
        terms.append(digamma(neighbors) - digamma(len(same)) - digamma(nearer))
    return max(0.0, digamma(len(labels)) + np.mean(terms))


class TestDiscrete:
    @pytest.mark.parametrize("values", [2, 10, 64])
    def test_agrees_with_scikit_learn(self, values):
        sources, latents = noisy(values=values)
        found = information.mutual_information(
            information.symbol_table(sources), information.symbol_table(latents)
        )
        expected = pairs(mutual_info_score, sources, latents)
        np.testing.assert_allclose(found, expected, atol=1e-9)

    def test_more_cells_than_fit_a_table(self):
        # 2,000 distinct values x 400 classes: counted by sorting instead.
        generator = np.random.default_rng(0)
        sources = generator.integers(0, 400, (2000, 2))
        latents = generator.normal(size=(2000, 2))
        found = information.mutual_information(
            information.symbol_table(sources), information.symbol_table(latents)
        )
        labels = information.symbol_table(latents)
        expected = pairs(mutual_info_score, sources, labels)
        np.testing.assert_allclose(found, expected, atol=1e-9)

    def test_independent_grid_is_exactly_zero(self):
        grid = full_grid((4, 5))
        found = information.mutual_information(grid[:, :1], grid[:, 1:])
        assert found[0, 0] == pytest.approx(0.0, abs=1e-14)

    def test_entropy(self):
        # 1/2, 1/4, 1/4: 1.5 bits.
        column = np.array([0, 0, 1, 2])[:, None]
        assert information.entropy(column)[0] == pytest.approx(1.5 * np.log(2))

    @settings(max_examples=30, deadline=None)
    @given(st.lists(st.integers(-5, 5), min_size=1, max_size=30))
    def test_symbols_number_values_in_order(self, values):
        column = np.array(values)
        expected = np.unique(column, return_inverse=True)[1]
        np.testing.assert_array_equal(information.symbols(column), expected)
        floats = information.symbols(column.astype(float))
        np.testing.assert_array_equal(floats, expected)

    def test_symbols_of_widely_spaced_integers(self):
        column = np.array([10**15, -(10**15), 7, 10**15])
        np.testing.assert_array_equal(information.symbols(column), [2, 0, 1, 2])

    def test_bins_are_those_of_histogram_and_digitize(self):
        _, latents = noisy(samples=500)
        latents[:, 0] = 3.0
        found = information.equal_width_bins(latents, 20)
        for column, expected in zip(latents.T, found.T, strict=True):
            edges = np.histogram(column, 20)[1][:-1]
            np.testing.assert_array_equal(np.digitize(column, edges) - 1, expected)


class TestNeighbors:
    @pytest.mark.parametrize("k", [1, 3, 10])
    def test_agrees_without_noise(self, k):
        sources, latents = noisy()
        found = neighbor_information(sources, latents, k, noise=0.0)
        expected = reference_ksg(sources, latents, k, SilentRandomState())
        np.testing.assert_allclose(found, expected, atol=1e-6)

    def test_agrees_with_the_noise_of_the_same_seed(self):
        sources, latents = noisy(seed=3)
        found = neighbor_information(sources, latents, 3, seed=11)
        expected = reference_ksg(sources, latents, 3, 11)
        np.testing.assert_allclose(found, expected, atol=1e-6)

    def test_agrees_on_equal_values_without_noise(self):
        # Distances of zero and whole runs of ties at the k-th neighbour.
        sources, latents = noisy(values=10)
        found = neighbor_information(sources, latents, 3, noise=0.0)
        expected = reference_ksg(sources, latents, 3, SilentRandomState())
        np.testing.assert_allclose(found, expected, atol=1e-6)

    def test_agrees_far_from_the_origin(self):
        # x + d no longer has the digits that tell the k-th neighbour.
        sources, latents = noisy()
        latents = latents + 1e6
        found = neighbor_information(sources, latents, 3, noise=0.0)
        expected = reference_ksg(sources, latents, 3, SilentRandomState())
        np.testing.assert_allclose(found, expected, atol=1e-6)

    def test_small_and_single_classes(self):
        # Classes of 1 (left out), 2 and 3 samples (fewer than k neighbours). Here
        # scikit-learn searches small classes by |x|^2 - 2xy + |y|^2, whose rounding
        # misplaces the k-th neighbour; the definition itself is the reference.
        generator = np.random.default_rng(0)
        labels = np.repeat([0, 1, 2, 3, 4], [1, 2, 3, 40, 60])
        latents = generator.normal(size=(len(labels), 4))
        found = neighbor_information(labels[:, None], latents, 5, noise=0.0)
        scaled = latents / latents.std(axis=0)
        expected = [ross_by_definition(labels, column, 5) for column in scaled.T]
        np.testing.assert_allclose(found[0], expected, atol=1e-12)

    def test_separate_clusters_have_a_closed_form(self):
        # No other class is nearer than the k-th neighbour, so m = k and the estimate
        # is psi(N) - psi(N / K) whatever the positions.
        generator = np.random.default_rng(0)
        labels = np.repeat(np.arange(5), 100)
        latents = labels * 10 + generator.uniform(size=500)
        found = neighbor_information(labels[:, None], latents[:, None], 3)[0, 0]
        assert found == pytest.approx(digamma(500) - digamma(100), abs=1e-9)

    def test_every_class_single_gives_zero(self):
        labels = np.arange(10)[:, None]
        found = neighbor_information(labels, np.arange(10.0)[:, None], 3)
        assert found[0, 0] == 0.0

    def test_gaussian_classes_against_the_integral(self):
        # Two unit Gaussians at -1 and +1: I = log 2 - E[log(1 + exp(-2 x))], x~N(1,1).
        grid = np.linspace(-9, 11, 200001)
        density = np.exp(-((grid - 1) ** 2) / 2) / np.sqrt(2 * np.pi)
        excess = np.trapezoid(density * np.logaddexp(0, -2 * grid), grid)
        generator = np.random.default_rng(0)
        labels = generator.integers(0, 2, 40000)
        latents = 2 * labels - 1 + generator.normal(size=40000)
        found = neighbor_information(labels[:, None], latents[:, None], 3)[0, 0]
        assert found == pytest.approx(np.log(2) - excess, abs=0.02)
