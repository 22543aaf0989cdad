"""Sheets that show a dataset: random images, and one row per factor."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from qlayers.datasets import FactorDataset
from qlayers.datasets.continuous_dataset import ContinuousDataset
from qlayers.datasets.grid_dataset import GridDataset
from qlayers.datasets.table_dataset import TableDataset
from qlayers.pixels import Pixels, image_grid, in_rows

# Grey level behind the images.
_PAPER = 235


def sheet_of(images: Pixels, columns: int, gap: int = 2) -> Pixels:
    """Arranges images (count, height, width, channels) on a light grey sheet."""
    return image_grid(in_rows(images, columns, _PAPER), gap, _PAPER, frame=True)


def traversal_sources(
    dataset: FactorDataset, columns: int, seed: int
) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
    """Sources (factors, columns, factors): row f varies factor f and nothing else.

    A factor with more values than columns is shown at evenly spaced ones.

    Returns:
        The sources, and which cells (factors, columns) are in use: a factor with fewer
        values leaves the rest of its row empty.
    """
    base = dataset.sample(1, seed)[0][0]
    sources = np.tile(base, (len(base), columns, 1))
    used = np.zeros((len(base), columns), bool)
    for factor in range(len(base)):
        values = _values(dataset, factor, columns)
        sources[factor, : len(values), factor] = values
        used[factor, : len(values)] = True
    return sources, used


def _values(dataset: FactorDataset, factor: int, columns: int) -> npt.NDArray[Any]:
    size = dataset.factor_sizes[factor]
    if size is None:
        drawn = dataset.sample(2000, seed=0)[0][:, factor]
        return np.linspace(drawn.min(), drawn.max(), columns)
    if size <= columns:
        return np.arange(size)
    return np.rint(np.linspace(0, size - 1, columns)).astype(int)


def contact_sheet(dataset: FactorDataset, rows: int, columns: int, seed: int) -> Pixels:
    """A sheet of random images."""
    _, images = dataset.sample(rows * columns, seed, dtype="uint8")
    return sheet_of(images, columns)


def traversal_sheet(dataset: FactorDataset, columns: int, seed: int) -> Pixels:
    """A sheet with one row per factor, whose name stands on its left."""
    sources, used = traversal_sources(dataset, columns, seed)
    flat, shown = sources.reshape(-1, sources.shape[-1]), used.ravel()
    if isinstance(dataset, GridDataset | TableDataset):
        # A partial file, or a table, may lack some of them.
        shown = shown & dataset.has_images_of(flat)
    images = np.full((len(flat), *dataset.image_shape), _PAPER, np.uint8)
    images[shown] = dataset.images_of(flat[shown], seed, dtype="uint8")
    return _with_names(sheet_of(images, columns), dataset.factor_names)


def _with_names(sheet: Pixels, names: Sequence[str]) -> Pixels:
    from PIL import Image, ImageDraw

    margin = 9 + 6 * max(map(len, names))
    canvas = Image.new("RGB", (sheet.shape[1] + margin, sheet.shape[0]), (_PAPER,) * 3)
    canvas.paste(Image.fromarray(sheet), (margin, 0))
    draw = ImageDraw.Draw(canvas)
    height = sheet.shape[0] / len(names)
    for row, name in enumerate(names):
        draw.text((4, int((row + 0.5) * height) - 5), name, fill="black")
    return np.asarray(canvas)


def _save_images(
    dataset: FactorDataset, folder: Path, rows: int, columns: int, seed: int
) -> list[Path]:
    from PIL import Image

    sheets: dict[str, Callable[[], Pixels]] = {
        "contact": lambda: contact_sheet(dataset, rows, columns, seed),
        "traversals": lambda: traversal_sheet(dataset, columns, seed),
    }
    if not dataset.factor_names:
        del sheets["traversals"]  # images without labels have no factors to vary
    paths = []
    for kind, draw in sheets.items():
        paths.append(folder / f"{dataset.name}_{kind}.png")
        Image.fromarray(draw()).save(paths[-1], optimize=True)
    return paths


def _save_points(dataset: ContinuousDataset, folder: Path, seed: int) -> list[Path]:
    """Draws data without images: sources and observations, coloured alike."""
    from matplotlib.figure import Figure

    sources, observed = dataset.sample(5000, seed)
    paths = []
    for kind, colours in (("contact", sources), ("traversals", np.floor(4 * sources))):
        figure = Figure(figsize=(10, 5), layout="constrained")
        axes = (
            figure.subplots(2, 2) if kind == "traversals" else [figure.subplots(1, 2)]
        )
        for factor, row in enumerate(axes):
            for axis, points, title in zip(
                row, (sources, observed), ("sources z", "observations x"), strict=True
            ):
                axis.scatter(*points.T, c=colours[:, factor], s=2, cmap="viridis")
                axis.set_title(f"{title}, coloured by {dataset.factor_names[factor]}")
        paths.append(folder / f"{dataset.name}_{kind}.png")
        figure.savefig(paths[-1], dpi=80)
    return paths


def save_sheets(
    dataset: FactorDataset, folder: Path, rows: int, columns: int, seed: int
) -> list[Path]:
    """Writes both sheets.

    Args:
        dataset: The dataset.
        folder: Where to write; made if it is not there.
        rows: Rows of the contact sheet.
        columns: Columns of both sheets.
        seed: Which images to draw.

    Returns:
        The paths of the sheets.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if isinstance(dataset, ContinuousDataset) and len(dataset.image_shape) == 1:
        return _save_points(dataset, folder, seed)
    return _save_images(dataset, folder, rows, columns, seed)
