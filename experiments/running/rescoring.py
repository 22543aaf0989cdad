"""Scores of a run that was trained before."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

from experiments.running.board import shown_sample
from experiments.running.checkpoint_choice import CheckpointChoice
from experiments.running.evaluation import Evaluation
from experiments.running.export import export
from experiments.running.pictures import write_pictures
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
    pictures: bool = True,
) -> Evaluation:
    """Loads the chosen checkpoint, exports it and writes `metrics.json`.

    The pictures of a report are drawn again: the heat maps show these scores, and a
    run that was killed at its end lacks some.

    Args:
        directory: Folder of the run.
        config: Settings of the run.
        metrics: Metrics to use instead of the run's.
        protocol: Protocol of InfoMEC to use instead of the run's.
        scores: Further metrics to use instead of the run's.
        report: Called with lines of text for the user.
        pictures: Whether to draw the pictures.
    """
    configure_tensorflow(config)
    dataset = load_dataset(config)
    if not directory.has_seen(dataset.fingerprint):
        report(
            f"The images or labels in {config.data_dir} are not those that the model "
            "was trained with: these are the scores of what is there now."
        )
    model = build_model(config, dataset)
    checkpoint = load_trained(directory, config, model, report)
    export(model, directory)

    def draw(found: Evaluation) -> None:
        if pictures and config.has_decoder:
            _, images = shown_sample(config, dataset)
            names = dataset.factor_names
            write_pictures(directory, model, images, found, config, names)

    return score_run(
        config,
        directory,
        model,
        dataset,
        checkpoint,
        report,
        metrics,
        protocol,
        scores,
        draw,
    )


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
    snapshot = CheckpointStore(directory.checkpoints, report=report).latest(model)
    if snapshot is None or snapshot.step < config.steps:
        done = 0 if snapshot is None else snapshot.step
        raise ValueError(
            f"{directory.path} is trained for {done} of {config.steps} steps. Finish "
            "it first: start `experiments.train` again."
        )
    last = functools.partial(apply_snapshot, model, snapshot)
    return CheckpointChoice(config, directory).load(model, last, report)
