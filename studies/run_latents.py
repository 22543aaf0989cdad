"""Keeps what a finished run makes of 1,000 images, so that UDR needs no weights later.

    python -m studies.run_latents RUN

The file is some 40 KB, small enough to be kept beside a run's scores; a study that goes
on from a fresh clone can then compare new runs with earlier ones.
"""

import argparse
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments.reporting.summary import FinishedRun
from experiments.running.agreement import Representation, encode_run
from studies.study import ROOT
from studies.trials import run_apart

FILE = "latents.npz"


def write_latents(run: Path) -> Path:
    """Encodes the images and writes latents, and which of them carry information.

    Args:
        run: Folder of a finished run.
    """
    found = encode_run(run)
    arrays: dict[str, Any] = {"latents": np.asarray(found.latents, np.float32)}
    if found.active is not None:
        arrays["active"] = found.active
    path = run / FILE
    np.savez_compressed(path, **arrays)
    return path


def read_latents(run: Path) -> Representation:
    """What `write_latents` wrote.

    Args:
        run: Folder of the run, or of what a study keeps of it.
    """
    with np.load(run / FILE, allow_pickle=False) as arrays:
        active = arrays.get("active")
        return Representation(arrays["latents"], active)


def encode(run: FinishedRun, size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sources, images and noise-free latents of a run's evaluation set.

    Args:
        run: A finished run.
        size: Number of images.
    """
    import keras

    import qlayers  # noqa: F401, registers the layers
    from experiments.running.setup import load_dataset

    dataset = load_dataset(run.config)
    sources, images = dataset.evaluation_set(size)
    encoder = keras.models.load_model(run.path / "encoder.keras")
    batches = np.array_split(images, max(1, len(images) // 500))
    latents = [keras.ops.convert_to_numpy(encoder(batch)) for batch in batches]
    return sources, images, np.concatenate(latents)


def run_and_encode(
    folder: Path,
    pictures: bool = False,
    stop: threading.Event | None = None,
    run: Callable[..., dict[str, Any]] = run_apart,
) -> dict[str, Any]:
    """Runs a trial and writes its latents, in processes of their own or in this one.

    Args:
        folder: The trial's folder, with its config.
        pictures: Whether it writes TensorBoard files and pictures.
        stop: Ends the trial when it is set.
        run: `studies.trials.run_apart` or `run_here`.
    """
    status = run(folder, pictures=pictures, stop=stop)
    if status["state"] == "finished" and run is run_apart:
        command = [sys.executable, "-m", "studies.run_latents", str(folder)]
        subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    elif status["state"] == "finished":
        write_latents(folder)
    return status


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser("python -m studies.run_latents", None, __doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("run", type=Path, help="folder of a finished run")
    print(f"Written: {write_latents(parser.parse_args(arguments).run)}")


if __name__ == "__main__":
    main()
