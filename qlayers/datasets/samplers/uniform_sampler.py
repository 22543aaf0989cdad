"""Independent, uniform draws."""

from qlayers.datasets.factor_space import FactorSpace, IntArray
from qlayers.datasets.samplers.sampler import Sampler, random_generator


class UniformSampler(Sampler):
    """Draws every image with equal probability, with replacement.

    Reference:
        Locatello et al. 2019, "Challenging common assumptions", sample from the
        generative model in this way; Friede et al. 2023, appendix 6, follow them.
    """

    def batch(
        self, space: FactorSpace, num_images: int, seed: int, step: int, size: int
    ) -> IntArray:
        generator = random_generator(seed, step)
        return space.sources_of(generator.integers(0, num_images, size))
