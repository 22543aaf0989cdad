"""The final scores of a run, and the file that keeps them."""

from collections.abc import Callable, Mapping
from typing import Any

from experiments.running.evaluation import Evaluation, evaluate_model, final_sample
from experiments.settings.config import RunConfig
from experiments.storage.files import write_json
from experiments.storage.provenance import provenance
from experiments.storage.run_directory import RunDirectory
from models import LatentModel
from qlayers.datasets import FactorDataset


def score_run(
    config: RunConfig,
    directory: RunDirectory,
    model: LatentModel,
    dataset: FactorDataset,
    checkpoint: Mapping[str, Any],
    report: Callable[[str], None],
    metrics: str | None = None,
    protocol: str | None = None,
) -> Evaluation:
    """Takes the final scores and writes `metrics.json`.

    Args:
        config: Settings of the run.
        directory: Folder of the run.
        model: The model to score.
        dataset: The dataset, whose evaluation set is used.
        checkpoint: Record of the checkpoint, see `CheckpointChoice.load`.
        report: Called with lines of text for the user.
        metrics: Metrics to use instead of the run's.
        protocol: Protocol of InfoMEC to use instead of the run's.
    """
    sample = final_sample(config, dataset)
    metrics, protocol = metrics or config.metrics, protocol or config.protocol
    found = evaluate_model(
        config, model, sample, metrics=metrics, protocol=protocol, report=report
    )
    write_json(
        directory.metrics_file,
        {
            "scores": found.scores,
            "checkpoint": checkpoint,
            "trained_steps": config.steps,
            "settings": {
                "metrics": metrics,
                "protocol": protocol,
                "samples": len(sample.images),
                "selection": config.select,
                "psnr_threshold": config.psnr_threshold,
            },
            "results": {name: r.to_dict() for name, r in found.results.items()},
            "provenance": provenance(),
        },
    )
    width = max(map(len, found.scores))
    lines = [f"  {name:<{width}}  {value:.4f}" for name, value in found.scores.items()]
    report("\n".join([f"Scores of {directory.path}:", *lines]))
    return found
