"""What the host costs a training step, with one and with several steps in a call.

    python -m benchmarks.steps_per_call

On a fast device a small network waits for Python. Here the network is so small (8
inputs, 4 quantized latents) that hardly anything else is left: the time of a step is
what the loop, the call into TensorFlow and its executor take. `ours_us` and `peer_us`
are microseconds a step, of the whole loop that `experiments.train` runs, its watch over
the loss included, with a row of the history every 128 steps and no evaluation.
"""

import os
import statistics
import tempfile
from typing import Any

from benchmarks.timing import Row, compared, machine, measure, print_table, use_threads

_STEPS = 128  # of one measurement, which is from row to row
_COUNTS = (4, 16, 64)
_BATCH = 16


def run() -> list[Row]:
    """A row for each number of steps in a call."""
    use_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        sides = {_name(count): _side(folder, count) for count in (1, *_COUNTS)}
        times = measure(sides, repeats=15)
    return [_row(count, times) for count in _COUNTS]


def _name(count: int) -> str:
    return f"{count} in a call"


def _row(count: int, times: dict[str, list[float]]) -> Row:
    ours, one = _name(count), _name(1)
    return compared(
        "loop around a tiny network",
        ours,
        one,
        times,
        ours_us=1e6 * statistics.median(times[ours]) / _STEPS,
        peer_us=1e6 * statistics.median(times[one]) / _STEPS,
        goal=1.0,
    )


def _side(folder: str, count: int) -> Any:
    """A function that trains `_STEPS` steps, `count` in a call."""
    from experiments.running.progress import Progress
    from experiments.running.training_loop import Hooks, TrainingLoop
    from experiments.running.training_step import TrainingStep
    from experiments.settings.config import resolve
    from experiments.storage.run_directory import RunDirectory

    settings: dict[str, Any] = {"log_every": _STEPS, "evaluate_every": _STEPS}
    settings |= {"steps": 10**9, "steps_per_call": count, "checkpoint_seconds": 1e9}
    config = resolve("qlae", profile="cpu", settings=settings)
    directory = RunDirectory(os.path.join(folder, str(count)))
    directory.path.mkdir()
    model = _tiny_model()
    hooks = Hooks(lambda step, terms: None, lambda step: None)
    loop = TrainingLoop(config, directory, model, hooks)
    loop.guard.begin(0)
    step = TrainingStep(model, steps_per_call=count)
    batches = iter(_batches())
    quiet = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    progress = Progress(10**9, _BATCH, stream=quiet)

    def train() -> None:
        end = loop.step + _STEPS
        while loop.step < end:
            loop.advance(step, batches, progress)

    return train


def _tiny_model() -> Any:
    import keras

    import qlayers

    model = keras.Sequential(
        [
            keras.Input((8,)),
            keras.layers.Dense(4),
            qlayers.LatentQuantizer(num_values=4),
            keras.layers.Dense(8),
        ]
    )
    model.compile("adam", "mse", jit_compile=False)
    return model


def _batches() -> Any:
    import numpy as np
    import tensorflow as tf

    x = np.random.default_rng(0).random((_BATCH, 8), dtype="float32")
    return tf.data.Dataset.from_tensors((x, x)).repeat()


def main() -> None:
    print_table(f"Steps in one call. {machine()}", run())


if __name__ == "__main__":
    main()
