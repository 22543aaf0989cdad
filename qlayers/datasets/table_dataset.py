"""Datasets that are a table: some images, and what is known about each."""

import hashlib
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from qlayers.datasets.factor_dataset import (
    NUISANCE,
    FactorDataset,
    ImageDtype,
    finish_images,
)
from qlayers.datasets.factor_space import FactorSpace, IntArray
from qlayers.datasets.samplers import (
    FixedFactorSampler,
    Sampler,
    ShuffledSampler,
    UniformSampler,
    random_generator,
)


class TableDataset(FactorDataset):
    """Your own images, with or without factors.

    Not every combination of factors needs an image, and some may have several; which of
    those `images_of` shows depends on its seed. Without factors `sources` has no
    columns: training, reconstruction and traversals work, scores that compare latents
    with factors do not.

    Args:
        name: A name for messages.
        images: uint8 (n, height, width, channels).
        sources: Value indices (n, factors); `None` for images without labels.
        space: The factors; `None` for images without labels.
        skipped: Files that could not be read and were left out.

    Attributes:
        space: The factors, or `None`.
        skipped: Files that were left out.
        shared_factors: Numbers of the factors whose values some images share, those for
            which the BetaVAE and FactorVAE scores are defined.

    Example:
        >>> dataset = from_arrays(images, sources, names=["species", "age"])
        >>> dataset.space.value_name("species", 0)
        'cat'
    """

    def __init__(
        self,
        name: str,
        images: npt.NDArray[np.uint8],
        sources: IntArray | None = None,
        space: FactorSpace | None = None,
        skipped: tuple[str, ...] = (),
    ) -> None:
        self.name = name
        self.space = space
        self.skipped = skipped
        self.factor_names = space.names if space else ()
        self.factor_sizes = space.sizes if space else ()
        self.num_images: int = len(images)
        self.image_shape = tuple(images.shape[1:])
        self._images = images
        none = np.zeros((len(images), 0), np.int64)
        self._table = none if sources is None else sources
        self._rows = FactorSpace(("row",), (len(images),))
        # Rows with the same sources stand together in this order.
        groups, group = np.unique(self._table, axis=0, return_inverse=True)
        self._order = np.argsort(group.ravel(), kind="stable")
        self._counts = np.bincount(group.ravel(), minlength=len(groups))
        self._groups = {row.tobytes(): i for i, row in enumerate(groups)}
        self.shared_factors = tuple(
            factor
            for factor, size in enumerate(space.sizes if space else ())
            if size > 1 and len(self._shared_rows(factor))
        )

    @property
    def fingerprint(self) -> str:
        """Tells these images and labels from others: the start of their SHA-256."""
        found = hashlib.sha256(repr((self._images.shape, self.factor_names)).encode())
        for array in (self._images, self._table):
            found.update(np.ascontiguousarray(array).data)
        return found.hexdigest()[:16]

    def images_of(
        self, sources: npt.ArrayLike, seed: int = 0, *, dtype: ImageDtype = "float32"
    ) -> npt.NDArray[Any]:
        """Images of given sources; where several fit, the seed decides.

        Args:
            sources: (n, factors); all must be combinations that have an image.
            seed: Seed of the choice.
            dtype: "float32" in [0, 1], or "uint8".
        """
        checked = self._check_sources(sources)
        first, count = self._places(checked)
        generator = random_generator(seed, 0, NUISANCE)
        rows = self._order[first + generator.integers(0, count)]
        return finish_images(self._images[rows], dtype)

    def has_images_of(self, sources: npt.ArrayLike) -> npt.NDArray[np.bool_]:
        """Which sources have an image."""
        return self._places(self._labelled().check_sources(sources))[1] > 0

    def draw_sharing(
        self, factor: int, n: int, copies: int, generator: np.random.Generator
    ) -> list[IntArray]:
        """Sources that agree in one factor, for the BetaVAE and FactorVAE scores.

        They are drawn from the images that exist, among those that share the factor's
        value with another image.

        Args:
            factor: Number of the factor, one of `shared_factors`.
            n: Number of sources.
            copies: 1: all agree. 2: two arrays whose i-th rows agree.
            generator: Draws them.
        """
        eligible = self._shared_rows(factor)
        column = self._table[:, factor]
        if copies == 1:
            value = column[generator.choice(eligible)]
            return [self._table[generator.choice(np.flatnonzero(column == value), n)]]
        first = generator.choice(eligible, n)
        # Rows of equal value stand together; a random one of each group is its partner.
        order = np.argsort(column, kind="stable")
        ascending = column[order]
        start = np.searchsorted(ascending, column[first], "left")
        end = np.searchsorted(ascending, column[first], "right")
        second = order[generator.integers(start, end)]
        return [self._table[first], self._table[second]]

    def _shared_rows(self, factor: int) -> IntArray:
        """Rows whose value of a factor occurs in another row too."""
        _, inverse, counts = np.unique(
            self._table[:, factor], return_inverse=True, return_counts=True
        )
        return np.flatnonzero(counts[inverse] > 1)

    def _labelled(self) -> FactorSpace:
        if self.space is None:
            raise ValueError(
                f"{self.name} has no labels, so no image can be asked for by its "
                "factors. Give a table of labels."
            )
        return self.space

    def _places(self, sources: IntArray) -> tuple[IntArray, IntArray]:
        """First place in `_order` and number of rows, for each of the sources."""
        group = np.array([self._groups.get(row.tobytes(), -1) for row in sources], int)
        first = np.concatenate([[0], np.cumsum(self._counts)])[group]
        return first, np.where(group < 0, 0, self._counts[group])

    def _draw(self, n: int, seed: int, step: int, sampler: Sampler | None) -> IntArray:
        """Rows (n, 1): sources alone do not say which of several images is meant."""
        chosen = sampler or UniformSampler()
        if isinstance(chosen, FixedFactorSampler):
            return self._draw_fixed(chosen, n, seed, step)
        if not isinstance(chosen, UniformSampler | ShuffledSampler):
            raise ValueError(
                f"{type(chosen).__name__} needs every factor combination; {self.name} "
                "is a table with the combinations it has. Use UniformSampler, "
                "ShuffledSampler or FixedFactorSampler."
            )
        return chosen.batch(self._rows, self.num_images, seed, step, n)

    def _draw_fixed(
        self, sampler: FixedFactorSampler, n: int, seed: int, step: int
    ) -> IntArray:
        column = self._table[:, self._labelled().factor_index(sampler.factor)]
        generator = random_generator(seed, step)
        value = sampler.value
        if value is None:
            value = int(generator.choice(column))
        alike = np.flatnonzero(column == value)
        if not len(alike):
            raise ValueError(
                f"No image of {self.name} has value {value} of {sampler.factor!r}."
            )
        return generator.choice(alike, (n, 1))

    def _draw_distinct(self, n: int, seed: int) -> IntArray:
        order = random_generator(seed, 0).permutation(self.num_images)
        return order[:n, None]

    def _sources_of(self, drawn: Any) -> Any:
        return self._table[drawn[:, 0]]

    def _sources_tensor(self, drawn: tf.Tensor) -> tf.Tensor:
        return tf.gather(tf.constant(self._table), drawn[:, 0])

    def _images_of_drawn(
        self, drawn: npt.NDArray[Any], seed: int, dtype: ImageDtype
    ) -> npt.NDArray[Any]:
        return finish_images(self._images[drawn[:, 0]], dtype)

    def _check_sources(self, sources: npt.ArrayLike) -> IntArray:
        checked = self._labelled().check_sources(sources)
        absent = self._places(checked)[1] == 0
        if absent.any():
            row = checked[np.argmax(absent)].tolist()
            raise ValueError(
                f"{self.name} has no image with the sources {row} of "
                f"{list(self.factor_names)}; `has_images_of` tells which exist."
            )
        return checked

    def _render(
        self, sources: npt.NDArray[Any], generator: np.random.Generator
    ) -> npt.NDArray[Any]:
        return self._images[sources[:, 0]]
