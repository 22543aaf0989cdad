"""Where the trials of a sweep run: processes of this machine, or a Ray cluster."""

import os
import threading
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from experiments.sweeps.trial_process import run_trial

Ended = tuple[Path, dict[str, Any]]
# Runs the trial of a folder until it ends or the event `stop` is set.
Run = Callable[..., dict[str, Any]]
# Runs the trials of these folders; yields `(folder, status)` of each as it ends.
Engine = Callable[[Sequence[Path]], Generator[Ended, None, None]]


def check_engine(engine: str, workers: int, strategy: str) -> None:
    """Raises a ValueError for what the engine cannot do, before anything is made."""
    if strategy == "multiworker":
        raise ValueError(
            "A trial of a sweep is one process; --strategy=multiworker is for "
            "experiments.train, started on every machine."
        )
    if engine == "ray":
        if workers != 1:
            raise ValueError(
                "--workers is for --engine=local; Ray counts --trial_cpus."
            )
        _import_ray()


def _import_ray() -> Any:
    try:
        import ray
    except ImportError:
        raise ValueError(
            "--engine=ray needs Ray: pip install -e '.[ray]' in the clone, or use "
            "--engine=local."
        ) from None
    return ray


def run_local(
    folders: Sequence[Path], workers: int = 1, run: Run = run_trial
) -> Generator[Ended, None, None]:
    """Runs trials in processes of this machine, `workers` at a time.

    Args:
        folders: The trials' folders.
        workers: Number of trials at a time.
        run: Runs one trial, see `run_trial`; called with its folder and `stop`.

    Yields:
        `(folder, status)` of each trial as it ends. Whoever stops asking, for example
        because of Ctrl-C, ends the trials that run.
    """
    stop = threading.Event()
    # Threads only wait for the processes.
    pool = ThreadPoolExecutor(max_workers=workers)
    try:
        futures = {pool.submit(run, folder, stop=stop): folder for folder in folders}
        for future in as_completed(futures):
            yield futures[future], _status_of(future)
    finally:
        stop.set()
        pool.shutdown(wait=True, cancel_futures=True)


def _status_of(future: Future[dict[str, Any]]) -> dict[str, Any]:
    """A trial's status; an error such as a deleted folder fails this trial alone."""
    try:
        return future.result()
    except (OSError, ValueError) as error:
        text = f"{type(error).__name__}: {error}"
        return {"state": "failed", "attempts": 1, "reason": text, "log": text}


def run_ray(
    folders: Sequence[Path],
    pictures: bool = True,
    address: str | None = None,
    num_cpus: float = 1,
    num_gpus: float = 0,
    timeout: float | None = None,
) -> Generator[Ended, None, None]:
    """Runs trials as tasks of a Ray cluster that shares this file system.

    Args:
        folders: The trials' folders.
        pictures: Whether trials write TensorBoard files and pictures.
        address: Address of the cluster; None starts or finds a local one.
        num_cpus: Number of CPUs of a trial.
        num_gpus: Number of GPUs of a trial.
        timeout: Seconds without progress that end a trial, see `run_trial`.

    Yields:
        `(folder, status)` of each trial as it ends.
    """
    ray = _import_ray()
    root = str(Path(__file__).resolve().parents[2])
    paths = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
    started = not ray.is_initialized()
    if started:
        environment = {"env_vars": {"PYTHONPATH": paths}}
        ray.init(address=address, runtime_env=environment, log_to_driver=False)
    task = ray.remote(num_cpus=num_cpus, num_gpus=num_gpus)(run_trial)
    waiting: dict[Any, Path] = {}
    try:
        waiting |= {
            task.remote(str(f.resolve()), pictures, timeout=timeout): f for f in folders
        }
        while waiting:
            (done, *_), _ = ray.wait(list(waiting), num_returns=1)
            folder = waiting.pop(done)
            yield folder, _result_of(ray, done)
    finally:
        for reference in waiting:
            ray.cancel(reference, force=True)  # a trial ends with its worker
        if started:
            ray.shutdown()


def _result_of(ray: Any, reference: Any) -> dict[str, Any]:
    """A task's status; a lost machine is a failed trial, not the end of the sweep."""
    try:
        return ray.get(reference)
    except ray.exceptions.RayError as error:
        return {"state": "failed", "attempts": 1, "log": str(error)}
