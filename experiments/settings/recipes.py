"""Recipes: what each paper trained with, and what fits a CPU.

Every row may be edited by itself. A run takes, later ones winning: the profile's
`EVERY_RUN`, its row for the method, its row for the method and the dataset, and the
flags. Numbers are those of the papers' tables; where a table was swept, the value that
the authors chose.
"""

from collections.abc import Mapping
from typing import Any

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
    "num_labels",
    "evaluate_every",
    "evaluation_size",
    "log_every",
    "psnr_threshold",
    "select",
)

# Least PSNR in dB of a checkpoint that may be reported, at 64x64 (Tripod, table 2).
# The authors' own PSNR overflows in uint8 and comes out higher than ours.
PSNR_THRESHOLDS = {
    "paper": {"shapes3d": 38.0, "mpi3d": 42.0, "falcor3d": 34.0, "isaac3d": 40.0},
    "cpu": CPU_PSNR_THRESHOLDS,
}
_EVERY_RUN: dict[str, Any] = {
    "image_size": 64,
    "width": 1.0,
    "network": None,  # that of the method's paper
    "num_latents": None,  # twice the number of factors
    "encoder_options": {},
    "decoder_options": {},
    "num_labels": 0,
    "evaluation_size": 10_000,
    "log_every": 100,
    "psnr_threshold": None,  # that of the dataset, if the method's paper has one
    "select": None,  # "infom" with a threshold, otherwise "last"
}

# Hsu et al. 2023, tables 9 and 10.
_QLAE = {"steps": 200_000, "batch_size": 128, "evaluate_every": 5_000}
_QLAE_ADAM = {"learning_rate": 1e-3, "beta_1": 0.9, "beta_2": 0.99}
_GAN = {"steps": 40_000, "batch_size": 320, "evaluate_every": 5_000}  # 5 x 64
_GAN_ADAM = {"learning_rate": 2e-4, "beta_1": 0.0, "beta_2": 0.9}
# Baykal et al., appendix A: a batch of a factor_* method is two halves of 256.
_FQVAE = {"steps": 100_000, "batch_size": 256, "evaluate_every": 5_000}
_FQVAE_TWO = {"steps": 50_000, "batch_size": 512, "evaluate_every": 5_000}
# Friede et al. 2023, appendix 5.
_FRIEDE = {
    "steps": 300_000,
    "batch_size": 64,
    "num_latents": 10,
    "evaluate_every": 10_000,
}
_FRIEDE_D = {"num_values": 64, "noise_scale": "cosine(0.5, 2.0)"}
_FRIEDE_ADAM = {"learning_rate": 1e-4}
# Barin-Pacela et al. 2025, appendix F.4: 100 epochs of Shapes3D.
_CLIFF = {
    "steps": 750_000,
    "batch_size": 64,
    "num_latents": 10,
    "evaluate_every": 25_000,
}
# Hsu et al. 2024, table 4.
_TRIPOD = {"steps": 200_000, "batch_size": 64, "evaluate_every": 10_000}
_TRIPOD_ADAM = {"learning_rate": 1e-3, "beta_1": 0.9, "beta_2": 0.99}

