"""A run that is small enough for tests."""

import json

from experiments.running.training_run import TrainingRun
from experiments.settings.config import RunConfig, resolve

SETTINGS = {
    "image_size": 32,
    "network": "locatello",
    "width": 0.125,
    "num_latents": 4,
    "batch_size": 8,
    "steps": 12,
    "log_every": 2,
    "evaluate_every": 6,
    "evaluation_size": 200,
    "metrics": "fast",
    "psnr_threshold": None,
    "select": "infom",
    "checkpoint_seconds": 1e-3,
}


def tiny_config(method: str = "qlae", **settings) -> RunConfig:
    """A config of a dozen steps; keyword arguments override it."""
    hyperparameters = settings.pop("hyperparameters", {})
    seed = settings.pop("seed", 0)
    return resolve(
        method,
        settings.pop("dataset", "mini_shapes3d"),
        profile="cpu",
        seed=seed,
        settings={**SETTINGS, **settings},
        hyperparameters=hyperparameters,
    )


def quiet(text):
    """Reports nothing."""
    del text


def tiny_run(folder, report=quiet, method: str = "qlae", **settings) -> TrainingRun:
    """A run of `tiny_config` without pictures."""
    return TrainingRun(tiny_config(method, **settings), folder, report, pictures=False)


def read_rows(path):
    """The rows of a file with one JSON object a line."""
    return [json.loads(row) for row in path.open()]
