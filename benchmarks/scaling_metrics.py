"""Each metric over samples, latents and sources; finished runs; datasets."""

import json
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.growth import Side, Sweep

SAMPLES, LATENTS, SOURCES, VALUES = 3_000, 12, 6, 10
AXES: dict[str, tuple[int, ...]] = {
    "samples": (1_000, 10_000, 100_000, 300_000, 1_000_000),
    "latents": (6, 12, 24, 48),
    "sources": (3, 6, 12, 24),
}

Metric = Callable[[np.ndarray, np.ndarray], object]


def metrics() -> dict[str, tuple[Metric, bool]]:
    """Name -> function of sources and latents, and whether latents are quantized."""
    from qlayers import metrics as m

    def boosted(s: np.ndarray, z: np.ndarray) -> object:
        return m.dci(s, z, estimator="gradient_boosting", verbose=False)

    def forests(s: np.ndarray, z: np.ndarray) -> object:
        return m.dci(s, z, verbose=False)

    return {
        "infomec, codes": (lambda s, z: m.infomec(s, z, discrete_latents=True), True),
        "infomec, real latents": (
            lambda s, z: m.infomec(s, z, discrete_latents=False),
            False,
        ),
        "mig": (m.mig, False),
        "modularity": (m.modularity, False),
        "sap": (m.sap, False),
        "mcc": (m.mcc, False),
        "irs": (m.irs, False),
        "dci, forests, codes": (forests, True),
        "dci, forests, real latents": (forests, False),
        "dci, boosted, codes": (boosted, True),
        "dci, boosted, real latents": (boosted, False),
        "dci_es, 10 trees": (lambda s, z: m.dci_es(s, z, num_trees=10), True),
        "model_agreement, two models": (
            lambda s, z: m.model_agreement([z, z[:, ::-1]]),
            False,
        ),
    }


def make_sample(
    samples: int, latents: int, sources: int, quantized: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Sources, and latents that mix a few of them each, with noise."""
    rng = np.random.default_rng(0)
    found = rng.integers(0, VALUES, (samples, sources))
    mixing = rng.normal(size=(sources, latents))
    mixing *= rng.random(mixing.shape) < 2.4 / sources
    scaled = (found - found.mean(axis=0)) / found.std(axis=0)
    z = np.tanh(scaled @ mixing + 0.3 * rng.normal(size=(samples, latents)))
    if quantized:
        z = np.round((z + 1) / 2 * (VALUES - 1)) / (VALUES - 1) * 2 - 1
    return found, z


def sweeps() -> list[Sweep]:
    """Every metric over every size."""
    return [
        _sweep(name, metric, quantized, axis, sizes)
        for name, (metric, quantized) in metrics().items()
        for axis, sizes in AXES.items()
    ]


def _sweep(
    name: str, metric: Metric, quantized: bool, axis: str, sizes: tuple[int, ...]
) -> Sweep:
    fixed = {"samples": SAMPLES, "latents": LATENTS, "sources": SOURCES}
    del fixed[axis]

    def side(size: int) -> Side:
        sources, latents = make_sample(**{**fixed, axis: size}, quantized=quantized)

        def call() -> object:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return metric(sources, latents)

        return call

    text = ", ".join(f"{value:,} {what}" for what, value in fixed.items())
    return Sweep(name, axis, sizes, side, text)


def loop_sweeps() -> list[Sweep]:
    """A training step, and what a sweep and a report cost that have many runs."""
    return [
        Sweep("training step of QLAE, cpu profile", "batch", (16, 64, 256), _train),
        Sweep("plan of a sweep", "runs", (30, 100, 300, 1000), _plan),
        Sweep("table of finished runs", "runs", (30, 100, 300, 1000), _collect),
    ]


def _train(batch: int) -> Side:
    from experiments.running.setup import build_model, load_dataset, make_stream
    from experiments.settings.config import resolve

    config = resolve("qlae", profile="cpu", settings={"batch_size": batch})
    dataset = load_dataset(config)
    model = build_model(config, dataset)
    model.make_train_function()
    batches = iter(make_stream(config, dataset, 0))
    model.train_function(batches)  # traces it
    return lambda: float(model.train_function(batches)["loss"])


def _plan(count: int) -> Side:
    from experiments.sweeps.plan import plan_sweep

    return lambda: plan_sweep(["qlae"], ["mini_shapes3d"], range(count), profile="cpu")


def _collect(count: int) -> Side:
    from experiments.reporting.summary import find_runs
    from experiments.settings.config import resolve

    folder = tempfile.TemporaryDirectory()
    for seed in range(count):
        run = Path(folder.name) / f"run-{seed}"
        run.mkdir()
        config = resolve("qlae", profile="cpu", seed=seed).to_dict()
        _write(run / "config.json", config)
        scores = {"infomec/modularity": 0.5, "psnr/psnr": 20.0}
        metrics = {"scores": scores, "step": config["steps"], "settings": {}}
        _write(run / "metrics.json", metrics)

    # The call keeps the folder: it goes with it.
    return lambda: find_runs([folder.name])


def _write(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value), encoding="utf-8")
