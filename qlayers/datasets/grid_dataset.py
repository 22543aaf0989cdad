"""Datasets whose images fill a grid of factor values."""

from typing import Any

import numpy as np
import numpy.typing as npt

from qlayers.datasets.factor_dataset import FactorDataset, ImageDtype
from qlayers.datasets.factor_space import FactorSpace, IntArray
from qlayers.datasets.samplers import (
    FixedFactorSampler,
    Sampler,
    UniformSampler,
    random_generator,
)


class GridDataset(FactorDataset):
    """A dataset with one image per combination of factor values.

    Args:
        name: The name `load` knows it by.
        space: The factors.
        image_shape: (height, width, channels).
        num_available: Number of combinations present, counted from the first; the
            whole grid by default.
    """

    def __init__(
        self,
        name: str,
        space: FactorSpace,
        image_shape: tuple[int, int, int],
        num_available: int | None = None,
    ) -> None:
        self.name = name
        self.space = space
        self.factor_names = space.names
        self.factor_sizes = space.sizes
        self.image_shape = image_shape
        whole = space.num_combinations
        self._num_available = whole if num_available is None else num_available
        self.num_images: int = self._num_available

    def sample_with_fixed_factor(
        self,
        factor: int | str,
        n: int,
        seed: int = 0,
        *,
        value: int | None = None,
        dtype: ImageDtype = "float32",
    ) -> tuple[IntArray, npt.NDArray[Any]]:
        """Draws a batch in which one factor is the same everywhere.

        Args:
            factor: Name or number of the factor.
            n: Number of images.
            seed: The same seed gives the same batch.
            value: The factor's value; random when `None`.
            dtype: See `sample`.

        Returns:
            `(sources, images)` as in `sample`.
        """
        sampler = FixedFactorSampler(factor, value)
        return self.sample(n, seed, sampler=sampler, dtype=dtype)

    def has_images_of(self, sources: npt.ArrayLike) -> npt.NDArray[np.bool_]:
        """Which sources have an image: all of them, unless the file is partial."""
        return self.space.index_of(sources) < self._num_available

    def _draw(self, n: int, seed: int, step: int, sampler: Sampler | None) -> IntArray:
        chosen = sampler or UniformSampler()
        return chosen.batch(self.space, self._num_available, seed, step, n)

    def _draw_distinct(self, n: int, seed: int) -> IntArray:
        order = random_generator(seed, 0).permutation(self._num_available)
        return self.space.sources_of(order[:n])

    def _check_sources(self, sources: npt.ArrayLike) -> IntArray:
        checked = self.space.check_sources(sources)
        if self._num_available < self.space.num_combinations and len(checked):
            last = int(self.space.index_of(checked).max())
            if last >= self._num_available:
                raise ValueError(
                    f"{self.name} is partial: image {last} was asked for, but only the "
                    f"first {self._num_available} of {self.space.num_combinations} are "
                    "present."
                )
        return checked

    def _render(
        self, sources: npt.NDArray[Any], generator: np.random.Generator
    ) -> npt.NDArray[Any]:
        return self._images_at(self.space.index_of(sources))

    def _images_at(self, index: IntArray) -> npt.NDArray[np.uint8]:
        """Images by their number in the grid."""
        raise NotImplementedError
