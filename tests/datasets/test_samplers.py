"""Samplers against their definitions and SciPy's tests of fit."""

import itertools

import numpy as np
import pytest
from scipy import stats

from qlayers.datasets import FactorSpace
from qlayers.datasets.samplers import (
    CorrelatedSampler,
    FixedFactorSampler,
    RestrictedSampler,
    ShuffledSampler,
    SubsetSampler,
    UniformSampler,
)

SPACE = FactorSpace(("a", "b", "c"), (4, 5, 3))


def _draw(sampler, size, seed=0, step=0, num_images=60, space=SPACE):
    return sampler.batch(space, num_images, seed, step, size)


def test_numbering_runs_through_the_grid_last_factor_first():
    grid = np.array(list(itertools.product(range(4), range(5), range(3))))
    np.testing.assert_array_equal(SPACE.index_of(grid), np.arange(60))
    np.testing.assert_array_equal(SPACE.sources_of(np.arange(60)), grid)


def test_uniform_draws_fit_the_uniform_distribution():
    counts = np.bincount(SPACE.index_of(_draw(UniformSampler(), 30_000)), minlength=60)
    assert stats.chisquare(counts).pvalue > 1e-3


def test_uniform_batches_of_one_stream_are_independent():
    first, second = (_draw(UniformSampler(), 3000, step=s) for s in (0, 1))
    table = np.histogram2d(first[:, 1], second[:, 1], bins=5)[0]
    assert stats.chi2_contingency(table).pvalue > 1e-3


def test_uniform_stays_within_a_partial_file():
    index = SPACE.index_of(_draw(UniformSampler(), 2000, num_images=17))
    assert set(index) == set(range(17))


def test_shuffled_shows_each_image_once_per_epoch_across_batch_borders():
    stream = np.concatenate(
        [SPACE.index_of(_draw(ShuffledSampler(), 7, step=s)) for s in range(18)]
    )
    epochs = stream[:120].reshape(2, 60)
    for epoch in epochs:
        np.testing.assert_array_equal(np.sort(epoch), np.arange(60))
    assert not np.array_equal(epochs[0], epochs[1])
    assert not np.array_equal(epochs[0], np.arange(60))


def test_restricted_draws_uniformly_from_what_is_allowed():
    sampler = RestrictedSampler(
        {"b": [1, 3]}, keep=lambda s: ~((s[:, 0] == 2) & (s[:, 1] == 3))
    )
    drawn = _draw(sampler, 20_000)
    allowed = [
        g
        for g in itertools.product(range(4), [1, 3], range(3))
        if not (g[0] == 2 and g[1] == 3)
    ]
    counts = np.bincount(SPACE.index_of(drawn), minlength=60)
    expected = SPACE.index_of(np.array(allowed))
    assert set(np.flatnonzero(counts)) == set(expected)
    assert stats.chisquare(counts[expected]).pvalue > 1e-3


def test_correlated_draws_fit_the_stated_joint():
    space = FactorSpace(("a", "b", "c"), (4, 5, 3))
    sigma = 0.25
    drawn = _draw(CorrelatedSampler({("a", "b"): sigma}), 40_000, space=space)
    joint = np.array(
        [
            [np.exp(-((i / 3 - j / 4) ** 2) / (2 * sigma**2)) for j in range(5)]
            for i in range(4)
        ]
    )
    joint /= joint.sum()
    counts = np.histogram2d(drawn[:, 0], drawn[:, 1], bins=(4, 5))[0]
    assert stats.chisquare(counts.ravel(), 40_000 * joint.ravel()).pvalue > 1e-3
    other = np.histogram2d(drawn[:, 0], drawn[:, 2], bins=(4, 3))[0]
    assert stats.chi2_contingency(other).pvalue > 1e-3


def test_tight_correlation_does_not_underflow():
    drawn = _draw(CorrelatedSampler({("a", "b"): 1e-3}), 100)
    assert set(map(tuple, drawn[:, :2])) <= {(0, 0), (3, 4)}


@pytest.mark.parametrize(
    "sampler",
    [
        UniformSampler(),
        ShuffledSampler(),
        FixedFactorSampler("a"),
        RestrictedSampler({"a": [0, 1]}),
        CorrelatedSampler({("a", "b"): 0.3}),
    ],
    ids=lambda s: type(s).__name__,
)
def test_a_batch_depends_on_seed_and_step_only(sampler):
    reference = _draw(sampler, 40, seed=1, step=3)
    _draw(sampler, 40, seed=1, step=4)
    np.testing.assert_array_equal(reference, _draw(sampler, 40, seed=1, step=3))
    assert not np.array_equal(reference, _draw(sampler, 40, seed=1, step=4))
    assert not np.array_equal(reference, _draw(sampler, 40, seed=2, step=3))
    assert reference.dtype == np.int64
    assert reference.shape == (40, 3)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: _draw(RestrictedSampler({"a": []}), 3), "allowed values"),
        (lambda: _draw(RestrictedSampler({"a": [4]}), 3), "0 to 3"),
        (lambda: _draw(RestrictedSampler({"z": [0]}), 3), "Unknown factor"),
        (
            lambda: _draw(RestrictedSampler(keep=lambda s: s[:, 0] < 0), 3),
            "allows too few",
        ),
        (lambda: CorrelatedSampler({("a", "b"): 0.0}), "positive"),
        (
            lambda: _draw(CorrelatedSampler({("a", "b"): 1, ("b", "c"): 1}), 3),
            "one pair only",
        ),
        (lambda: _draw(FixedFactorSampler("a"), 3, num_images=20), "20 of 60"),
        (lambda: FactorSpace(("a",), (2, 3)), "one size per factor"),
        (lambda: FactorSpace(("a", "a"), (2, 3)), "differ"),
        (lambda: FactorSpace(("a",), (2,), (("x",),)), "1 names"),
        (lambda: SPACE.sources_of([60]), "0 to 59"),
    ],
)
def test_bad_settings_are_explained(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_subset_sampler_draws_from_one_part_whatever_the_stream():
    """4 of 5 images, the same ones for every seed of the stream."""
    sampler = SubsetSampler(0.8)
    parts = []
    for seed in (0, 1):
        drawn = sampler.batch(SPACE, SPACE.num_combinations, seed, 0, 5_000)
        parts.append(set(SPACE.index_of(drawn).tolist()))
    assert parts[0] == parts[1]
    assert len(parts[0]) == int(0.8 * SPACE.num_combinations)
    # A random part, not the first.
    assert max(parts[0]) >= int(0.8 * SPACE.num_combinations)
    other = SubsetSampler(0.8, seed=2)
    drawn = other.batch(SPACE, SPACE.num_combinations, 0, 0, 5_000)
    assert set(SPACE.index_of(drawn).tolist()) != parts[0]
    with pytest.raises(ValueError, match="fraction"):
        SubsetSampler(0.0)
