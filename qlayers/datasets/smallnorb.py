"""SmallNORB without the toy among its factors."""

from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from qlayers.datasets.factor_dataset import NUISANCE, ImageDtype
from qlayers.datasets.factor_space import FactorSpace
from qlayers.datasets.grid_dataset import GridDataset
from qlayers.datasets.samplers import random_generator
from qlayers.datasets.stream_guard import graph_callback

_INSTANCE = 1


def _without_instance(space: FactorSpace) -> FactorSpace:
    kept = [i for i in range(space.num_factors) if i != _INSTANCE]
    return FactorSpace(
        names=tuple(space.names[i] for i in kept),
        sizes=tuple(space.sizes[i] for i in kept),
        values=tuple(space.values[i] for i in kept) if space.values else (),
    )


class Smallnorb(GridDataset):
    """Category, elevation, azimuth and lighting; the toy is drawn at random.

    Ten toys of each category fill the grid, so every combination of the four factors
    has ten images. Which one is shown is noise, as in the usual benchmark. (Load with
    `include_instance=True` to have the toy as a fifth factor.)

    Args:
        toys: The dataset with the toy as second factor.

    Reference:
        Locatello et al. 2019; Friede et al. 2023, appendix 6.
    """

    def __init__(self, toys: GridDataset) -> None:
        if toys.num_images != toys.space.num_combinations:
            raise ValueError(
                "The toy is drawn at random, which needs every image; received "
                f"{toys.num_images} of {toys.space.num_combinations}. Load a part of "
                "the grid with include_instance=True."
            )
        height, width, channels = toys.image_shape
        super().__init__(
            "smallnorb", _without_instance(toys.space), (height, width, channels)
        )
        self.num_images = toys.num_images
        self._toys = toys

    def evaluation_set(
        self, n: int = 10_000, *, dtype: ImageDtype = "float32"
    ) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """The fixed random set on which scores are computed, no image of a toy twice.

        Args:
            n: Number of images; all of them when there are fewer.
            dtype: See `sample`.
        """
        sources, images = self._toys.evaluation_set(n, dtype=dtype)
        return np.delete(sources, _INSTANCE, axis=1), images

    def _with_instance(
        self, sources: npt.NDArray[Any], generator: np.random.Generator
    ) -> npt.NDArray[np.int64]:
        toys = generator.integers(0, self._toys.space.sizes[_INSTANCE], len(sources))
        return np.insert(sources, _INSTANCE, toys, axis=1)

    def _render(
        self, sources: npt.NDArray[Any], generator: np.random.Generator
    ) -> npt.NDArray[np.uint8]:
        return self._toys._render(self._with_instance(sources, generator), generator)

    def _render_tensor(self, sources: tf.Tensor, seed: int, step: tf.Tensor) -> Any:
        def add(array: npt.NDArray[Any], number: np.int64) -> npt.NDArray[np.int64]:
            return self._with_instance(
                array, random_generator(seed, int(number), NUISANCE)
            )

        full = graph_callback(add, [sources, step], tf.int64)
        full = tf.ensure_shape(full, (None, self._toys.space.num_factors))
        return self._toys._render_tensor(full, seed, step)
