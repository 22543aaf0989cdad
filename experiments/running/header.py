"""What a run says about itself before it trains."""

import numpy as np

from experiments.settings.config import RunConfig
from experiments.storage.run_directory import RunDirectory
from models import LatentModel
from qlayers.datasets import FactorDataset


def header(
    config: RunConfig,
    dataset: FactorDataset,
    model: LatentModel,
    directory: RunDirectory,
) -> str:
    """Method, dataset, networks, length and folder, a line each.

    Args:
        config: Settings of the run.
        dataset: Its dataset.
        model: Its model.
        directory: Its folder.
    """
    paper = config.method_record.paper
    lines = {
        "method": config.method + (f" ({paper.title})" if paper else ""),
        "dataset": _dataset_line(dataset),
        "networks": _networks_line(config, model),
        "training": (
            f"{config.steps:,} steps of {config.batch_size} images, evaluated every "
            f"{config.evaluate_every:,}; profile {config.profile}, seed {config.seed}"
        ),
        "folder": f"{directory.path}: checkpoints, scores, models, TensorBoard files",
    }
    return "\n".join(f"{name:<9} {text}" for name, text in lines.items())


def _dataset_line(dataset: FactorDataset) -> str:
    shape = "x".join(map(str, dataset.image_shape))
    count = "endless" if dataset.num_images is None else f"{dataset.num_images:,}"
    kind = "images" if len(dataset.image_shape) == 3 else "points"
    factors = ", ".join(dataset.factor_names) or "no labels"
    return f"{dataset.name}: {count} {kind} of {shape}; {factors}"


def _networks_line(config: RunConfig, model: LatentModel) -> str:
    parts = [("encoder", model.encoder), ("decoder", model.decoder)]
    if model.discriminator is not None:
        parts.append(("discriminator", model.discriminator))
    counts = [
        f"{name} {_num_parameters(part):,}" for name, part in parts if part is not None
    ]
    latent = "no quantizer"
    if model.quantizer is not None:
        latent = type(model.quantizer).__name__
    return (
        f"{config.network}, parameters: {', '.join(counts)}; {config.num_latents} "
        f"latents, {latent}"
    )


def _num_parameters(part: object) -> int:
    return int(sum(np.prod(w.shape) for w in part.trainable_variables))  # type: ignore[attr-defined]
