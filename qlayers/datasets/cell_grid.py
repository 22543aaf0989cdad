"""Densities that are constant on the cells of an axis-aligned grid."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

_NARROWEST, _WIDEST = 0.3, 2.5

# Cells of a four by four grid that the non-factorised preset leaves empty.
_EMPTY_CELLS = ((2, 0), (3, 0), (0, 2), (0, 3), (1, 3))


@dataclasses.dataclass(frozen=True)
class CellGrid:
    """A grid of cells with a probability each; uniform inside a cell.

    Its density jumps at the separators, which run along the axes: the discontinuities
    that Cliff aligns. The factors may depend on each other through the cells.

    Args:
        separators: For each axis the borders of its cells, ascending.
        probabilities: Probabilities of the cells, one axis per factor.
    """

    separators: tuple[npt.NDArray[np.float64], ...]
    probabilities: npt.NDArray[np.float64]

    def __post_init__(self) -> None:
        expected = tuple(len(borders) - 1 for borders in self.separators)
        if self.probabilities.shape != expected:
            raise ValueError(
                f"The separators make {expected} cells, received probabilities of "
                f"shape {self.probabilities.shape}."
            )
        if np.any(self.probabilities < 0) or not np.isclose(
            self.probabilities.sum(), 1
        ):
            raise ValueError(
                "Cell probabilities must not be negative and must sum to 1."
            )

    def scaled_to(self, low: float, high: float) -> "CellGrid":
        """The same grid stretched to the box between `low` and `high`."""
        scaled = tuple(
            low + (high - low) * (borders - borders[0]) / (borders[-1] - borders[0])
            for borders in self.separators
        )
        return CellGrid(scaled, self.probabilities)

    def distribution(self) -> Any:
        """The density as a TensorFlow Probability distribution over vectors."""
        import tensorflow_probability as tfp

        tfd = tfp.distributions
        corners = [
            np.stack(np.meshgrid(*edges, indexing="ij"), axis=-1).reshape(
                -1, len(self.separators)
            )
            for edges in (
                [borders[:-1] for borders in self.separators],
                [borders[1:] for borders in self.separators],
            )
        ]
        low, high = (corner.astype(np.float32) for corner in corners)
        weights = self.probabilities.ravel().astype(np.float32)
        return tfd.MixtureSameFamily(
            tfd.Categorical(probs=weights),
            tfd.Independent(tfd.Uniform(low, high), reinterpreted_batch_ndims=1),
        )

    def cells_of(self, points: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        """Cell coordinates (n, axes) of points (n, axes): the quantized factors."""
        columns = [
            np.clip(
                np.searchsorted(borders, points[:, axis], side="right") - 1,
                0,
                len(borders) - 2,
            )
            for axis, borders in enumerate(self.separators)
        ]
        return np.stack(columns, axis=1).astype(np.int64)

    def moments(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Mean and standard deviation of each factor, exactly."""
        means, deviations = [], []
        for axis, borders in enumerate(self.separators):
            others = tuple(i for i in range(self.probabilities.ndim) if i != axis)
            weights = self.probabilities.sum(axis=others)
            low, high = borders[:-1], borders[1:]
            mean = np.sum(weights * (low + high) / 2)
            square = np.sum(weights * (low**2 + low * high + high**2) / 3)
            means.append(mean)
            deviations.append(np.sqrt(square - mean**2))
        return np.array(means), np.array(deviations)


def random_separators(
    num_cells: Sequence[int], seed: int
) -> tuple[npt.NDArray[np.float64], ...]:
    """Borders whose distances are uniform between 0.3 and 2.5, beginning at 0."""
    generator = np.random.default_rng(seed)
    return tuple(
        np.concatenate(
            [[0.0], np.cumsum(generator.uniform(_NARROWEST, _WIDEST, count))]
        )
        for count in num_cells
    )


def random_cell_grid(num_cells: Sequence[int], seed: int) -> CellGrid:
    """A grid with random borders and probabilities softmax of standard normals."""
    generator = np.random.default_rng([seed, 1])
    weights = np.exp(generator.standard_normal(tuple(num_cells)))
    return CellGrid(random_separators(num_cells, seed), weights / weights.sum())


def factorised_cell_grid(seed: int) -> CellGrid:
    """Four by four cells, all of them possible, the diagonal likely."""
    generator = np.random.default_rng([seed, 1])
    weights = np.exp(generator.standard_normal((4, 4)))
    scores = weights / weights.sum() / 5
    np.fill_diagonal(scores, 0.25)
    likely = np.exp(10 * scores)
    return CellGrid(random_separators((4, 4), seed), likely / likely.sum())


def non_factorised_cell_grid(seed: int) -> CellGrid:
    """Four by four cells, five of them empty, the diagonal likely."""
    generator = np.random.default_rng([seed, 1])
    weights = np.exp(generator.standard_normal((4, 4)))
    probabilities = weights / weights.sum()
    np.fill_diagonal(probabilities, [0.26, 0.24, 0.27, 0.23])
    for cell in _EMPTY_CELLS:
        probabilities[cell] = 0
    return CellGrid(
        random_separators((4, 4), seed), probabilities / probabilities.sum()
    )
