"""QLAE against a plain autoencoder on mini_shapes3d, in a few minutes on two cores.

    python -m experiments.demo

trains both, prints their scores and writes pictures and a page in which both run.
"""

import os
import time
from pathlib import Path
from typing import Any

import numpy as np
from absl import app, flags

from experiments.settings.environment import load_tensorflow

FLAGS = flags.FLAGS
flags.DEFINE_integer("steps", 2500, "Training steps of each of the two models.")
flags.DEFINE_integer("seed", 0, "Seed of weights and data.")
flags.DEFINE_integer("eval_images", 10_000, "Images that the scores are computed on.")
flags.DEFINE_string("output", "runs/demo", "Folder for the pictures and the page.")

IMAGE_SIZE = 32
NUM_LATENTS = 12
BATCH_SIZE = 64
_SCALE = 2  # of the pictures
# The paper's networks for 32x32 images at half width and without the convolutions
# that keep the resolution: the least that a CPU can train while you watch.
NETWORKS: dict[str, Any] = {
    "network": "style",
    "width": 0.5,
    "encoder_options": {"preserving_layers": 0},
    "decoder_options": {"preserving_layers": 0},
}
METHODS: dict[str, dict[str, Any]] = {
    "ae": {"weight_decay": 0.0},
    "qlae": {"num_values": 4, "weight_decay": 0.1},
}


def main(_: Any) -> None:
    load_tensorflow()
    use_all_cores()
    from qlayers import datasets

    start = time.time()
    dataset = datasets.load("mini_shapes3d", image_size=IMAGE_SIZE)
    sources, images = dataset.evaluation_set(FLAGS.eval_images)
    results = {}
    for method in METHODS:
        print(f"\n{method}: training {FLAGS.steps} steps of {BATCH_SIZE} images")
        model = train(method, dataset, FLAGS.steps, FLAGS.seed)
        results[method] = (model, *score(model, sources, images))
    print_table({name: result[1:] for name, result in results.items()})
    folder = Path(FLAGS.output)
    for path in write_pictures(results, images, dataset.factor_names, folder):
        print(f"wrote {path}")
    page = write_page(results, images, dataset.factor_names, folder)
    print(f"\nOpen {page.resolve()} in a browser: both models run in it.")
    print(f"All in {(time.time() - start) / 60:.1f} minutes.")


def use_all_cores() -> None:
    """Gives TensorFlow a thread for each core, inside operations alone.

    One operation at a time: the order of additions, and with it the last bits of the
    result, is the same at every start on one machine.
    """
    import tensorflow as tf

    threads = min(os.cpu_count() or 1, 8)
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(1)


def train(method: str, dataset: Any, steps: int, seed: int) -> Any:
    """A trained model of one of the two methods."""
    import keras

    import models
    from experiments.running.progress import Progress

    keras.utils.set_random_seed(seed)
    model = models.build(
        method, dataset.image_shape, NUM_LATENTS, **NETWORKS, **METHODS[method]
    )
    model.compile()
    stream = dataset.as_tf_dataset(BATCH_SIZE, seed)
    # Keras's own bar fills a log file with control characters.
    progress = Progress(steps, BATCH_SIZE)
    line = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda batch, logs: progress.update(batch + 1, logs)
    )
    model.fit(stream, steps_per_epoch=steps, shuffle=False, verbose=0, callbacks=[line])
    return model


def score(model: Any, sources: np.ndarray, images: np.ndarray) -> tuple[Any, float]:
    """InfoMEC and PSNR of a model."""
    from qlayers import metrics

    latents = model.encode(images)
    info = metrics.infomec(
        sources, latents, discrete_latents=model.quantizer is not None
    )
    return info, float(metrics.psnr(images, model.decode(latents)))


def print_table(scores: dict[str, tuple[Any, float]]) -> None:
    """The table that the demo ends with."""
    print(f"\n{'':6}{'InfoM':>8}{'InfoE':>8}{'InfoC':>8}{'PSNR':>9}")
    for name, (info, ratio) in scores.items():
        values = (info.modularity, info.explicitness, info.compactness)
        cells = "".join(f"{value:8.2f}" for value in values)
        print(f"{name:6}{cells}{ratio:6.1f} dB")


def write_pictures(
    results: dict[str, Any], images: np.ndarray, factors: Any, folder: Path
) -> list[Path]:
    """Writes a heat map and a traversal of each model."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    import models
    from qlayers import metrics
    from qlayers.pixels import image_grid

    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, (model, info, _) in results.items():
        figure = metrics.plot_nmi(info, source_names=factors)
        paths.append(folder / f"nmi_{name}.png")
        figure.savefig(paths[-1], dpi=110, bbox_inches="tight")
        plt.close(figure)
        num_steps = METHODS[name].get("num_values", 10)
        ranges = models.latent_ranges(model, images)
        rows = models.traverse(model, images[0], num_steps=num_steps, ranges=ranges)
        paths.append(folder / f"traversal_{name}.png")
        picture = image_grid(rows, gap=4, frame=True)
        plt.imsave(paths[-1], picture.repeat(_SCALE, axis=0).repeat(_SCALE, axis=1))
    return paths


def write_page(
    results: dict[str, Any], images: np.ndarray, factors: Any, folder: Path
) -> Path:
    """A page in which both models run: one file, no network, no server."""
    from experiments.reporting.model_page import ShownModel, model_page

    shown = [
        ShownModel(
            name,
            model,
            {
                "InfoM": info.modularity,
                "InfoE": info.explicitness,
                "InfoC": info.compactness,
                "PSNR (dB)": ratio,
            },
            info,
        )
        for name, (model, info, ratio) in reversed(results.items())
    ]
    title = f"QLAE and a plain autoencoder after {FLAGS.steps} steps"
    page = model_page(shown, images, title=title, source_names=factors)
    path = folder / "page.html"
    path.write_text(page, encoding="utf-8")
    return path


if __name__ == "__main__":
    app.run(main)
