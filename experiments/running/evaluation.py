"""Scores of a model, during training and at its end."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments.running.labels import LabelledImages, validate_labels
from experiments.running.latents import is_quantized, latents_of, measure_gap
from experiments.running.sizes import SizesResult
from experiments.settings.config import RunConfig
from models import LatentModel
from qlayers.datasets import FactorDataset
from qlayers.metrics import (
    EvaluationResult,
    beta_vae_score,
    evaluate,
    factor_vae_score,
    mcc,
    psnr,
)
from qlayers.pixels import to_unit_range

# Checkpoints are chosen on another sample than the final scores are taken on.
_SELECTION_SEED = 20240418


@dataclass(frozen=True)
class Evaluation:
    """Scores of one state of a model.

    Attributes:
        scores: Numbers by name, `metric/score`.
        results: Full results by metric, with the matrices behind the scores.
        latents: The latents that were scored.
    """

    scores: dict[str, float]
    results: Mapping[str, Any]
    latents: np.ndarray

    @classmethod
    def of(cls, results: Mapping[str, Any], latents: np.ndarray) -> "Evaluation":
        """The evaluation with these results."""
        scores = {
            f"{metric}/{name}": value
            for metric, result in results.items()
            for name, value in result.scores().items()
        }
        return cls(scores, results, latents)


@dataclass(frozen=True)
class Sample:
    """Images and the factors that made them."""

    sources: np.ndarray
    images: np.ndarray


def selection_sample(config: RunConfig, dataset: FactorDataset) -> Sample:
    """The sample that checkpoints are chosen on."""
    dtype = image_dtype(config)
    if config.evaluation_sample == "split":
        return Sample(*dataset.split_set(config.evaluation_size, dtype=dtype))
    return Sample(*dataset.sample(config.evaluation_size, _SELECTION_SEED, dtype=dtype))


def final_sample(config: RunConfig, dataset: FactorDataset) -> Sample:
    """The images that are scored at the end, the same for every run and method.

    The last `test_size` images are those that trees and SAP are tested on.
    """
    size = config.evaluation_size + config.test_size
    is_split = config.evaluation_sample == "split"
    take = dataset.split_set if is_split else dataset.evaluation_set
    return Sample(*take(size, dtype=image_dtype(config)))


def image_dtype(config: RunConfig) -> Any:
    """Bytes where the dataset has images: a quarter of the memory."""
    return "float32" if config.continuous_factors else "uint8"


def evaluate_model(
    config: RunConfig,
    model: LatentModel,
    sample: Sample,
    *,
    metrics: str | Sequence[str],
    protocol: str | None = None,
    test_samples: int = 0,
    labelled: LabelledImages | None = None,
    report: Callable[[str], None] = lambda text: None,
) -> Evaluation:
    """Scores a model on a sample.

    Args:
        config: Settings of the run.
        model: The model.
        sample: Images and factors.
        metrics: Names for `qlayers.metrics.evaluate`; continuous factors have MCC
            alone.
        protocol: Protocol of InfoMEC; by default the config's.
        test_samples: How many images trees, SAP and sample efficiency are tested on.
        labelled: Labelled images that the model has not learned from.
        report: Called with a line of text about each stage.
    """
    report(f"encoding {len(sample.images)} images")
    latents, discrete = latents_of(model, sample.images, config.scored_as)
    if not np.isfinite(latents).all():
        raise ValueError("Latents are not finite: training has diverged.")
    results: dict[str, Any] = {}
    if config.has_decoder:
        images = sample.images[: config.reconstruction_size]
        results.update(_reconstruction_quality(config, model, images))
    report("computing the scores")
    if not sample.sources.shape[1]:
        report(
            "the images have no labels: InfoMEC, DCI, MIG, SAP and all other scores "
            "that compare latents with factors are left out"
        )
    elif config.continuous_factors:
        results["mcc"] = mcc(sample.sources, latents)
    else:
        found: EvaluationResult = evaluate(
            sample.sources,
            latents,
            discrete_latents=discrete,
            metrics=metrics,
            protocol=protocol or config.protocol,
            test_samples=test_samples,
            bootstrap=(
                {"dci_gradient_boosting": config.dci_resamples}
                if config.dci_resamples
                else None
            ),
            verbose=False,
        )
        results = {**found.results, **results}
    if is_quantized(model) and config.has_decoder:
        gap_images = sample.images[: config.reconstruction_size]
        results["straight_through_gap"] = measure_gap(
            model, gap_images, config.gap_loss
        )
    sizes = getattr(model.quantizer, "sizes", None)
    if sizes is not None:
        results["sizes"] = SizesResult.of(sizes())
    if labelled is not None and len(labelled):
        results["label_validation"] = validate_labels(model, labelled)
    return Evaluation.of(results, latents)


def _reconstruction_quality(
    config: RunConfig, model: LatentModel, images: np.ndarray
) -> dict[str, Any]:
    """PSNR, and the variant that the config's threshold is for."""
    pixels, again = to_unit_range(images), model.reconstruct(images)
    found = {"psnr": psnr(pixels, again)}
    if config.psnr_variant != "exact":
        found[filter_metric(config)] = psnr(pixels, again, variant=config.psnr_variant)
    return found


def filter_metric(config: RunConfig) -> str:
    """Name of the PSNR that a run's threshold is compared with."""
    exact = config.psnr_variant == "exact"
    return "psnr" if exact else f"psnr_{config.psnr_variant}"


def sampled_scores(
    model: LatentModel,
    dataset: FactorDataset,
    names: Sequence[str],
    scored_as: str = "auto",
    report: Callable[[str], None] = lambda text: None,
    **sizes: int,
) -> dict[str, Any]:
    """BetaVAE and FactorVAE scores, which draw images of their own.

    Args:
        model: The model.
        dataset: The dataset, whose factors must be countable.
        names: Any of `experiments.settings.choices.SAMPLED_SCORES`.
        scored_as: See `latents_of`.
        report: Called with a line of text about each score.
        sizes: Arguments of the scores, such as `num_train`; by default the papers'.
    """
    functions: dict[str, Callable[..., Any]] = {
        "beta_vae_score": beta_vae_score,
        "factor_vae_score": factor_vae_score,
    }
    found = {}
    for name in names:
        report(f"computing {name}, which draws images of its own")
        found[name] = functions[name](
            dataset,
            lambda images: latents_of(model, images, scored_as)[0],
            verbose=False,
            **sizes,
        )
    return found
