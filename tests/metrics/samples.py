"""Samples whose scores are known, and noisy ones for comparisons."""

import itertools

import numpy as np


def full_grid(sizes, repeats=1):
    """Every combination of source values equally often: exactly independent."""
    grid = np.array(list(itertools.product(*[range(size) for size in sizes])))
    return np.tile(grid, (repeats, 1))


def noisy(sizes=(10, 10, 10, 8, 4, 15), samples=2000, seed=0, values=None):
    """Sources, and twice as many latents that mix some of them with noise."""
    generator = np.random.default_rng(seed)
    sources = np.stack([generator.integers(0, k, samples) for k in sizes], axis=1)
    scaled = (sources - sources.mean(axis=0)) / sources.std(axis=0)
    shape = (len(sizes), 2 * len(sizes))
    mixing = generator.normal(size=shape) * (generator.random(shape) < 0.4)
    noise = generator.normal(size=(samples, shape[1]))
    latents = np.tanh(scaled @ mixing + 0.3 * noise)
    if values is not None:
        latents = np.round((latents + 1) / 2 * (values - 1))
    return sources, latents


class SilentRandomState(np.random.RandomState):
    """Switches off the noise that scikit-learn adds to continuous features."""

    def standard_normal(self, size=None):
        return np.zeros(size)
