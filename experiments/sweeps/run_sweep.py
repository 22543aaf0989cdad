"""Runs the trials of a sweep that are not finished."""

import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from experiments.running.termination import sigterm_interrupts
from experiments.settings.config import RunConfig
from experiments.settings.scores import COLUMNS
from experiments.storage.folder_lock import FolderLock
from experiments.storage.run_directory import RunDirectory
from experiments.sweeps.engines import Engine
from experiments.sweeps.plan import Trial
from qlayers.files import DamagedFileError


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
    with FolderLock(root), sigterm_interrupts():
        folders = [root / trial.name for trial in trials]
        # All are checked before the first is written to: a longer run that is begun
        # no longer counts as finished.
        failed = _damaged(trials, root, RunDirectory.check)
        failed += _damaged(_others(trials, root, failed), root, _start)
        if pictures:
            _write_columns(trials, root)
        sound = [folder for folder in folders if folder not in failed]
        left = [path for path in sound if not RunDirectory(path).is_finished()]
        done = len(sound) - len(left)
        print(f"{len(folders)} trials, {done} of them finished before.", flush=True)
        # Closed at once, not when the collector finds it: trials end with it.
        with contextlib.closing(engine(left)) as running:
            for folder, status in running:
                done += status["state"] == "finished"
                print(f"[{done}/{len(folders)}] {_line(folder, status)}", flush=True)
                if status["state"] != "finished":
                    failed.append(folder)
        return failed


def _line(folder: Path, status: dict[str, Any]) -> str:
    line = f"{folder.name}: {status.get('reason', status['state'])}"
    if "seconds" in status:
        line += f", {status['seconds']:.0f} s"
    return line


def _damaged(
    trials: Sequence[Trial], root: Path, act: Callable[[RunDirectory, RunConfig], Any]
) -> list[Path]:
    """Does something with the folder and the settings of each trial.

    Returns:
        The folders that are damaged, which is reported and no reason to stop the
        others.
    """
    damaged = []
    for trial in trials:
        folder = root / trial.name
        try:
            act(RunDirectory(folder), trial.config)
        except (DamagedFileError, FileExistsError, NotADirectoryError) as error:
            print(
                f"{folder.name}: damaged ({error}). Delete the folder to run it anew."
            )
            damaged.append(folder)
    return damaged


def _others(trials: Sequence[Trial], root: Path, failed: list[Path]) -> list[Trial]:
    return [trial for trial in trials if root / trial.name not in failed]


def _start(directory: RunDirectory, config: RunConfig) -> None:
    """Makes a trial's folder and config."""
    with directory:
        directory.start(config)


def _write_columns(trials: Sequence[Trial], root: Path) -> None:
    """Tells TensorBoard's HParams page which columns the sweep has."""
    from experiments.running.board import hyperparameter_row
    from qlayers.callbacks import write_hyperparameter_columns

    if not any(root.glob("events*")):
        rows = [hyperparameter_row(trial.config) for trial in trials]
        write_hyperparameter_columns(root, rows, list(COLUMNS))
