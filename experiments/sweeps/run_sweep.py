"""Runs the trials of a sweep that are not finished."""

from collections.abc import Sequence
from pathlib import Path

from experiments.settings.scores import COLUMNS
from experiments.storage.folder_lock import FolderLock
from experiments.storage.run_directory import RunDirectory
from experiments.sweeps.engines import Engine
from experiments.sweeps.plan import Trial


def run_sweep(
    trials: Sequence[Trial], root: Path, *, engine: Engine, pictures: bool = True
) -> list[Path]:
    """Runs what is not finished, holds the folder's lock, and prints how it goes.

    Args:
        trials: The trials, see `plan_sweep`.
        root: Folder of the sweep; each trial has one below it.
        engine: Runs trials, for example `functools.partial(run_local, workers=2)`.
        pictures: Whether trials write TensorBoard files; the sweep then writes which
            columns the HParams page has.

    Returns:
        The folders of the trials that failed.

    Example:

    ```python
    trials = plan_sweep(["ae", "qlae"], ["mini_shapes3d"], [0, 1])
    failed = run_sweep(trials, Path("runs/study"), engine=run_local)
    ```
    """
    with FolderLock(root):
        folders = [_start(trial, root) for trial in trials]
        if pictures:
            _write_columns(trials, root)
        left = [path for path in folders if not RunDirectory(path).is_finished()]
        done = len(folders) - len(left)
        print(f"{len(folders)} trials, {done} of them finished before.", flush=True)
        failed = []
        for folder, status in engine(left):
            done += status["state"] == "finished"
            ended = status.get("reason", status["state"])
            line = f"[{done}/{len(folders)}] {folder.name}: {ended}"
            if "seconds" in status:
                line += f", {status['seconds']:.0f} s"
            print(line, flush=True)
            if status["state"] != "finished":
                failed.append(folder)
        return failed


def _start(trial: Trial, root: Path) -> Path:
    """Makes a trial's folder and config, or checks the one that is there."""
    with RunDirectory(root / trial.name) as directory:
        directory.start(trial.config)
        return directory.path


def _write_columns(trials: Sequence[Trial], root: Path) -> None:
    """Tells TensorBoard's HParams page which columns the sweep has."""
    from experiments.running.board import hyperparameter_row
    from qlayers.callbacks import write_hyperparameter_columns

    if not any(root.glob("events*")):
        rows = [hyperparameter_row(trial.config) for trial in trials]
        write_hyperparameter_columns(root, rows, list(COLUMNS))
