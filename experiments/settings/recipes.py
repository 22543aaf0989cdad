"""Recipes: what the papers trained with, and what fits a CPU.

The profile `paper` takes a published row (`experiments/settings/published/`): that of
the method's own paper on the dataset if it prints one, another paper's otherwise, and
what the method's paper says of all its datasets if nobody does. The address of a row is
a profile too. The profile `cpu` changes some settings (`recipes_cpu.py`). Flags win.
"""

from typing import Any

from experiments.settings.published import (
    method_recipe,
    paper_recipe,
    row_of_profile,
)
from experiments.settings.recipes_cpu import (
    CPU_DATASETS,
    CPU_EVERY_RUN,
    CPU_METHODS,
    CPU_PSNR_THRESHOLDS,
)
from models import METHODS
from qlayers import datasets

# What a row may set besides hyperparameters.
SETTINGS = (
    "steps",
    "batch_size",
    "image_size",
    "num_latents",
    "network",
    "width",
    "encoder_options",
    "decoder_options",
    "dataset_options",
    "num_labels",
    "label_validation",
    "train_fraction",
    "evaluate_every",
    "evaluation_size",
    "test_size",
    "reconstruction_size",
    "log_every",
    "psnr_threshold",
    "psnr_variant",
    "select",
    "metrics",
    "scores",
    "dci_resamples",
    "scored_as",
    "evaluation_sample",
    "gap_loss",
    "protocol",
)

_EVERY_RUN: dict[str, Any] = {
    "image_size": 64,
    "width": 1.0,
    "network": None,  # that of the method's paper
    "num_latents": None,  # twice the number of factors
    "encoder_options": {},
    "decoder_options": {},
    "dataset_options": {},
    "num_labels": 0,
    "label_validation": 0.0,
    "train_fraction": 1.0,
    "evaluation_size": 10_000,
    "test_size": 0,
    "reconstruction_size": 10_000,
    "log_every": 100,
    "psnr_threshold": None,
    "psnr_variant": "exact",
    "select": "last",
    "metrics": "standard",
    "scores": [],
    "dci_resamples": 0,
    "scored_as": "auto",
    "evaluation_sample": "random",
    "gap_loss": "elbo",
    "protocol": "paper",
}


def recipe(
    method: str, dataset: str, profile: str = "paper"
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Settings and hyperparameters of a method on a dataset.

    Args:
        method: Name of the method.
        dataset: Name of the dataset. `mini_shapes3d` stands for `shapes3d`, so that it
            takes its row, without the filter and the options of its files.
        profile: `"paper"`, `"cpu"`, or the address of a published row.

    Returns:
        `(settings, hyperparameters)`.

    Example:

    ```python
    settings, hyperparameters = recipe("qlae", "mpi3d")
    hyperparameters["weight_decay"]  # 0.001
    ```
    """
    original = datasets.info(dataset).stands_for or dataset
    row = {**_EVERY_RUN, **_row(method, original, profile)}
    if dataset != original:
        row.update(psnr_threshold=None, select="last", dataset_options={})
        row["evaluation_sample"] = "random"
    if profile == "cpu":
        row.update(_cpu_changes(method, original, dataset))
    settings = {name: row[name] for name in SETTINGS if name in row}
    rest = {name: value for name, value in row.items() if name not in SETTINGS}
    return settings, rest


def _row(method: str, dataset: str, profile: str) -> dict[str, Any]:
    published = row_of_profile(profile)
    if published is not None:
        row, variant = published
        if (row.method, row.dataset) != (method, dataset):
            raise ValueError(
                f"{row.address} is the method {row.method!r} on {row.dataset!r}, "
                f"received {method!r} on {dataset!r}."
            )
        return row.recipe(variant)
    found = method_recipe(method) if profile == "cpu" else None
    found = found or paper_recipe(method, dataset)
    if found is not None:
        return found
    # A method without a paper is trained like the autoencoder.
    plain = method_recipe("ae") or {}
    return {name: value for name, value in plain.items() if name in SETTINGS}


def _cpu_changes(method: str, original: str, dataset: str) -> dict[str, Any]:
    """What the profile `cpu` sets in the place of the papers' values."""
    changes = {
        **CPU_EVERY_RUN,
        **CPU_METHODS.get(method, {}),
        **CPU_DATASETS.get((method, original), {}),
        **CPU_DATASETS.get((method, dataset), {}),
    }
    threshold = None
    if METHODS[method].checkpoint == "best_above_psnr":
        threshold = CPU_PSNR_THRESHOLDS.get(dataset)
    # An untrained network can score well by chance: without a filter, the last.
    changes["psnr_threshold"] = threshold
    changes["select"] = "last" if threshold is None else "infom"
    return changes
