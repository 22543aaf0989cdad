"""Aggregates of runs against SciPy's and against cases that are known."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from studies.statistics import (
    interquartile_mean,
    probability_of_improvement,
    stratified_bootstrap,
)


@pytest.mark.parametrize("shape", [(5,), (5, 3), (8, 2), (3,)])
def test_interquartile_mean_is_scipys_trimmed_mean(shape):
    scores = np.random.default_rng(0).normal(size=shape)
    expected = stats.trim_mean(scores, 0.25, axis=None)
    assert interquartile_mean(scores) == pytest.approx(expected)


def test_one_run_that_diverged_does_not_move_it():
    assert interquartile_mean([0.5, 0.5, 0.5, 0.5, -1e9]) == 0.5


def test_probability_of_improvement_is_mann_and_whitneys_u():
    rng = np.random.default_rng(1)
    first, second = rng.integers(0, 5, (6, 3)), rng.integers(0, 5, (4, 3))
    each = [
        stats.mannwhitneyu(first[:, task], second[:, task]).statistic / 24
        for task in range(3)
    ]
    assert probability_of_improvement(first, second) == pytest.approx(np.mean(each))
    back = probability_of_improvement(second, first)
    assert back == pytest.approx(1 - np.mean(each))


def test_other_tasks_are_refused():
    with pytest.raises(ValueError, match="same tasks"):
        probability_of_improvement(np.ones((2, 3)), np.ones((2, 2)))


def test_bootstrap_covers_as_often_as_it_says():
    rng = np.random.default_rng(2)
    hits = 0
    for seed in range(200):
        sample = rng.normal(size=40)
        low, high = stratified_bootstrap(
            lambda x: x.mean(axis=(1, 2)), [sample], num_resamples=200, seed=seed
        )
        hits += low <= 0.0 <= high
    # 95 % nominal; percentile intervals of 40 values cover a little less. Three
    # standard errors around 93 % are 0.876 to 0.984.
    assert 0.876 <= hits / 200 <= 0.984


def test_runs_are_redrawn_within_their_task():
    scores = np.array([[0.0, 10.0], [1.0, 11.0], [2.0, 12.0]])
    seen = []
    stratified_bootstrap(
        lambda x: seen.append(x) or np.zeros(50), [scores], num_resamples=50, seed=3
    )
    (stacked,) = seen
    assert stacked.shape == (50, 3, 2)
    assert set(stacked[..., 0].ravel()) == {0.0, 1.0, 2.0}
    assert set(stacked[..., 1].ravel()) == {10.0, 11.0, 12.0}
    # Each task draws its own runs.
    assert np.any(stacked[..., 1] - stacked[..., 0] != 10.0)


@pytest.mark.parametrize("runs", [(3,), (5, 2)])
def test_resamples_have_the_aggregates_of_each(runs):
    rng = np.random.default_rng(5)
    tasks = runs[1:] or (1,)
    first, second = (rng.integers(0, 4, (6, count, *tasks)) for count in (runs[0], 4))
    together = probability_of_improvement(first, second)
    each = [
        np.mean(
            [
                stats.mannwhitneyu(one[:, task], other[:, task]).statistic
                / (len(one) * 4)
                for task in range(tasks[0])
            ]
        )
        for one, other in zip(first, second, strict=True)
    ]
    np.testing.assert_allclose(together, each)
    means = [stats.trim_mean(one, 0.25, axis=None) for one in first]
    np.testing.assert_allclose(interquartile_mean(first), means)


def test_a_statistic_of_all_resamples_at_once_is_refused():
    with pytest.raises(ValueError, match=r"20 resamples needs as many values.*\(\)"):
        stratified_bootstrap(np.mean, [[0.1, 0.2, 0.3]], num_resamples=20)


def test_bootstrap_is_repeatable():
    scores = np.random.default_rng(4).normal(size=(5, 2))
    first = stratified_bootstrap(interquartile_mean, [scores], seed=7)
    assert first == stratified_bootstrap(interquartile_mean, [scores], seed=7)
    assert first[0] < interquartile_mean(scores) < first[1]


def test_ends_of_five_runs_each_are_those_of_all_resamples():
    """Every resample with its probability instead of draws."""
    ours, theirs = [0.3, 0.5, 0.55, 0.7, 0.9], [0.2, 0.4, 0.45, 0.6, 0.8]
    draws = list(itertools.combinations_with_replacement(range(5), 5))
    weights = [
        math.factorial(5)
        / math.prod(math.factorial(draw.count(i)) for i in range(5))
        / 5**5
        for draw in draws
    ]
    above = np.greater.outer(ours, theirs)
    values, masses = [], []
    for one, p in zip(draws, weights, strict=True):
        for other, q in zip(draws, weights, strict=True):
            values.append(above[np.ix_(one, other)].mean())
            masses.append(p * q)
    order = np.argsort(values)
    total = np.cumsum(np.array(masses)[order])
    low, high = np.array(values)[order][np.searchsorted(total, [0.025, 0.975])]
    found = stratified_bootstrap(probability_of_improvement, [ours, theirs])
    assert found == pytest.approx((low, high))


def test_fewer_resamples_are_the_first_of_more():
    seen = []
    for count in (10, 30):
        stratified_bootstrap(
            lambda x, y: seen.append((x, y)) or np.zeros(len(x)),
            [[1.0, 2.0, 3.0], [4.0, 5.0]],
            num_resamples=count,
        )
    for few, many in zip(*seen, strict=True):
        np.testing.assert_array_equal(few, many[:10])
