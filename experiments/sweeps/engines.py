"""Where the trials of a sweep run: processes of this machine, or a Ray cluster."""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from experiments.sweeps.trial_process import run_trial

Ended = tuple[Path, dict[str, Any]]
Run = Callable[[Path], dict[str, Any]]
# Runs the trials of these folders; yields `(folder, status)` of each as it ends.
Engine = Callable[[Sequence[Path]], Iterator[Ended]]


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
            "--engine=ray needs Ray: pip install 'qlayers[ray]', or use --engine=local."
        ) from None
    return ray


def run_local(
    folders: Sequence[Path], workers: int = 1, run: Run = run_trial
) -> Iterator[Ended]:
    """Runs trials in processes of this machine, `workers` at a time.

    Args:
        folders: The trials' folders.
        workers: Number of trials at a time.
        run: Runs one trial, see `run_trial`.

    Yields:
        `(folder, status)` of each trial as it ends.
    """
    # Threads only wait for the processes.
    pool = ThreadPoolExecutor(max_workers=workers)
    try:
        futures = {pool.submit(run, folder): folder for folder in folders}
        for future in as_completed(futures):
            yield futures[future], future.result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def run_ray(
    folders: Sequence[Path],
    pictures: bool = True,
    address: str | None = None,
    num_cpus: float = 1,
    num_gpus: float = 0,
) -> Iterator[Ended]:
    """Runs trials as tasks of a Ray cluster that shares this file system.

    Args:
        folders: The trials' folders.
        pictures: Whether trials write TensorBoard files and pictures.
        address: Address of the cluster; None starts or finds a local one.
        num_cpus: Number of CPUs of a trial.
        num_gpus: Number of GPUs of a trial.

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
    try:
        waiting = {task.remote(str(f.resolve()), pictures): f for f in folders}
        while waiting:
            (done, *_), _ = ray.wait(list(waiting), num_returns=1)
            folder = waiting.pop(done)
            yield folder, _result_of(ray, done)
    finally:
        if started:
            ray.shutdown()


def _result_of(ray: Any, reference: Any) -> dict[str, Any]:
    """A task's status; a lost machine is a failed trial, not the end of the sweep."""
    try:
        return ray.get(reference)
    except ray.exceptions.RayError as error:
        return {"state": "failed", "attempts": 1, "log": str(error)}
