"""Cliff's criterion at given latents, and the minimum that lies nearest to the truth.

`studies.cliff_synthetic` sets both beside what training reached. A run that ends above
the true sources is caught in a local minimum; if the least value that any start finds
belongs to other latents than the true ones, the criterion itself prefers those.
"""

import time
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import models
from qlayers.datasets import FactorDataset
from qlayers.functional import cliff_terms
from qlayers.metrics import mcc

_CONDITIONS = 200
_RATE = 2e-3  # falls to a hundredth
_HALF_WIDTH = np.sqrt(3.0)


def criterion(latents: np.ndarray) -> float:
    """Cliff's loss with the study's weights, on fixed conditions and an even grid."""
    values = cliff_terms(
        latents.astype("float32"),
        conditions=np.arange(min(_CONDITIONS, len(latents))),
        uniform_points=np.linspace(-_HALF_WIDTH, _HALF_WIDTH, 100, dtype="float32"),
        terms=["bivariate", "uniform"],
    )
    return float(values["bivariate"]) + float(values["uniform"])


def ranks_of(sources: np.ndarray) -> np.ndarray:
    """Ranks of each source in (0, 1): uniform marginals, axes as they were."""
    return (sources.argsort(0).argsort(0) + 0.5) / len(sources)


def from_the_truth(
    dataset: FactorDataset,
    size: int,
    hyperparameters: Mapping[str, Any],
    steps: Mapping[str, int],
    seed: int,
) -> dict[str, float]:
    """Trains the study's encoder to invert the mixing, then on the criterion alone.

    Args:
        dataset: The points.
        size: How many of them.
        hyperparameters: Of the method `cliff`.
        steps: Steps of `"inversion"` and of the `"criterion"`, full batch.
        seed: Of the network and of the criterion's draws.

    Returns:
        Criterion and MCC after the inversion and after the criterion, and seconds.
    """
    started = time.perf_counter()
    sources, points = dataset.evaluation_set(size)
    keras.utils.set_random_seed(seed)
    model = models.build(
        "cliff", (points.shape[1],), sources.shape[1], network="mlp", **hyperparameters
    )
    scores: dict[str, float] = {}
    for name, trained in (("inversion", model.encoder), ("criterion", model)):
        target = (2 * ranks_of(sources) - 1) * _HALF_WIDTH
        goal = {"loss": "mse"} if name == "inversion" else {}
        rate = keras.optimizers.schedules.CosineDecay(_RATE, steps[name], alpha=0.01)
        trained.compile(optimizer=keras.optimizers.Adam(rate), **goal)
        # One endless epoch: a thousand of one step each would cost as much again.
        whole = (points, target) if goal else (points,)
        stream = tf.data.Dataset.from_tensors(whole).repeat()
        trained.fit(stream, steps_per_epoch=steps[name], shuffle=False, verbose=0)
        latents = keras.ops.convert_to_numpy(model.encoder(points))
        scores[f"{name}/criterion"] = criterion(latents)
        scores[f"{name}/mcc"] = float(mcc(sources, latents))
    return {**scores, "seconds": time.perf_counter() - started}
