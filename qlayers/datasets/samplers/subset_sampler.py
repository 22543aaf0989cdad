"""Draws from a random part of the dataset, always the same one."""

import functools

import numpy as np

from qlayers.datasets.factor_space import FactorSpace, IntArray
from qlayers.datasets.samplers.sampler import Sampler, random_generator


@functools.lru_cache(maxsize=2)
def _chosen(num_images: int, fraction: float, seed: int) -> IntArray:
    order = np.random.default_rng(seed).permutation(num_images)
    return order[: max(1, int(fraction * num_images))]


class SubsetSampler(Sampler):
    """Draws independently and uniformly from a fixed random part of the images.

    Args:
        fraction: share of the images that the part holds, above 0 and at most 1.
        seed: seed of the choice; it does not depend on that of the stream.

    Reference:
        Baykal et al.'s public code trains on a random 80 % of each dataset.
    """

    def __init__(self, fraction: float, seed: int = 1) -> None:
        if not 0 < fraction <= 1:
            raise ValueError(
                f"`fraction` must be above 0 and at most 1, received {fraction!r}."
            )
        self.fraction = fraction
        self.seed = seed

    def batch(
        self, space: FactorSpace, num_images: int, seed: int, step: int, size: int
    ) -> IntArray:
        part = _chosen(num_images, self.fraction, self.seed)
        picked = random_generator(seed, step).integers(0, len(part), size)
        return space.sources_of(part[picked])
