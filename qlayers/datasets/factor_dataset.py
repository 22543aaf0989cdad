"""The factor-aware view that every dataset offers."""

import abc
import os
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from qlayers.datasets.samplers import Sampler, random_generator
from qlayers.datasets.stream_guard import graph_callback
from qlayers.pixels import to_unit_range

_PARALLEL_BATCHES = max(2, min(8, os.cpu_count() or 2))
_PREFETCHED_BATCHES = 4

ImageDtype = Literal["float32", "uint8"]

# Seed of the evaluation set: one for everybody, so that scores are comparable.
_EVALUATION_SEED = 20230228

# Purpose of the random numbers that draw what is no factor.
NUISANCE = 2


class FactorDataset(abc.ABC):
    """Images together with the factors that made them.

    Attributes:
        name: The name `load` knows it by.
        factor_names: Names of the factors, in the order of the columns of `sources`.
        factor_sizes: Number of values of each factor, `None` for a continuous one.
        num_images: Number of different images; `None` when they are drawn afresh
            from a continuous distribution.
        image_shape: Shape of one image, (height, width, channels).

    Example:
        >>> dataset = qlayers.datasets.load("mini_shapes3d")
        >>> sources, images = dataset.sample(16, seed=0)
        >>> stream = dataset.as_tf_dataset(batch_size=64, seed=0)
        >>> model.fit(stream, steps_per_epoch=1000)
    """

    name: str
    factor_names: tuple[str, ...]
    factor_sizes: tuple[int | None, ...]
    num_images: int | None
    image_shape: tuple[int, ...]

    @property
    def fingerprint(self) -> str | None:
        """Tells the data from others that may lie in the same place.

        None where the name and the options say all: generated and published data.
        """
        return None

    def sample(
        self,
        n: int,
        seed: int = 0,
        *,
        sampler: Sampler | None = None,
        dtype: ImageDtype = "float32",
    ) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """Draws sources and their images.

        Args:
            n: Number of images.
            seed: The same seed gives the same draw.
            sampler: How to draw; independent and uniform by default.
            dtype: Type of the images, "float32" in [0, 1], or "uint8" to save memory.

        Returns:
            `(sources, images)`: sources (n, factors), int64 (float32 where factors
            are continuous), and images (n, *image_shape) of type `dtype`.
        """
        _check_positive("n", n)
        drawn = self._draw(n, seed, 0, sampler)
        return self._sources_of(drawn), self._images_of_drawn(drawn, seed, dtype)

    def images_of(
        self, sources: npt.ArrayLike, seed: int = 0, *, dtype: ImageDtype = "float32"
    ) -> npt.NDArray[Any]:
        """Images of given sources.

        Args:
            sources: (n, factors).
            seed: Matters only where an image has traits that are no factor (the
                colour of `color_dsprites`, the toy of `smallnorb`).
            dtype: "float32" in [0, 1], or "uint8".

        Returns:
            Images (n, *image_shape).
        """
        images = self._render(
            self._check_sources(sources), random_generator(seed, 0, NUISANCE)
        )
        return finish_images(images, dtype)

    def evaluation_set(
        self, n: int = 10_000, *, dtype: ImageDtype = "float32"
    ) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """The fixed random set on which scores are computed.

        It is drawn without replacement from the whole dataset and is the same in
        every run. (The first images of a training split are no substitute: in files
        that keep grid order they are one corner of the grid.)

        Args:
            n: Number of images; all of them when there are fewer.
            dtype: See `sample`.
        """
        _check_positive("n", n)
        drawn = self._draw_distinct(n, _EVALUATION_SEED)
        images = self._images_of_drawn(drawn, _EVALUATION_SEED, dtype)
        return self._sources_of(drawn), images

    def split_set(
        self, n: int = 10_000, *, dtype: ImageDtype = "float32"
    ) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """The first images of the prepared files, in the order they are stored in.

        TensorFlow Datasets shuffles examples when it prepares a dataset, so that these
        too are a fixed random set. Which images it holds depends on the version that
        prepared the files.

        Args:
            n: Number of images; all of them when there are fewer.
            dtype: See `sample`.

        Raises:
            ValueError: The dataset is not read from prepared files; its first images
                would be one corner of the grid.

        Reference:
            The public codes of Hsu et al. 2023 and 2024 score the first 10,000 images
            of the training split.
        """
        _check_positive("n", n)
        sources = self._stored_first(n)
        return sources, self.images_of(sources, dtype=dtype)

    def _stored_first(self, n: int) -> npt.NDArray[Any]:
        """Sources of the first `n` images in the order of their files."""
        raise ValueError(
            f"{self.name} is not read from files that TensorFlow Datasets prepared, so "
            "that there is no split whose first images could be taken. Use "
            "`evaluation_set`."
        )

    def as_tf_dataset(
        self,
        batch_size: int = 64,
        seed: int = 0,
        *,
        start: int = 0,
        sampler: Sampler | None = None,
        with_sources: bool = False,
        dtype: ImageDtype = "float32",
    ) -> tf.data.Dataset:
        """An endless stream of batches.

        Batch number `t` depends on nothing but the seed and `t`. A run that has
        consumed `k` batches therefore continues exactly with `start=k`; an iterator
        can also be stored with `tf.train.Checkpoint(iterator=iter(stream))`.

        Args:
            batch_size: Images per batch; every batch is full.
            seed: Seed of the stream.
            start: Number of the first batch.
            sampler: How to draw, see `qlayers.datasets.samplers`; independent and
                uniform by default, `ShuffledSampler()` for passes over the dataset.
            with_sources: Yields `(images, sources)` instead of `images`.
            dtype: Type of the images, "float32" in [0, 1], or "uint8".

        Returns:
            A `tf.data.Dataset` of images (batch_size, *image_shape).
        """
        _check_positive("batch_size", batch_size)
        if start < 0:
            raise ValueError(f"`start` counts batches from 0, received {start}.")
        # Draw once here, so that a bad sampler fails now and not inside the graph.
        probe = self._draw(batch_size, seed, start, sampler)

        def make_batch(step: tf.Tensor) -> Any:
            drawn = self._draw_tensor(batch_size, seed, step, sampler)
            drawn = tf.ensure_shape(tf.cast(drawn, probe.dtype), probe.shape)
            images = _finish_tensor(self._render_tensor(drawn, seed, step), dtype)
            images = tf.ensure_shape(images, (batch_size, *self.image_shape))
            return (images, self._sources_tensor(drawn)) if with_sources else images

        steps = tf.data.Dataset.range(start, tf.int64.max)
        # Fixed sizes: an automatic buffer may grow, and thereby call Python, while the
        # program is ending.
        batches = steps.map(make_batch, num_parallel_calls=_PARALLEL_BATCHES)
        return batches.prefetch(_PREFETCHED_BATCHES)

    @abc.abstractmethod
    def _draw(
        self, n: int, seed: int, step: int, sampler: Sampler | None
    ) -> npt.NDArray[Any]:
        """What batch `step` of the stream with this seed shows: its sources, or rows.

        Whatever it is, `_render` paints it and `_sources_of` names its sources.
        """

    def _draw_tensor(
        self, n: int, seed: int, step: tf.Tensor, sampler: Sampler | None
    ) -> Any:
        """The same inside a graph."""

        def draw(number: np.int64) -> npt.NDArray[Any]:
            return self._draw(n, seed, int(number), sampler)

        return graph_callback(draw, [step], self._source_type)

    def _sources_of(self, drawn: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Sources of what `_draw` returned; the same unless that says more."""
        return drawn

    def _sources_tensor(self, drawn: tf.Tensor) -> tf.Tensor:
        """The same inside a graph."""
        return drawn

    def _images_of_drawn(
        self, drawn: npt.NDArray[Any], seed: int, dtype: ImageDtype
    ) -> npt.NDArray[Any]:
        """Images of what `_draw` returned."""
        return self.images_of(drawn, seed, dtype=dtype)

    @abc.abstractmethod
    def _draw_distinct(self, n: int, seed: int) -> npt.NDArray[Any]:
        """At most `n` sources, no image twice."""

    @abc.abstractmethod
    def _check_sources(self, sources: npt.ArrayLike) -> npt.NDArray[Any]:
        """Returns the sources as an array or raises `ValueError`."""

    @abc.abstractmethod
    def _render(
        self, sources: npt.NDArray[Any], generator: np.random.Generator
    ) -> npt.NDArray[Any]:
        """Images of checked sources; the generator draws what is no factor."""

    def _render_tensor(self, sources: tf.Tensor, seed: int, step: tf.Tensor) -> Any:
        """The same inside a graph; subclasses with native operations override it."""

        def render(array: npt.NDArray[Any], number: np.int64) -> npt.NDArray[Any]:
            return self._render(array, random_generator(seed, int(number), NUISANCE))

        image_type = tf.uint8 if self._stores_bytes else tf.float32
        images = graph_callback(render, [sources, step], image_type)
        return tf.ensure_shape(images, (None, *self.image_shape))

    _stores_bytes: bool = True
    _source_type: tf.DType = tf.int64

    def __repr__(self) -> str:
        sizes = ", ".join(
            f"{name}: {size}"
            for name, size in zip(self.factor_names, self.factor_sizes, strict=True)
        )
        return (
            f"<{type(self).__name__} {self.name}: {self.num_images} images "
            f"{self.image_shape}, factors {sizes}>"
        )


def _check_positive(name: str, value: int) -> None:
    if value < 1:
        raise ValueError(f"`{name}` must be at least 1, received {value}.")


def finish_images(images: npt.NDArray[Any], dtype: ImageDtype) -> npt.NDArray[Any]:
    """The last step: bytes become numbers in [0, 1]."""
    _check_dtype(dtype, images.dtype == np.uint8)
    if images.dtype == np.uint8 and dtype == "float32":
        return to_unit_range(images)
    return images


def _finish_tensor(images: tf.Tensor, dtype: ImageDtype) -> tf.Tensor:
    _check_dtype(dtype, images.dtype == tf.uint8)
    if images.dtype == tf.uint8 and dtype == "float32":
        return tf.cast(images, tf.float32) / 255.0
    return images


def _check_dtype(dtype: str, stores_bytes: bool) -> None:
    allowed: Sequence[str] = ("float32", "uint8") if stores_bytes else ("float32",)
    if dtype not in allowed:
        raise ValueError(f"`dtype` must be one of {allowed}, received {dtype!r}.")
