"""Speed of the data against what a training step consumes.

    python -m benchmarks.data

For every dataset: the time of a batch of 64 images 64x64 through `as_tf_dataset`
against that of the train step of an autoencoder of Locatello et al.'s size, measured in
turn; the time from `load` to the first batch, and the memory both took. Datasets that
come from files are prepared beforehand from small files in the published layouts,
filled with rendered images, so that decoding costs what it costs on the real ones.

Other work on the machine slows the train step, which wants all cores at once, more than
the data. `processor_speedup` compares processor times, which do not show that.
"""

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks import timing  # isort: skip (sets what TensorFlow reads at its start)

import keras
import tensorflow as tf

from benchmarks import sample_files
from qlayers import datasets

BATCH_SIZE = 64
_STREAM, _STEP = "as_tf_dataset", "train step"
_ROUNDS = 5
_BATCHES = {_STREAM: 40, _STEP: 8}
_FILE_IMAGES = 4000
_GOAL = 1 / 5  # five times as fast as the training step asks for batches
_GENERATED: dict[str, dict[str, Any]] = {
    name: {} for name in ("mini_shapes3d", "circles", "balls", "grid2d")
}


def locatello_autoencoder() -> keras.Model:
    """Conv 4x4 stride 2 of 32, 32, 64, 64 channels, 256 units, 10 latents, mirrored."""
    layers = keras.layers
    conv = {"kernel_size": 4, "strides": 2, "padding": "same", "activation": "relu"}
    inputs = keras.Input((64, 64, 3))
    x = inputs
    for channels in (32, 32, 64, 64):
        x = layers.Conv2D(channels, **conv)(x)
    x = layers.Dense(256, activation="relu")(layers.Flatten()(x))
    x = layers.Dense(10)(x)
    x = layers.Dense(256, activation="relu")(x)
    x = layers.Reshape((4, 4, 64))(layers.Dense(1024, activation="relu")(x))
    for channels in (64, 32, 32):
        x = layers.Conv2DTranspose(channels, **conv)(x)
    outputs = layers.Conv2DTranspose(3, 4, strides=2, padding="same")(x)
    return keras.Model(inputs, outputs)


def make_train_step() -> Callable[[], None]:
    """A compiled train step on one fixed batch."""
    model = locatello_autoencoder()
    optimizer = keras.optimizers.Adam(1e-4)
    optimizer.build(model.trainable_variables)
    images = tf.random.stateless_uniform((BATCH_SIZE, 64, 64, 3), (0, 0))

    @tf.function
    def train_step() -> tf.Tensor:
        with tf.GradientTape() as tape:
            losses = keras.losses.binary_crossentropy(
                images, model(images, training=True), from_logits=True
            )
            loss = tf.reduce_mean(losses)
        variables = model.trainable_variables
        gradients = tape.gradient(loss, variables)
        optimizer.apply(gradients, variables)
        return loss

    def step() -> None:
        train_step().numpy()

    step()
    return step


def _seconds(call: Callable[[], Any], repeats: int) -> tuple[float, float]:
    """Seconds, and seconds of processor time, per call."""
    begin, begin_cpu = time.perf_counter(), time.process_time()
    for _ in range(repeats):
        call()
    return (
        (time.perf_counter() - begin) / repeats,
        (time.process_time() - begin_cpu) / repeats,
    )


def _resident_megabytes() -> float:
    with open("/proc/self/statm") as stream:
        return int(stream.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def _open_stream(name: str, **options: Any) -> Iterator[Any]:
    dataset = datasets.load(name, **options)
    return iter(dataset.as_tf_dataset(BATCH_SIZE, seed=0))


def measure(
    name: str, options: dict[str, Any], train_step: Callable[[], None]
) -> timing.Row:
    """One row of the table."""
    before = _resident_megabytes()
    begin = time.perf_counter()
    stream = _open_stream(name, **options)
    next(stream)
    start_up = time.perf_counter() - begin
    sides = {_STREAM: lambda: next(stream), _STEP: train_step}
    wall: dict[str, list[float]] = {side: [] for side in sides}
    processor: dict[str, list[float]] = {side: [] for side in sides}
    for _ in range(_ROUNDS):
        for side, call in sides.items():
            seconds, cpu_seconds = _seconds(call, _BATCHES[side])
            wall[side].append(seconds)
            processor[side].append(cpu_seconds)
    row = timing.compared(name, _STREAM, _STEP, wall)
    by_processor = timing.median_ratio(processor[_STREAM], processor[_STEP])
    return {
        **row,
        "speedup": 1 / float(row["ratio"]),  # type: ignore[arg-type]
        "processor_speedup": 1 / by_processor,
        "images_per_s": BATCH_SIZE / statistics.median(wall[_STREAM]),
        "start_s": start_up,
        "goal": _GOAL,
        "memory_mb": _resident_megabytes() - before,
    }


def run() -> list[timing.Row]:
    """Measures all datasets."""
    timing.use_threads()
    train_step = make_train_step()
    rows = [measure(name, options, train_step) for name, options in _GENERATED.items()]
    with tempfile.TemporaryDirectory() as folder:
        sources = sample_files.write_all(Path(folder), _FILE_IMAGES)
        for name, options in sources.items():
            options |= {"data_dir": str(Path(folder) / "data"), "allow_partial": True}
            datasets.load(name, **options)
            rows.append(measure(name, options, train_step))
    return rows


def main() -> None:
    timing.print_table(f"Data, batches of {BATCH_SIZE}: {timing.machine()}", run())


if __name__ == "__main__":
    main()
