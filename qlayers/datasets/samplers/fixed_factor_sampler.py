"""Batches in which one factor does not vary."""

from qlayers.datasets.factor_space import FactorSpace, IntArray
from qlayers.datasets.samplers.sampler import Sampler, random_generator


class FixedFactorSampler(Sampler):
    """Draws all factors uniformly except one, which is the same in the whole batch.

    Args:
        factor: Name or number of the factor that stays.
        value: Its value; drawn anew for each batch when `None`.

    Reference:
        Kim & Mnih 2018, "Disentangling by Factorising", section 5: the votes of the
        FactorVAE score. The BetaVAE score pairs two such batches.
    """

    def __init__(self, factor: int | str, value: int | None = None) -> None:
        self.factor = factor
        self.value = value

    def batch(
        self, space: FactorSpace, num_images: int, seed: int, step: int, size: int
    ) -> IntArray:
        self._require_whole_grid(space, num_images)
        column = space.factor_index(self.factor)
        generator = random_generator(seed, step)
        sources = generator.integers(0, space.sizes, (size, space.num_factors))
        value = self.value
        if value is None:
            value = int(generator.integers(0, space.sizes[column]))
        sources[:, column] = value
        return space.check_sources(sources)
