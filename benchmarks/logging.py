"""What logging and checkpoints cost a run, and what a restart loses.

    python -m benchmarks.logging

`ratio` compares the training loop with history, progress, TensorBoard scalars and
checkpoints at default settings with the same steps without any of them, in turns
within one process: the loop that `experiments.train` runs, its watch over non-finite
losses included. Evaluations and pictures are left out: they are asked for.
`lost_s` is the longest training time between two checkpoints, which is what a kill
costs; `restore_ms` the time to read one back.
"""

import os
import statistics
import tempfile
import time
from typing import Any

from benchmarks.timing import Row, machine, median_ratio, print_table, use_threads

_STEPS = 50  # of one measurement
_REPEATS = 30


def run() -> list[Row]:
    """One row for each network that is measured."""
    use_threads()
    return [measure("qlae")]


def measure(method: str) -> Row:
    """Time of a step with everything that a run writes, and without."""
    from experiments.running.setup import build_model, load_dataset, make_stream
    from experiments.settings.config import resolve
    from experiments.storage.run_directory import RunDirectory

    config = resolve(method, profile="cpu")
    dataset = load_dataset(config)
    model = build_model(config, dataset)
    model.make_train_function()
    batches = iter(make_stream(config, dataset, 0))
    with tempfile.TemporaryDirectory() as folder, RunDirectory(folder) as directory:
        directory.start(config)
        loop = _make_loop(config, directory, model, dataset)
        times, gaps = _alternate(loop, model, batches)
        plain, logged = (statistics.median(times[name]) for name in times)
        return {
            "case": f"{method}, cpu profile",
            "ours": "logged",
            "peer": "plain",
            "ours_ms": 1e3 * logged,
            "peer_ms": 1e3 * plain,
            "ratio": median_ratio(times["logged"], times["plain"]),
            "ratio_of_minima": min(times["logged"]) / min(times["plain"]),
            "goal": 1.03,
            "lost_s": max(gaps),
            **_checkpoint_costs(loop, model),
        }


def _make_loop(config: Any, directory: Any, model: Any, dataset: Any) -> Any:
    from experiments.running.board import Board
    from experiments.running.training_loop import Hooks, TrainingLoop

    board = Board(config, directory, model, dataset)
    hooks = Hooks(lambda step, terms: board.log(step, terms, model), lambda step: None)
    return TrainingLoop(config, directory, model, hooks)


def _alternate(
    loop: Any, model: Any, batches: Any
) -> tuple[dict[str, list[float]], list[float]]:
    """Seconds a step of both sides, and training times between checkpoints."""
    from experiments.running.progress import Progress
    from experiments.running.training_step import TrainingStep

    step = TrainingStep(model)
    loop.guard.begin(loop.step)
    gaps: list[float] = []
    times: dict[str, list[float]] = {"plain": [], "logged": []}
    since_checkpoint = 0.0

    def plain() -> None:
        for _ in range(_STEPS):
            model.train_function(batches)

    def logged() -> None:
        # Training time alone counts towards the next checkpoint.
        nonlocal since_checkpoint
        loop._saved_time = time.monotonic() - since_checkpoint
        for _ in range(_STEPS):
            saved = loop._saved_time
            loop.advance(step, batches, progress)
            if loop._saved_time != saved:
                gaps.append(loop._saved_time - saved)
        since_checkpoint = time.monotonic() - loop._saved_time

    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        progress = Progress(10**9, loop.config.batch_size, stream=nowhere)
        sides = {"plain": plain, "logged": logged}
        for repeat in range(_REPEATS + 1):
            names = list(sides) if repeat % 2 else list(sides)[::-1]
            for name in names:
                start = time.perf_counter()
                sides[name]()
                if repeat:  # the first warms up
                    times[name].append((time.perf_counter() - start) / _STEPS)
    return times, gaps


def _checkpoint_costs(loop: Any, model: Any) -> Row:
    from experiments.storage.checkpoints import apply_snapshot, take_snapshot

    start = time.perf_counter()
    take_snapshot(model, 0)
    copying = time.perf_counter() - start
    loop.step += 1
    loop._save_if_good()
    loop.store.wait()
    start = time.perf_counter()
    apply_snapshot(model, loop.store.latest())
    return {
        "restore_ms": 1e3 * (time.perf_counter() - start),
        "copy_ms": 1e3 * copying,
        "write_ms": 1e3 * loop.store.write_seconds,
        "checkpoint_mb": loop.store.files()[-1].stat().st_size / 2**20,
    }


def main() -> None:
    print(machine())
    print_table("Logging and restarts", run())


if __name__ == "__main__":
    main()
