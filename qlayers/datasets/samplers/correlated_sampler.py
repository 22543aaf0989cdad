"""Draws in which two factors depend on each other."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from qlayers.datasets.factor_space import FactorSpace, IntArray
from qlayers.datasets.samplers.sampler import Sampler, random_generator


class CorrelatedSampler(Sampler):
    """Correlates pairs of factors; the remaining factors stay independent.

    The joint probability of the values a, b of a pair with n and m values is

        p(a, b) ~ exp(-(a / (n - 1) - b / (m - 1))^2 / (2 sigma^2)),

    so a small `sigma` ties the factors together and a large one frees them.

    Args:
        pairs: Pair of factors (names or numbers) -> sigma.

    Example:
        >>> sampler = CorrelatedSampler({("floor_hue", "object_hue"): 0.2})

    Reference:
        Träuble et al. 2021, "On Disentangled Representations Learned from Correlated
        Data", section 3 (they scale sigma to the number of values instead).
    """

    def __init__(self, pairs: Mapping[tuple[int | str, int | str], float]) -> None:
        self.pairs = dict(pairs)
        for pair, sigma in self.pairs.items():
            if not sigma > 0:
                raise ValueError(
                    f"Sigma of the pair {pair} must be positive, received {sigma}."
                )

    def batch(
        self, space: FactorSpace, num_images: int, seed: int, step: int, size: int
    ) -> IntArray:
        self._require_whole_grid(space, num_images)
        columns = self._columns(space)
        generator = random_generator(seed, step)
        sources = generator.integers(0, space.sizes, (size, space.num_factors))
        for (first, second), sigma in zip(columns, self.pairs.values(), strict=True):
            table = self.joint_table(space.sizes[first], space.sizes[second], sigma)
            cells = generator.choice(table.size, size, p=table.ravel())
            sources[:, first], sources[:, second] = np.unravel_index(cells, table.shape)
        return sources

    @staticmethod
    def joint_table(
        num_first: int, num_second: int, sigma: float
    ) -> npt.NDArray[np.float64]:
        """Joint probabilities (num_first, num_second) of a correlated pair."""
        first = np.linspace(0, 1, num_first)[:, None]
        second = np.linspace(0, 1, num_second)[None, :]
        # Subtracting the smallest exponent keeps a tiny sigma from underflowing.
        exponent = (first - second) ** 2 / (2 * sigma**2)
        weights = np.exp(exponent.min() - exponent)
        return weights / weights.sum()

    def _columns(self, space: FactorSpace) -> list[tuple[int, int]]:
        columns = [
            (space.factor_index(first), space.factor_index(second))
            for first, second in self.pairs
        ]
        used = [column for pair in columns for column in pair]
        if len(set(used)) != len(used):
            raise ValueError(
                f"Every factor may be in one pair only, received {list(self.pairs)}."
            )
        return columns
