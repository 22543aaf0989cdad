"""Callbacks that call the model, on every backend, leave training as it is."""

import keras
import numpy as np
import pytest
from keras import ops

import qlayers
from qlayers import callbacks
from tests.metrics.samples import full_grid

pytestmark = pytest.mark.backends

SOURCES = full_grid((3, 4), repeats=5)
IMAGES = np.random.default_rng(0).random((60, 4, 4, 1), dtype="float32")
# Far from the data: what is counted of these shows in every running mean.
WATCHED = 50.0 * IMAGES
METRICS = {"discrete_latents": True, "metrics": ("mig",)}


def make_model():
    keras.utils.set_random_seed(0)
    decay = keras.optimizers.schedules.ExponentialDecay(0.1, 5, 0.5)
    quantizer = qlayers.LatentQuantizer(5, commit_weight=decay, name="q", seed=1)
    inputs = keras.Input((4, 4, 1))
    hidden = keras.layers.Dense(3)(keras.layers.Flatten()(inputs))
    z = qlayers.ActivityEnergy(0.1, at_inference=True, name="e")(quantizer(hidden))
    outputs = keras.layers.Reshape((4, 4, 1))(keras.layers.Dense(16)(z))
    model = keras.Model(inputs, outputs)
    model.compile(keras.optimizers.Adam(0.01), "mse")
    return model, keras.Model(inputs, hidden), keras.Model(inputs, z), quantizer


def every_callback(model, head, encoder, quantizer, folder):
    def codes(images):
        # Through the layer, which counts, before its codes.
        encoder(images)
        return quantizer.codes(head(images))

    watch = callbacks.DisentanglementMetrics(
        SOURCES,
        WATCHED,
        encoder,
        every_n_steps=2,
        reconstruct=lambda images: ops.clip(model(images), 0.0, 1.0),
        log_dir=folder,
        selection=callbacks.CheckpointSelection(folder / "best.keras", "mig/mig"),
        **METRICS,
    )
    tiled = lambda image: ops.stack([model(image[None])] * 3)  # noqa: E731
    return [
        watch,
        callbacks.ScoreSummaries(folder, lambda: watch.results, None, 3),
        callbacks.ImageSummaries(folder, WATCHED[:4], model, tiled, 2),
        callbacks.CodeStatistics(folder, WATCHED, codes, (5,) * 3, 2),
        callbacks.ProjectorFiles(
            folder / "p", WATCHED, SOURCES, encoder, "ab", codes, 3
        ),
        callbacks.TrainingScalars(folder, 2, batch_size=10),
        callbacks.StopOnNonFinite(2),
    ]


def test_history_and_weights_are_those_without_callbacks(tmp_path):
    histories, weights = [], []
    for with_callbacks in (False, True):
        parts = make_model()
        made = every_callback(*parts, tmp_path) if with_callbacks else []
        options = {"batch_size": 10, "epochs": 2, "verbose": 0, "shuffle": False}
        fitted = parts[0].fit(IMAGES, IMAGES, callbacks=made, **options)
        histories.append(fitted.history)
        weights.append([ops.convert_to_numpy(w) for w in parts[0].weights])
    plain, watched = histories
    assert {"q_commit_loss", "q_usage", "e_activity", "loss"} <= {*plain}
    for name, values in plain.items():
        np.testing.assert_allclose(watched[name], values, rtol=1e-5, err_msg=name)
    for ours, theirs in zip(*weights, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-7)
    assert len(watched["mig/mig"]) == 2
    assert keras.saving.load_model(tmp_path / "best.keras")
    assert list(tmp_path.glob("events*")) and list(tmp_path.glob("p/latents*"))
