"""Finished runs that were written by hand instead of trained."""

import numpy as np
from PIL import Image

from experiments.storage.files import write_json
from experiments.storage.provenance import provenance
from experiments.storage.run_directory import RunDirectory
from tests.experiments.runs import tiny_config

SIDE, LATENTS, STEPS = 4, 3, 5


def cell_color(base, latent, value):
    """The colour of one cell of a made traversal sprite."""
    return [40 * base + 10, 60 * latent + 20, 50 * value + 5]


def make_run(folder, scores, method="qlae", **settings):
    """A run folder with a config, scores, a history and pictures of plain colours."""
    with RunDirectory(folder) as directory:
        directory.start(tiny_config(method, **settings))
        metrics = {
            "scores": scores,
            "checkpoint": {"step": 12},
            "trained_steps": 12,
            "provenance": provenance(),
        }
        write_json(directory.metrics_file, metrics)
        for step in (2, 4, 6):
            row = {"step": step, "loss": 1 / step, "unmeasured": float("nan")}
            directory.history.append(row)
        directory.pictures.mkdir()
        sprites = [_write_sprite(directory.pictures, base) for base in range(2)]
        index = {
            "side": SIDE,
            "latents": LATENTS,
            "steps": STEPS,
            "codes": [[1, 2, 3], [0, 0, 0]],
            "sprites": sprites,
            "frequencies": [[0.5, 0.5], [1.0, 0.0], [0.25, 0.75]],
        }
        write_json(directory.pictures / "index.json", index)
    return folder


def _write_sprite(folder, base):
    pixels = np.zeros((LATENTS * SIDE, STEPS * SIDE, 3), np.uint8)
    for latent in range(LATENTS):
        for value in range(STEPS):
            rows = slice(latent * SIDE, (latent + 1) * SIDE)
            columns = slice(value * SIDE, (value + 1) * SIDE)
            pixels[rows, columns] = cell_color(base, latent, value)
    names = [f"base-{base}.png", f"traversal-{base}.png"]
    Image.fromarray(pixels[:SIDE, :SIDE]).save(folder / names[0])
    Image.fromarray(pixels).save(folder / names[1])
    return names
