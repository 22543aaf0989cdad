"""How far runs that differ in their seed found the same latents (UDR)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from keras import ops

from experiments.running.evaluation import image_dtype
from experiments.running.rescoring import load_trained
from experiments.running.setup import build_model, load_dataset
from experiments.storage.run_directory import RunDirectory
from models import LatentModel
from qlayers.functional import standard_normal_kl, uniform_kl
from qlayers.metrics import model_agreement
from qlayers.pixels import to_unit_range

# Duan et al.: latents with less divergence from the prior carry nothing.
_LEAST_KL = 0.01
SAMPLE_SEED = 20200426
_BATCH = 256


@dataclass(frozen=True)
class Representation:
    """What a model makes of images.

    Attributes:
        latents: (images, n_z) numbers whose order means something.
        active: (n_z,) latents that carry information; None where the model has no
            prior to tell.
    """

    latents: np.ndarray
    active: np.ndarray | None


def run_agreement(
    folders: Sequence[Path],
    *,
    num_images: int = 1_000,
    similarity: str = "spearman",
    report: Callable[[str], None] = lambda text: None,
) -> dict[Path, float]:
    """UDR of each of several runs that differ in nothing but their seed.

    Args:
        folders: Folders of at least two finished runs.
        num_images: Images that all models encode.
        similarity: `"spearman"` or `"lasso"`, see `qlayers.metrics.model_agreement`.
        report: Called with a line of text for each model.

    Example:

    ```python
    run_agreement([Path("runs/sweep/qlae-seed0"), Path("runs/sweep/qlae-seed1")])
    ```

    Reference:
        Duan et al. 2020, Unsupervised Model Selection for Variational Disentangled
        Representation Learning, section 4.
    """
    found = []
    for folder in folders:
        report(f"encoding {num_images} images with {folder}")
        found.append(encode_run(folder, num_images))
    return dict(zip(folders, agreement(found, similarity), strict=True))


def encode_run(folder: Path, num_images: int = 1_000) -> Representation:
    """What the model of a finished run makes of images that are the same for all runs.

    Args:
        folder: Folder of the run.
        num_images: Images to encode.
    """
    directory = RunDirectory(folder)
    config = directory.load_config()
    dataset = load_dataset(config)
    _, images = dataset.sample(num_images, SAMPLE_SEED, dtype=image_dtype(config))
    model = build_model(config, dataset)
    load_trained(directory, config, model, lambda text: None)
    return representation(model, images)


def agreement(
    found: Sequence[Representation], similarity: str = "spearman"
) -> list[float]:
    """UDR of each of several models from what they make of the same images.

    Args:
        found: At least two representations.
        similarity: `"spearman"` or `"lasso"`, see `qlayers.metrics.model_agreement`.
    """
    masks = [each.active for each in found if each.active is not None]
    result = model_agreement(
        [each.latents for each in found],
        similarity=similarity,
        active=masks if len(masks) == len(found) else None,
    )
    return [float(score) for score in result.model_scores]


def representation(model: LatentModel, images: np.ndarray) -> Representation:
    """The latents of images as ranks can compare them.

    Codes enter by their values, since the order of a codebook's indices is arbitrary.

    Args:
        model: A model.
        images: uint8 or float images.
    """
    quantizer = model.quantizer
    if quantizer is None:
        return Representation(model.encode(images), None)
    if quantizer.scored_as == "reals":
        return Representation(model.encode(images), _informative(model, images))
    latents = ops.convert_to_numpy(quantizer.lookup(model.codes(images)))
    if latents.shape[1] != quantizer.num_latents:
        raise ValueError(
            f"The codes of {model.name} are vectors of "
            f"{latents.shape[1] // quantizer.num_latents} numbers: UDR compares "
            "latents that are one number each."
        )
    return Representation(latents, None)


def _informative(model: LatentModel, images: np.ndarray) -> np.ndarray | None:
    """Latents whose mean divergence from the prior is above the threshold."""
    quantizer: Any = model.quantizer
    if hasattr(quantizer, "moments"):

        def divergence(features: np.ndarray) -> np.ndarray:
            return standard_normal_kl(*quantizer.moments(features))
    elif hasattr(quantizer, "logits"):
        # Excluded categories have no probability.
        categories = getattr(quantizer, "active_categories", None)
        counts = None if categories is None else np.array([*map(len, categories)])

        def divergence(features: np.ndarray) -> np.ndarray:
            return uniform_kl(quantizer.logits(features), counts)
    else:
        return None
    sums, pixels = 0.0, to_unit_range(images)
    for start in range(0, len(pixels), _BATCH):
        batch = ops.convert_to_tensor(pixels[start : start + _BATCH])
        values = ops.convert_to_numpy(divergence(model.quantizer_inputs(batch)))
        sums = sums + values.sum(axis=0)
    return np.asarray(sums) / len(pixels) > _LEAST_KL