_METHODS: dict[str, dict[str, Any]] = {
    "ae": {**_QLAE, **_QLAE_ADAM, "weight_decay": 0.0},
    "beta_vae": {**_QLAE, **_QLAE_ADAM, "beta": 3.0},
    "beta_tcvae": {**_QLAE, **_QLAE_ADAM, "beta": 3.0},
    "bio_ae": {**_QLAE, **_QLAE_ADAM, "activity_weight": 1e-2, "weight_decay": 1e-4},
    "vq_vae": {**_QLAE, **_QLAE_ADAM, "weight_decay": 1e-2},
    "qlae": {**_QLAE, **_QLAE_ADAM, "num_values": 10, "weight_decay": 0.1},
    "qlae_global": {**_QLAE, **_QLAE_ADAM, "num_values": 10, "weight_decay": 0.1},
    "infowgan_gp": {**_GAN, **_GAN_ADAM, "weight_decay": 1e-3},
    "ql_infowgan_gp": {**_GAN, **_GAN_ADAM, "num_values": 10, "weight_decay": 1e-3},
    "dvae": {**_FQVAE, "num_values": 64, "kl_weight": 5e-3},
    "qvae": {**_FQVAE, "num_values": 64, "kl_weight": 1e-3},
    "factor_dvae_learned": {**_FQVAE_TWO, "kl_weight": 5e-3, "tc_weight": 5e-4},
    "factor_qvae": {**_FQVAE_TWO, "kl_weight": 1e-3, "tc_weight": 1e-4},
    # Kim and Mnih draw two batches; 128 is two of the 64.
    "factor_vae": {**_FRIEDE, **_FRIEDE_ADAM, "batch_size": 128, "tc_weight": 30.0},
    "d_vae": {**_FRIEDE, **_FRIEDE_ADAM, **_FRIEDE_D},
    "factor_d_vae": {**_FRIEDE, **_FRIEDE_ADAM, **_FRIEDE_D, "tc_weight": 30.0},
    "supervised_vae": {**_FRIEDE, **_FRIEDE_ADAM, "num_labels": 1000},
    "tripod": {**_TRIPOD, **_TRIPOD_ADAM, "num_values": 12},
    "tripod_naive": {
        **_TRIPOD,
        **_TRIPOD_ADAM,
        "num_values": 12,
        "decoder_options": {"normalize_outputs": True},
    },
    "cliff": {
        **_CLIFF,
        **_FRIEDE_ADAM,
        "cliff_weight": 1.0,
        "univariate_weight": 0.5,
        "bivariate_weight": 1.0,
        "uniform_weight": 0.7,
        "bandwidth": 0.1,
        "beta": 10.0,
    },
    "hfs": {**_CLIFF, **_FRIEDE_ADAM, "hfs_weight": 100.0, "beta": 1.0},
    "ioss": {**_CLIFF, **_FRIEDE_ADAM, "ioss_weight": 1.0},
    "additive": {**_CLIFF, "learning_rate": 1e-3},
}

# Balls: appendix F.3, 1,000 epochs of 20,000 images in batches of 64.
_BALLS = {
    "steps": 312_000,
    "batch_size": 64,
    "num_latents": 4,
    "learning_rate": 1e-3,
    "evaluate_every": 5_000,
}
_BALLS_AE = {**_BALLS, "network": "resnet", "beta": None, "reduction": "mean"}
# Synthetic data: appendix F.2, 1,000 epochs of one batch.
_GRID2D = {
    "steps": 1_000,
    "batch_size": 5_000,
    "num_latents": 2,
    "network": "mlp",
    "learning_rate": 2e-3,
    "evaluate_every": 100,
    "log_every": 10,
}
_CIRCLES = {"network": "spatial_broadcast", "num_latents": 2}

