"""Scores of a run that was trained before."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

from experiments.running.checkpoint_choice import CheckpointChoice
from experiments.running.evaluation import Evaluation
from experiments.running.export import export
from experiments.running.pictures import write_heat_maps
from experiments.running.scoring import score_run
from experiments.running.setup import build_model, configure_tensorflow, load_dataset
from experiments.settings.config import RunConfig
from experiments.storage.checkpoints import CheckpointStore, apply_snapshot
from experiments.storage.run_directory import RunDirectory
from models import LatentModel


def rescore(
    directory: RunDirectory,
    config: RunConfig,
    metrics: str | None = None,
    protocol: str | None = None,
    scores: Sequence[str] | None = None,
    report: Callable[[str], None] = print,
) -> Evaluation:
    """Loads the chosen checkpoint, exports it and writes `metrics.json`.

    The heat maps of a report are drawn again, since they show these scores.

    Args:
        directory: Folder of the run.
        config: Settings of the run.
        metrics: Metrics to use instead of the run's.
        protocol: Protocol of InfoMEC to use instead of the run's.
        scores: Further metrics to use instead of the run's.
        report: Called with lines of text for the user.
    """
    configure_tensorflow(config)
    dataset = load_dataset(config)
    model = build_model(config, dataset)
    checkpoint = load_trained(directory, config, model, report)
    export(model, directory)
    found = score_run(
        config, directory, model, dataset, checkpoint, report, metrics, protocol, scores
    )
    if directory.pictures.is_dir():
        write_heat_maps(directory.pictures, found, dataset.factor_names)
    return found


def load_trained(
    directory: RunDirectory,
    config: RunConfig,
    model: LatentModel,
    report: Callable[[str], None] = print,
) -> dict[str, Any]:
    """Loads the chosen or the last checkpoint of a run that has reached its end.

    Returns:
        What `metrics.json` says of the checkpoint.
    """
    snapshot = CheckpointStore(directory.checkpoints, report=report).latest()
    if snapshot is None or snapshot.step < config.steps:
        done = 0 if snapshot is None else snapshot.step
        raise ValueError(
            f"{directory.path} is trained for {done} of {config.steps} steps. Finish "
            "it first: start `experiments.train` again."
        )
    last = functools.partial(apply_snapshot, model, snapshot)
    return CheckpointChoice(config, directory).load(model, last, report)
