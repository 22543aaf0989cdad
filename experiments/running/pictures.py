"""Pictures of a trained model that a report shows."""

import functools
import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import models
from experiments.running.evaluation import Evaluation
from experiments.running.latents import is_quantized
from experiments.settings.config import RunConfig
from experiments.storage.files import write_json
from experiments.storage.run_directory import RunDirectory
from models.inspection import num_slots
from qlayers.callbacks.code_statistics import code_frequencies
from qlayers.files import write_bytes
from qlayers.metrics import plot_importance, plot_nmi
from qlayers.pixels import figure_pixels, image_grid, in_rows, resized, to_unit_range

NUM_BASES = 4
NUM_STEPS = 10
_LARGEST_SIDE = 64


def write_pictures(
    directory: RunDirectory,
    model: models.LatentModel,
    images: np.ndarray,
    found: Evaluation,
    config: RunConfig,
    source_names: Sequence[str],
) -> None:
    """Writes sprites of traversals, latent swaps, heat maps and code frequencies.

    `pictures/index.json` says what is there. A traversal sprite has a row for each
    latent and a column for each of its values; one sprite belongs to a base image.
    `interventions.png` has the active latents of the first base alone, each moved
    linearly through its range in the images (Tripod's appendix C), and
    `interpolation.png` the most modular latent, with a row for each base (QLAE's
    figure 4).

    Args:
        directory: Folder of the run.
        model: The model that was scored.
        images: Images to choose bases from.
        found: Its final scores.
        config: Settings of the run.
        source_names: Names of the factors.
    """
    folder = directory.pictures
    folder.mkdir(exist_ok=True)
    bases = images[:NUM_BASES]
    ranges = ranges_of(model, images)
    values = values_per_latent(model, bases[0], ranges)
    steps = max(values)
    index: dict[str, Any] = {
        "side": int(min(_LARGEST_SIDE, images.shape[1])),
        "latents": len(values),
        "steps": steps,
        "values": values,
        "sources": list(source_names),
        "sprites": [],
        "codes": code_positions(model, bases, steps, ranges),
    }
    save = functools.partial(_save, folder, side=index["side"])
    for i, base in enumerate(bases):
        save(f"base-{i}.png", base[None, None], gap=0)
        rows = models.traverse(model, base, num_steps=steps, ranges=ranges)
        save(f"traversal-{i}.png", rows, gap=0)
        index["sprites"].append([f"base-{i}.png", f"traversal-{i}.png"])
    swapped = models.swap_latents(model, bases[0], bases[1])
    ends = to_unit_range(bases[:2])
    save("swaps.png", np.concatenate([ends, swapped])[None], gap=1)
    if ranges is not None:
        active, best = shown_latents(found, ranges)
        moved = models.intervene(model, bases[:1], ranges, latents=active)
        save("interventions.png", moved[0], gap=1)
        rows = models.intervene(model, bases, ranges, latents=[best])[:, 0]
        save("interpolation.png", rows, gap=1)
        index["interventions"] = {"latents": active, "interpolated": best}
    write_heat_maps(folder, found, source_names)
    if is_quantized(model) and model.quantizer is not None:
        num_codes = model.quantizer.codes_per_latent
        frequencies = code_frequencies(model.codes(images), num_codes)
        index["frequencies"] = [row.tolist() for row in frequencies]
    write_json(folder / "index.json", index)


def ranges_of(model: models.LatentModel, images: np.ndarray) -> np.ndarray | None:
    """Smallest and largest value of each latent; None if latents are vectors."""
    one = model.encode(images[:1])[0]
    if num_slots(model, one) != len(one):
        return None
    return models.latent_ranges(model, images)


def shown_latents(found: Evaluation, ranges: np.ndarray) -> tuple[list[int], int]:
    """The active latents, and that which tells one source from the others best.

    Args:
        found: Scores; without InfoMEC all latents that vary are active.
        ranges: Smallest and largest value of each latent.
    """
    varies = ranges[1] > ranges[0]
    infomec = found.results.get("infomec")
    modularity = np.where(varies, ranges[1] - ranges[0], -np.inf)
    if infomec is not None and infomec.active.any():
        varies = infomec.active
        modularity = np.where(varies, infomec.modularity_per_latent, -np.inf)
    active = np.flatnonzero(varies).tolist() or [0]
    return active, int(np.nan_to_num(modularity, nan=-np.inf).argmax())


def values_per_latent(
    model: models.LatentModel, image: np.ndarray, ranges: np.ndarray | None = None
) -> list[int]:
    """How many values a traversal gives each latent, at most `NUM_STEPS`."""
    counts = []
    for j in range(num_slots(model, model.encode(image[None])[0])):
        values = models.traversal_values(model, j, NUM_STEPS, ranges)
        values = values.reshape(NUM_STEPS, -1)
        # A smaller codebook repeats its last value.
        differs = np.flatnonzero((values != values[-1]).any(axis=1))
        counts.append(int(differs[-1]) + 2 if len(differs) else 1)
    return counts


def code_positions(
    model: models.LatentModel,
    bases: np.ndarray,
    steps: int,
    ranges: np.ndarray | None = None,
) -> list[list[int]]:
    """Column of the traversal that is nearest to each base's own latents."""
    latents = model.encode(bases)
    positions = []
    for z in latents:
        slots = num_slots(model, z)
        pieces = z.reshape(slots, -1)
        row = []
        for j in range(slots):
            values = models.traversal_values(model, j, steps, ranges)
            values = values.reshape(steps, -1)
            row.append(int(np.square(values - pieces[j]).sum(axis=1).argmin()))
        positions.append(row)
    return positions


def write_heat_maps(folder: Path, found: Evaluation, names: Sequence[str]) -> None:
    """Draws the matrices behind the scores; those of other scores are removed.

    Args:
        folder: Folder of the pictures.
        found: Scores with the matrices behind them.
        names: Names of the factors.
    """
    plots: dict[str, Callable[..., Any]] = {
        "infomec": plot_nmi,
        "dci": plot_importance,
    }
    for name, plot in plots.items():
        if name not in found.results:
            (folder / f"{name}.png").unlink(missing_ok=True)
        else:
            pixels = figure_pixels(
                plot(found.results[name], source_names=names), dpi=90
            )
            _write_png(folder / f"{name}.png", pixels)


def _save(folder: Path, name: str, rows: np.ndarray, side: int, gap: int) -> None:
    if rows.shape[2] != side:
        flat = rows.reshape(-1, *rows.shape[2:])
        rows = in_rows(resized(flat, side), rows.shape[1])
    _write_png(folder / name, image_grid(rows, gap=gap))


def _write_png(path: Path, pixels: np.ndarray) -> None:
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "png", optimize=True)
    write_bytes(path, stream.getbuffer())
