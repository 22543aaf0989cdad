"""The final scores of a run, and the file that keeps them."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from experiments.running.evaluation import (
    Evaluation,
    evaluate_model,
    final_sample,
    sampled_scores,
)
from experiments.running.setup import validation_labels
from experiments.settings.choices import SAMPLED_SCORES
from experiments.settings.config import RunConfig
from experiments.storage.files import read_record, write_json
from experiments.storage.provenance import provenance
from experiments.storage.run_directory import RunDirectory
from models import LatentModel
from qlayers.datasets import FactorDataset
from qlayers.metrics.evaluate import PROFILES


def score_run(
    config: RunConfig,
    directory: RunDirectory,
    model: LatentModel,
    dataset: FactorDataset,
    checkpoint: Mapping[str, Any],
    report: Callable[[str], None],
    metrics: str | None = None,
    protocol: str | None = None,
    scores: Sequence[str] | None = None,
    publish: Callable[[Evaluation], object] = lambda found: None,
) -> Evaluation:
    """Takes the final scores and writes `metrics.json`, the last file of a run.

    Args:
        config: Settings of the run.
        directory: Folder of the run.
        model: The model to score.
        dataset: The dataset, whose evaluation set is used.
        checkpoint: Record of the checkpoint, see `CheckpointChoice.load`.
        report: Called with lines of text for the user.
        metrics: Metrics to use instead of the run's.
        protocol: Protocol of InfoMEC to use instead of the run's.
        scores: Further metrics to use instead of the run's.
        publish: Called with the scores before `metrics.json` is written, which says
            that everything is there.
    """
    sample = final_sample(config, dataset)
    metrics, protocol = metrics or config.metrics, protocol or config.protocol
    scores = config.scores if scores is None else scores
    # A small dataset gives fewer images than asked for.
    test_samples = min(config.test_size, len(sample.images) // 3)
    found = evaluate_model(
        config,
        model,
        sample,
        metrics=_names(metrics, scores),
        protocol=protocol,
        test_samples=test_samples,
        labelled=validation_labels(config, dataset),
        report=report,
    )
    drawn = [name for name in scores if name in SAMPLED_SCORES]
    if drawn and sample.sources.shape[1]:
        more = sampled_scores(model, dataset, drawn, config.scored_as, report)
        found = Evaluation.of({**found.results, **more}, found.latents)
    publish(found)
    scored = found.scores
    write_json(
        directory.metrics_file,
        {
            # An exact copy has an infinite PSNR; JSON and means over runs know no such.
            "scores": {k: v if math.isfinite(v) else None for k, v in scored.items()},
            "checkpoint": checkpoint,
            "trained_steps": config.steps,
            "settings": {
                "metrics": metrics,
                "scores": list(scores),
                "protocol": protocol,
                "samples": len(sample.images) - test_samples,
                "test_samples": test_samples,
                "selection": config.select,
                "psnr_threshold": config.psnr_threshold,
                "psnr_variant": config.psnr_variant,
                "data": dataset.fingerprint,
            },
            "results": {name: r.to_dict() for name, r in found.results.items()},
            "provenance": {**provenance(), **_continued(directory)},
        },
    )
    width = max(map(len, scored))
    lines = [f"  {name:<{width}}  {value:.4f}" for name, value in scored.items()]
    report("\n".join([f"Scores of {directory.path}:", *lines]))
    return found


def _names(metrics: str, scores: Sequence[str]) -> tuple[str, ...]:
    """Names of a set of metrics and of further ones, each once."""
    further = [name for name in scores if name not in SAMPLED_SCORES]
    return tuple(dict.fromkeys((*PROFILES[metrics], *further)))


def _continued(directory: RunDirectory) -> dict[str, Any]:
    """Where a run went on with other code, threads or machine, if it did."""
    if not directory.config_file.exists():
        return {}
    record = read_record(directory.config_file)
    return {name: record[name] for name in ("continued",) if name in record}