_DATASETS: dict[tuple[str, str], dict[str, Any]] = {
    # Chosen by the authors from the sweeps of table 11.
    ("qlae", "mpi3d"): {"weight_decay": 1e-3},
    ("qlae_global", "mpi3d"): {"weight_decay": 1e-3},
    ("ql_infowgan_gp", "falcor3d"): {"weight_decay": 1e-4},
    ("ae", "shapes3d"): {"weight_decay": 1e-3},
    ("ae", "mpi3d"): {"weight_decay": 1e-3},
    ("beta_vae", "mpi3d"): {"beta": 0.1},
    ("beta_vae", "falcor3d"): {"beta": 10.0},
    ("beta_vae", "isaac3d"): {"beta": 0.3},
    ("beta_tcvae", "mpi3d"): {"beta": 0.3, "dataset_size": 460_800},
    ("beta_tcvae", "falcor3d"): {"beta": 3.0, "dataset_size": 233_280},
    ("beta_tcvae", "isaac3d"): {"beta": 1.0, "dataset_size": 737_280},
    ("bio_ae", "isaac3d"): {"activity_weight": 0.1},
    # Baykal et al., table A.3.
    ("dvae", "isaac3d"): {"kl_weight": 1e-5},
    ("dvae", "mpi3d"): {"kl_weight": 5e-5},
    ("qvae", "isaac3d"): {"kl_weight": 5e-5},
    ("qvae", "mpi3d"): {"kl_weight": 5e-5},
    ("factor_dvae_learned", "isaac3d"): {"kl_weight": 1e-5, "tc_weight": 1e-5},
    ("factor_dvae_learned", "mpi3d"): {"kl_weight": 5e-5, "tc_weight": 5e-6},
    ("factor_qvae", "isaac3d"): {"kl_weight": 5e-5, "tc_weight": 5e-5},
    ("factor_qvae", "mpi3d"): {"kl_weight": 5e-5, "tc_weight": 1e-6},
    # Hsu et al. 2024: chosen weights, from their public configuration.
    ("tripod", "shapes3d"): {"klm_weight": 1e-4, "nhp_weight": 1e-2},
    ("tripod", "mpi3d"): {"klm_weight": 1e-8, "nhp_weight": 1e-4},
    ("tripod", "falcor3d"): {"klm_weight": 1e-10, "nhp_weight": 1e-2},
    ("tripod", "isaac3d"): {"klm_weight": 1e-4, "nhp_weight": 1e-8},
    # Barin-Pacela et al. 2025, appendix F.
    ("cliff", "balls"): {**_BALLS_AE, "cliff_weight": 0.1},
    ("ioss", "balls"): {**_BALLS_AE, "ioss_weight": 1.0},
    ("hfs", "balls"): _BALLS_AE,
    ("additive", "balls"): _BALLS,
    ("cliff", "grid2d"): {**_GRID2D, "univariate_weight": 0.0, "uniform_weight": 1.0},
    ("hfs", "grid2d"): _GRID2D,
    ("ioss", "grid2d"): _GRID2D,
    # Friede et al. 2023: two latents and a spatial broadcast decoder.
    ("d_vae", "circles"): _CIRCLES,
    ("beta_vae", "circles"): {**_FRIEDE, **_FRIEDE_ADAM, **_CIRCLES, "beta": 1.0},
}

PROFILES: dict[str, tuple[Mapping, Mapping, Mapping]] = {
    "paper": (_EVERY_RUN, _METHODS, _DATASETS),
    "cpu": (
        {**_EVERY_RUN, **CPU_EVERY_RUN},
        {name: {**row, **CPU_METHODS.get(name, {})} for name, row in _METHODS.items()},
        CPU_DATASETS,
    ),
}


def _method_row(methods: Mapping[str, Any], method: str) -> dict[str, Any]:
    """A method's row; without one it is trained like the autoencoder."""
    if method in methods:
        return methods[method]
    return {name: v for name, v in methods["ae"].items() if name in SETTINGS}


def recipe(
    method: str, dataset: str, profile: str = "paper"
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Settings and hyperparameters of a method on a dataset.

    Args:
        method: Name of the method.
        dataset: Name of the dataset. `mini_shapes3d` stands for `shapes3d`, so that it
            takes its row.
        profile: `"paper"` or `"cpu"`.

    Returns:
        `(settings, hyperparameters)`.

    Example:

    ```python
    settings, hyperparameters = recipe("qlae", "mpi3d")
    hyperparameters["weight_decay"]  # 0.001
    ```
    """
    every, methods, pairs = PROFILES[profile]
    original = datasets.info(dataset).stands_for or dataset
    row = {
        **every,
        **_method_row(methods, method),
        **pairs.get((method, original), {}),
        **pairs.get((method, dataset), {}),
    }
    settings = {name: row[name] for name in SETTINGS if name in row}
    rest = {name: value for name, value in row.items() if name not in SETTINGS}
    filtered = METHODS[method].checkpoint == "best_above_psnr"
    if settings["psnr_threshold"] is None and filtered:
        settings["psnr_threshold"] = PSNR_THRESHOLDS[profile].get(dataset)
    if settings["select"] is None:
        # An untrained network can score well by chance: without a filter, the last.
        passes = settings["psnr_threshold"] is not None
        settings["select"] = "infom" if passes else "last"
    return settings, rest
