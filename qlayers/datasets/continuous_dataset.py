"""Datasets with continuous factors."""

from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from qlayers.datasets.factor_dataset import FactorDataset
from qlayers.datasets.factor_space import FactorSpace
from qlayers.datasets.samplers import Sampler, ShuffledSampler, UniformSampler

FloatArray = npt.NDArray[np.float32]


class ContinuousDataset(FactorDataset):
    """Images made from points of a continuous distribution.

    Args:
        name: The name `load` knows it by.
        factor_names: Names of the factors.
        image_shape: Shape of one image.
        distribution: A TensorFlow Probability distribution over vectors of sources.
        num_images: How many points the dataset consists of; they are drawn once, and
            streams show each of them once an epoch. `None` draws fresh points all the
            time.
        data_seed: Seed of that draw.

    Attributes:
        distribution: The density of the sources.
    """

    _source_type = tf.float32

    def __init__(
        self,
        name: str,
        factor_names: tuple[str, ...],
        image_shape: tuple[int, ...],
        distribution: Any,
        num_images: int | None,
        data_seed: int = 0,
    ) -> None:
        if num_images is not None and num_images < 1:
            raise ValueError(f"`num_images` must be positive, received {num_images}.")
        self.name = name
        self.factor_names = factor_names
        self.factor_sizes = (None,) * len(factor_names)
        self.image_shape = image_shape
        self.distribution = distribution
        self.num_images = num_images
        # Compiled, because eager sampling takes longer than painting the images.
        self._sample_points = tf.function(
            lambda n, pair: distribution.sample(n, seed=pair)
        )
        self._points: FloatArray | None = None
        if num_images is not None:
            self._points = self._fresh(num_images, data_seed, 0)

    def _fresh(self, n: int, seed: int, step: int) -> FloatArray:
        pair = tf.constant([seed % 2**31, step % 2**31], tf.int32)
        return self._sample_points(tf.constant(n), pair).numpy().astype(np.float32)

    def _draw(
        self, n: int, seed: int, step: int, sampler: Sampler | None
    ) -> FloatArray:
        if sampler is not None and not isinstance(
            sampler, UniformSampler | ShuffledSampler
        ):
            raise ValueError(
                f"{self.name} has continuous factors; {type(sampler).__name__} needs "
                "discrete ones. Received a sampler other than UniformSampler or "
                "ShuffledSampler."
            )
        if self._points is None:
            if isinstance(sampler, ShuffledSampler):
                raise ValueError(
                    f"{self.name} draws fresh images without end, there is nothing to "
                    "shuffle. Received ShuffledSampler; load it with `num_images`."
                )
            return self._fresh(n, seed, step)
        space = FactorSpace(("point",), (len(self._points),))
        # A set drawn once is passed through epoch by epoch, as the papers do: draws
        # with replacement would show 63 % of it in as many draws.
        chosen = sampler or ShuffledSampler()
        picks = chosen.batch(space, len(self._points), seed, step, n)
        return self._points[picks[:, 0]]

    def _draw_tensor(
        self, n: int, seed: int, step: tf.Tensor, sampler: Sampler | None
    ) -> Any:
        if self._points is not None:
            return super()._draw_tensor(n, seed, step, sampler)
        # Not by a callback: TensorFlow inside a callback can starve its own threads.
        pair = tf.stack([tf.constant(seed % 2**31), tf.cast(step % 2**31, tf.int32)])
        return self.distribution.sample(n, seed=pair)

    def _draw_distinct(self, n: int, seed: int) -> FloatArray:
        if self._points is None:
            return self._fresh(n, seed, 0)
        order = np.random.default_rng(seed).permutation(len(self._points))
        return self._points[order[:n]]

    def _check_sources(self, sources: npt.ArrayLike) -> FloatArray:
        array = np.asarray(sources)
        if array.ndim != 2 or array.shape[1] != len(self.factor_names):
            raise ValueError(
                f"Sources must have shape (n, {len(self.factor_names)}), one column "
                f"for each of {self.factor_names}; received shape {array.shape}."
            )
        if not np.all(np.isfinite(array.astype(np.float64))):
            raise ValueError("Sources must be finite, received NaN or infinity.")
        return array.astype(np.float32)
