"""Trials of a study: how they are planned, run, timed and kept."""

import dataclasses
import shutil
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments.storage.files import read_json, write_json
from experiments.storage.run_directory import RunDirectory
from experiments.sweeps.child_process import Ended, run_child
from experiments.sweeps.plan import Trial, plan_sweep
from experiments.sweeps.trial_process import run_trial

# Settings that make a run tiny, for `--quick`.
QUICK: dict[str, Any] = {"steps": 2, "evaluate_every": 2, "log_every": 1}
_SPENT = "spent.json"
_METRICS = "metrics.json"
KEPT = ("config.json", _METRICS, _SPENT)
KEPT_OF_DIVERGED = ("config.json", "status.json", _SPENT)


def plan_methods(
    dataset: str,
    seeds: Sequence[int],
    settings: Mapping[str, Any],
    hyperparameters: Mapping[str, Mapping[str, Any]],
) -> dict[str, list[Trial]]:
    """Trials of several methods, each with hyperparameters of its own.

    Args:
        dataset: Name of the dataset.
        seeds: Seeds of each method.
        settings: Settings of every run.
        hyperparameters: Hyperparameters by method.
    """
    return {
        method: plan_sweep(
            [method], [dataset], seeds, settings=settings, hyperparameters=values
        )
        for method, values in hyperparameters.items()
    }


def renamed(trials: Sequence[Trial], prefix: str) -> list[Trial]:
    """The same trials in folders whose names begin with `prefix`."""
    return [dataclasses.replace(t, name=f"{prefix}-{t.name}") for t in trials]


def run_and_keep(
    folder: Path,
    start: Callable[..., Any],
    keep: Path | None,
    names: Sequence[str],
    stop: threading.Event,
) -> dict[str, Any]:
    """Runs a trial, adds to the time its folder has cost, and keeps its scores."""
    before, clock = read_spent(folder), time.perf_counter()
    processor, status = time.process_time(), {}
    try:
        status = start(folder, pictures=False, stop=stop)
    finally:
        used = status.pop("cpu_seconds", time.process_time() - processor)
        spent = {
            "seconds": before["seconds"] + time.perf_counter() - clock,
            "cpu_seconds": before["cpu_seconds"] + used,
        }
        write_json(folder / _SPENT, spent)
    if keep:
        kept = {"finished": names, "diverged": KEPT_OF_DIVERGED}
        _keep(folder, keep, kept.get(status.get("reason", status["state"]), ()))
    return {**status, "seconds": spent["seconds"]}


def _keep(folder: Path, keep: Path, names: Sequence[str]) -> None:
    """Copies files of a run, in place of those of an earlier run of its name.

    Figures of single images are left out: they take ten times the room of the rest.
    """
    if not names:
        return
    target = keep / folder.name
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for name in names:
        if name == _METRICS:
            write_json(target / name, without_images(read_json(folder / name)))
        else:
            shutil.copyfile(folder / name, target / name)


def without_images(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """What a run scored, without the figures of single images.

    Args:
        metrics: Content of a run's `metrics.json`.

    Example:

    ```python
    metrics = {"results": {"psnr": {"psnr": 20.0, "psnr_per_image": [19.0, 21.0]}}}
    without_images(metrics)  # {"results": {"psnr": {"psnr": 20.0}}}
    ```
    """
    results = {
        metric: {k: v for k, v in found.items() if not k.endswith("_per_image")}
        for metric, found in metrics.get("results", {}).items()
    }
    return {**metrics, "results": results}


def run_apart(
    folder: Path, pictures: bool = False, stop: threading.Event | None = None
) -> dict[str, Any]:
    """Runs a trial in a process of its own; the status has its `cpu_seconds`.

    Args:
        folder: The trial's folder, with its config.
        pictures: Whether it writes TensorBoard files and pictures.
        stop: Ends the trial when it is set.
    """
    used = 0.0

    def start(command: list[str], log: Any, end: Callable[[], str | None]) -> Ended:
        nonlocal used
        ended = run_child(command, log, end)
        used += ended.cpu_seconds
        return ended

    status = run_trial(folder, pictures, start, stop)
    return {**status, "cpu_seconds": used}


def run_here(
    folder: Path, pictures: bool = False, stop: threading.Event | None = None
) -> dict[str, Any]:
    """Runs a trial in this process, for trials that take no longer than a start.

    The folder, its resumption and its scores are those of a trial with a process of its
    own; what ends this process ends the study, which goes on at its next start.

    Args:
        folder: The trial's folder, with its config.
        pictures: Whether it writes TensorBoard files and pictures.
        stop: Ends the trial when it is set.
    """
    import keras

    from experiments.running.training_run import TrainingRun

    keras.backend.clear_session()
    config = RunDirectory(folder).load_config()
    with open(folder / "log.txt", "a", encoding="utf-8") as log:

        def report(text: str) -> None:
            log.write(f"{text}\n")

        outcome = TrainingRun(config, folder, report, pictures, stop).run()
    status = {"state": "finished", "attempts": 1}
    if not RunDirectory(folder).is_finished():
        status |= {"state": "failed", "reason": outcome}
    write_json(RunDirectory(folder).status_file, status)
    return status


def read_spent(folder: Path) -> dict[str, float]:
    """Wall and processor seconds of a trial, over all its starts."""
    path = folder / _SPENT
    return read_json(path) if path.exists() else {"seconds": 0.0, "cpu_seconds": 0.0}
