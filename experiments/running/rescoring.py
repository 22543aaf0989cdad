"""Scores of a run that was trained before."""

from collections.abc import Callable

from experiments.running.evaluation import Evaluation
from experiments.running.pictures import write_heat_maps
from experiments.running.setup import build_model, configure_tensorflow, load_dataset
from experiments.running.training_run import export, finish_run, load_chosen
from experiments.settings.config import RunConfig
from experiments.storage.checkpoints import CheckpointStore, apply_snapshot
from experiments.storage.run_directory import RunDirectory
from models import LatentModel


def rescore(
    directory: RunDirectory,
    config: RunConfig,
    metrics: str | None = None,
    protocol: str | None = None,
    report: Callable[[str], None] = print,
) -> Evaluation:
    """Loads the chosen checkpoint, exports it and writes `metrics.json`.

    The heat maps of a report are drawn again, since they show these scores.

    Args:
        directory: Of the run.
        config: Of the run.
        metrics: Instead of the run's.
        protocol: Instead of the run's.
        report: Called with lines of text for the user.
    """
    configure_tensorflow(config)
    dataset = load_dataset(config)
    model = build_model(config, dataset)
    chosen = load_trained(directory, config, model, report)
    export(model, directory)
    found = finish_run(
        config, directory, model, dataset, chosen, report, metrics, protocol
    )
    if directory.pictures.is_dir():
        write_heat_maps(directory.pictures, found, dataset.factor_names)
    return found


def load_trained(
    directory: RunDirectory,
    config: RunConfig,
    model: LatentModel,
    report: Callable[[str], None] = print,
) -> dict | None:
    """Loads the chosen or the last checkpoint of a run that has reached its end."""
    snapshot = CheckpointStore(directory.checkpoints, report=report).latest()
    if snapshot is None or snapshot.step < config.steps:
        done = 0 if snapshot is None else snapshot.step
        raise ValueError(
            f"{directory.path} is trained for {done} of {config.steps} steps. Finish "
            "it first: start `experiments.train` again."
        )
    chosen = load_chosen(config, directory, model, report)
    if chosen is None:
        apply_snapshot(model, snapshot)
    return chosen
