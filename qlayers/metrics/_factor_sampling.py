"""Batches of images that share one factor, encoded: for the two sampled scores."""

import inspect
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from qlayers.metrics._checks import FloatArray, IntArray, check_latents

Encode = Callable[[Any], Any]

# Images per call of the encoder; small enough for memory, large enough for speed.
_IMAGES_PER_CALL = 1024


class FactorDataset(Protocol):
    """All that the sampled scores need of a dataset."""

    @property
    def factor_sizes(self) -> Any:
        """How many values each factor has; None for a continuous one."""

    def sample(self, n: int, seed: int) -> tuple[Any, Any]:
        """`n` random (sources, images)."""

    def images_of(self, sources: Any) -> Any:
        """The images of given sources, (n, n_s) integers.

        Where images have traits that are no factor, it also takes a `seed`.
        """


class FactorSampler:
    """Draws points: batches of encoded images in which one factor is the same.

    Args:
        dataset: See `FactorDataset`.
        encode: Maps images to latents, (n, ...) -> (n, n_z).
        batch_size: Images (or pairs of images) per point.
        seed: Seed of all draws.
    """

    def __init__(
        self, dataset: FactorDataset, encode: Encode, batch_size: int, seed: int
    ) -> None:
        self._dataset = dataset
        self._encode = encode
        self._batch_size = batch_size
        self._generator = np.random.default_rng(seed)
        # A stream of its own: datasets without nuisances keep their scores.
        self._nuisance_seeds = np.random.default_rng([seed, 1])
        self._takes_seed = "seed" in inspect.signature(dataset.images_of).parameters
        sizes = list(dataset.factor_sizes)
        if any(size is None for size in sizes):
            raise ValueError(
                "`dataset.factor_sizes` must be finite, as images that share a factor "
                f"are compared; received {sizes}. Continuous factors have no such "
                "score: use `mcc`."
            )
        self.sizes = np.asarray(sizes, np.int64)
        # Fixing a factor that never varies would be a question without an answer.
        self.choices = np.flatnonzero(self.sizes > 1)
        # Tables lack combinations: they draw those of their images that agree.
        self._draw_sharing = getattr(dataset, "draw_sharing", None)
        if self._draw_sharing is not None:
            self.choices = np.asarray(dataset.shared_factors, np.int64)  # type: ignore[attr-defined]
        if len(self.choices) == 0:
            raise ValueError(
                "`dataset.factor_sizes` must name a factor with more than one value, "
                "which several images share; received the sizes "
                f"{self.sizes.tolist()}. Images without labels have no such score."
            )

    def latents_of(self, sources: IntArray) -> FloatArray:
        """Encoded images of (n, n_s) sources; what is no factor is drawn anew."""
        options = {}
        if self._takes_seed:
            options["seed"] = int(self._nuisance_seeds.integers(2**31 - 1))
        return self._encoded(self._dataset.images_of(sources, **options), len(sources))

    def random_latents(self, count: int) -> FloatArray:
        """Encoded images of a random sample of the dataset."""
        parts = []
        for start in range(0, count, _IMAGES_PER_CALL):
            size = min(_IMAGES_PER_CALL, count - start)
            draw = int(self._generator.integers(2**31 - 1))
            _, images = self._dataset.sample(size, draw)
            parts.append(self._encoded(images, size))
        return np.concatenate(parts)

    def points(
        self, count: int, copies: int
    ) -> Iterator[tuple[IntArray, list[FloatArray]]]:
        """Yields chunks of points.

        Args:
            count: Points in total.
            copies: 1: all images of a point share the factor's value. 2: each point
                has two batches whose i-th images share it.

        Yields:
            `(factors, batches)`: the fixed factor of each point, and `copies` arrays
            (points, batch_size, n_z).
        """
        per_chunk = max(1, _IMAGES_PER_CALL // (self._batch_size * copies))
        for start in range(0, count, per_chunk):
            size = min(per_chunk, count - start)
            factors = self._generator.choice(self.choices, size)
            draws = (
                self._grid_draws(factors, copies)
                if self._draw_sharing is None
                else self._table_draws(factors, copies)
            )
            flat = np.concatenate(draws).reshape(-1, len(self.sizes))
            latents = self.latents_of(flat)
            shape = (copies, size, self._batch_size, latents.shape[1])
            yield factors, list(latents.reshape(shape))

    def _grid_draws(self, factors: IntArray, copies: int) -> list[IntArray]:
        """Any combination may occur; the chosen factor's value is then copied."""
        draws = [self._random_sources(len(factors)) for _ in range(copies)]
        points = np.arange(len(factors))
        if copies == 1:
            value = draws[0][points, 0, factors]
            draws[0][points, :, factors] = value[:, None]
        for other in draws[1:]:
            other[points, :, factors] = draws[0][points, :, factors]
        return draws

    def _table_draws(self, factors: IntArray, copies: int) -> list[IntArray]:
        """Combinations that exist, which agree in the chosen factor."""
        assert self._draw_sharing is not None
        found = [
            self._draw_sharing(int(factor), self._batch_size, copies, self._generator)
            for factor in factors
        ]
        return [np.stack(draws) for draws in zip(*found, strict=True)]

    def _random_sources(self, points: int) -> IntArray:
        shape = (points, self._batch_size, len(self.sizes))
        return self._generator.integers(0, self.sizes, shape)

    def _encoded(self, images: npt.NDArray[Any], count: int) -> FloatArray:
        latents = check_latents(self._encode(images), "encode(images)")
        if len(latents) != count:
            raise ValueError(
                f"`encode` must return one row per image; it received {count} images "
                f"and returned {len(latents)} rows."
            )
        return latents.astype(np.float64)
