"""Cliff's synthetic data: a grid of cells, warped."""

from typing import Any

import numpy as np
import numpy.typing as npt

from qlayers.datasets.cell_grid import (
    CellGrid,
    factorised_cell_grid,
    non_factorised_cell_grid,
    random_cell_grid,
)
from qlayers.datasets.continuous_dataset import ContinuousDataset

# Jumps at 4 and 3 places, borders included: the cells that `balls` has too.
_CELLS = (3, 2)
_GRIDS = {
    "cells": lambda seed: random_cell_grid(_CELLS, seed),
    "factorised": factorised_cell_grid,
    "non_factorised": non_factorised_cell_grid,
    "random": lambda seed: random_cell_grid((3, 4), seed),
}


class Grid2D(ContinuousDataset):
    """Two factors with axis-aligned jumps in their density, observed as

        x = B tanh(0.5 A z).

    An "image" is the vector x of two numbers, not confined to [0, 1].

    Args:
        preset: The density of z. "cells": 3 x 2 cells of random sizes and
            probabilities, as in `balls`. Of the earlier paper: "factorised", every one
            of 4 x 4 cells occurs; "non_factorised", five do not; "random", 3 x 4 cells.
        num_images: Number of points; `None` draws fresh ones without end.
        data_seed: Seed of grid, mixing and points, so another dataset for each.
        standardize: Mixes (z - mean) / deviation rather than z. Without it the tanh
            saturates over most of the grid and float32 cannot undo the mixing.
        max_condition: A and B are standard normal, drawn again until their condition
            numbers stay below this.

    Attributes:
        grid: The `CellGrid` of z; `grid.cells_of(sources)` are the quantized factors.

    Reference:
        Barin-Pacela et al. 2025, section 3.1, appendices E, F.2 and G.1, with the other
        presets of Barin-Pacela et al. 2024. The paper does not say how A and B are
        drawn nor whether z is standardized; `sources` are never standardized.
    """

    _stores_bytes = False

    def __init__(
        self,
        preset: str = "cells",
        num_images: int | None = 5000,
        data_seed: int = 0,
        standardize: bool = True,
        max_condition: float = 5.0,
    ) -> None:
        if preset not in _GRIDS:
            raise ValueError(
                f"`preset` must be one of {sorted(_GRIDS)}, received {preset!r}."
            )
        if not max_condition > 1:
            raise ValueError(
                f"`max_condition` must be greater than 1, received {max_condition}."
            )
        self.grid: CellGrid = _GRIDS[preset](data_seed)
        generator = np.random.default_rng([data_seed, 2])
        self.inner_mixing = _well_conditioned(generator, max_condition)
        self.outer_mixing = _well_conditioned(generator, max_condition)
        mean, deviation = self.grid.moments()
        self._shift = mean if standardize else np.zeros(2)
        self._scale = deviation if standardize else np.ones(2)
        super().__init__(
            "grid2d",
            ("z1", "z2"),
            (2,),
            self.grid.distribution(),
            num_images,
            data_seed,
        )

    def _render(
        self, sources: npt.NDArray[Any], generator: np.random.Generator
    ) -> npt.NDArray[np.float32]:
        z = (sources.astype(np.float64) - self._shift) / self._scale
        mixed = np.tanh(0.5 * z @ self.inner_mixing.T) @ self.outer_mixing.T
        return mixed.astype(np.float32)


def _well_conditioned(
    generator: np.random.Generator, max_condition: float
) -> npt.NDArray[np.float64]:
    while True:
        matrix = generator.standard_normal((2, 2))
        if np.linalg.cond(matrix) < max_condition:
            return matrix
