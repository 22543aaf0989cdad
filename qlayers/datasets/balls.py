"""Two balls in the plane."""

from typing import Any

import numpy as np
import numpy.typing as npt

from qlayers.datasets.cell_grid import random_cell_grid
from qlayers.datasets.continuous_dataset import ContinuousDataset
from qlayers.datasets.discs import paint_discs

_COLOURS = ((2, 156, 154), (222, 100, 100))
_RADIUS = 0.16
_LOW, _HIGH = 0.1, 0.9


class Balls(ContinuousDataset):
    """Two coloured balls on white; the four coordinates are the factors.

    Coordinates lie in [0.1, 0.9], x to the right and y upwards; the second ball covers
    the first. As in the original renderer, centres are cut down to whole pixels, so
    images are piecewise constant in the factors (`snap=False` moves balls smoothly).

    Args:
        image_size: Side of the images.
        density: "grid": each ball's position follows a random grid of cells, so the
            density has axis-aligned jumps; "uniform": uniform in the box.
        num_cells: Cells of a ball's grid along x and y. The paper counts 4 jumps along
            x and 3 along y; 3 and 2 cells have so many when the borders of the support
            count. Use (5, 4) if only inner jumps should.
        num_images: Number of images; `None` draws fresh ones without end.
        data_seed: Seed of the grids and of the points.
        snap: Cuts centres down to whole pixels.

    Reference:
        Barin-Pacela et al. 2025, appendix E and F.3 (20,000 images), after Ahuja et
        al. 2022 and Lachapelle et al. 2023. How the paper fits its grids into the
        image is not said; here they are stretched to the box.
    """

    def __init__(
        self,
        image_size: int = 64,
        density: str = "grid",
        num_cells: tuple[int, int] = (3, 2),
        num_images: int | None = 20_000,
        data_seed: int = 0,
        snap: bool = True,
    ) -> None:
        self.grids = tuple(
            random_cell_grid(num_cells, seed).scaled_to(_LOW, _HIGH)
            for seed in (2 * data_seed, 2 * data_seed + 1)
        )
        self._snap = snap
        super().__init__(
            "balls",
            ("ball1_x", "ball1_y", "ball2_x", "ball2_y"),
            (image_size, image_size, 3),
            self._density(density),
            num_images,
            data_seed,
        )

    def _density(self, density: str) -> Any:
        import tensorflow_probability as tfp

        tfd = tfp.distributions
        if density == "grid":
            return tfd.Blockwise([grid.distribution() for grid in self.grids])
        if density == "uniform":
            low, high = np.full(4, _LOW, np.float32), np.full(4, _HIGH, np.float32)
            return tfd.Independent(tfd.Uniform(low, high), 1)
        raise ValueError(
            f"`density` must be 'grid' or 'uniform', received {density!r}."
        )

    def _render(
        self, sources: npt.NDArray[Any], generator: np.random.Generator
    ) -> npt.NDArray[np.uint8]:
        size = self.image_shape[0]
        radius = int(_RADIUS * size) if self._snap else _RADIUS * size
        images = np.full((len(sources), size, size, 3), 255, np.uint8)
        for ball, colour in enumerate(_COLOURS):
            centres = sources[:, 2 * ball : 2 * ball + 2] * np.float32(size)
            if self._snap:
                centres = np.floor(centres) + np.float32(0.5)
            # Rows run downwards, y upwards.
            centres = np.stack([centres[:, 0], size - centres[:, 1]], axis=1)
            paint_discs(images, centres, radius, colour)
        return images
