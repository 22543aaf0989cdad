"""The folder of a trial: started, and asked whether it is finished."""

from pathlib import Path

from experiments.storage.run_directory import RunDirectory
from experiments.sweeps.plan import Trial


def start_trial(trial: Trial, root: Path) -> Path:
    """Makes a trial's folder and config, or checks the one that is there."""
    with RunDirectory(root / trial.name) as directory:
        directory.start(trial.config)
        return directory.path


def is_finished(folder: Path) -> bool:
    """Whether a trial has been trained and scored."""
    directory = RunDirectory(folder)
    metrics = directory.load_metrics()
    steps = directory.load_config().steps
    return metrics is not None and metrics["trained_steps"] == steps
