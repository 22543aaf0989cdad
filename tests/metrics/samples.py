"""Samples whose scores are known, and noisy ones for comparisons."""

import itertools

import numpy as np

from benchmarks.metrics import make_sample


def full_grid(sizes, repeats=1):
    """Every combination of source values equally often: exactly independent."""
    grid = np.array(list(itertools.product(*[range(size) for size in sizes])))
    return np.tile(grid, (repeats, 1))


def noisy(sizes=(10, 10, 10, 8, 4, 15), samples=2000, seed=0, values=None):
    """Sources, and twice as many latents that mix some of them with noise."""
    sources, latents = make_sample(sizes, samples, seed=seed)
    if values is not None:
        latents = np.round((latents + 1) / 2 * (values - 1))
    return sources, latents


class SilentRandomState(np.random.RandomState):
    """Switches off the noise that scikit-learn adds to continuous features."""

    def standard_normal(self, size=None):
        return np.zeros(size)
