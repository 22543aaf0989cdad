"""Passes over the whole dataset, each in a new order."""

import functools

import numpy as np

from qlayers.datasets.factor_space import FactorSpace, IntArray
from qlayers.datasets.samplers.sampler import Sampler, random_generator

# Keeps the permutations of the epoch that ends and the one that begins.
_CACHED_EPOCHS = 4


@functools.lru_cache(maxsize=_CACHED_EPOCHS)
def _epoch_order(num_images: int, seed: int, epoch: int) -> IntArray:
    return random_generator(seed, epoch, purpose=1).permutation(num_images)


class ShuffledSampler(Sampler):
    """Shows every image once per epoch, in an order that changes with the epoch.

    The order is a full random permutation rather than a shuffle buffer's window, and
    batches run across the border between epochs, so none is ever short.

    Reference:
        Hsu et al. 2023 train on such passes (their code shuffles in a buffer of
        100,000 images).
    """

    def batch(
        self, space: FactorSpace, num_images: int, seed: int, step: int, size: int
    ) -> IntArray:
        positions = np.arange(step * size, (step + 1) * size, dtype=np.int64)
        epochs, offsets = np.divmod(positions, num_images)
        index = np.empty(size, np.int64)
        for epoch in np.unique(epochs):
            here = epochs == epoch
            index[here] = _epoch_order(num_images, seed, int(epoch))[offsets[here]]
        return space.sources_of(index)
