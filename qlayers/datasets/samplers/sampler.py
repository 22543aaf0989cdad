"""What every sampler of factor combinations offers."""

import abc

import numpy as np

from qlayers.datasets.factor_space import FactorSpace, IntArray


def random_generator(seed: int, step: int, purpose: int = 0) -> np.random.Generator:
    """A generator that depends on nothing but its arguments.

    Args:
        seed: A non-negative integer.
        step: Number of the batch, so that any batch can be drawn without its
            predecessors.
        purpose: Keeps independent uses of the same seed and step apart.
    """
    if seed < 0 or step < 0:
        raise ValueError(
            f"Seed and step must not be negative, received seed={seed}, step={step}."
        )
    return np.random.Generator(np.random.Philox([seed, step, purpose]))


class Sampler(abc.ABC):
    """Draws batches of factor combinations.

    A batch is a pure function of `(seed, step)`. That is what lets a stream start at
    any position without replaying or storing what came before.
    """

    @abc.abstractmethod
    def batch(
        self, space: FactorSpace, num_images: int, seed: int, step: int, size: int
    ) -> IntArray:
        """Draws sources.

        Args:
            space: The grid of factor values.
            num_images: How many images of the grid exist, counted from the first;
                less than the whole grid only for partial files.
            seed: Seed of the stream.
            step: Number of the batch in the stream.
            size: Number of combinations.

        Returns:
            Sources (size, factors) as int64.
        """

    def _require_whole_grid(self, space: FactorSpace, num_images: int) -> None:
        if num_images != space.num_combinations:
            raise ValueError(
                f"{type(self).__name__} needs every factor combination, but only "
                f"{num_images} of {space.num_combinations} images are present. Load "
                "the whole dataset, or use UniformSampler or ShuffledSampler."
            )
