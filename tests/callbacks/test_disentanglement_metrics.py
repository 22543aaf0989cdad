"""Metrics during `fit`: when they run, where they go, which checkpoint they keep."""

import json

import keras
import numpy as np
import pytest

from qlayers.callbacks import CheckpointSelection, DisentanglementMetrics
from qlayers.metrics import evaluate
from tests.metrics.samples import full_grid

SOURCES = full_grid((3, 4), repeats=25)
IMAGES = np.hstack([SOURCES / [2, 3], np.ones((300, 1))]).astype(np.float32)
METRICS = {"discrete_latents": False, "metrics": ("mig", "mcc")}


def autoencoder(seed=0):
    keras.utils.set_random_seed(seed)
    inputs = keras.Input((3,))
    latents = keras.layers.Dense(2, name="latents")(inputs)
    outputs = keras.layers.Dense(3)(latents)
    model = keras.Model(inputs, outputs)
    model.compile("adam", "mse")
    return model, keras.Model(inputs, latents)


def fit(callbacks, epochs=2, model=None, **options):
    model, encoder = model or autoencoder()
    made = callbacks(encoder)
    # 300 samples in batches of 30: ten steps an epoch.
    history = model.fit(
        IMAGES, IMAGES, batch_size=30, epochs=epochs, verbose=0, callbacks=[made]
    )
    return model, encoder, made, history


def watching(encode=None, **options):
    """Makes the callback for an encoder, or for `encode` instead."""
    return lambda encoder: DisentanglementMetrics(
        SOURCES, IMAGES, encode or encoder, **METRICS, **options
    )


class TestSchedule:
    def test_runs_at_the_start_every_n_steps_and_at_the_end(self):
        _, _, watch, _ = fit(watching(every_n_steps=8))
        assert [entry["step"] for entry in watch.history] == [0, 8, 16, 20]

    def test_several_steps_per_execution(self):
        model, encoder = autoencoder()
        model.compile("adam", "mse", steps_per_execution=5)
        _, _, watch, _ = fit(watching(every_n_steps=8), model=(model, encoder))
        # Steps 8 and 16 lie inside executions; the scores come right after.
        assert [entry["step"] for entry in watch.history] == [0, 10, 20]

    def test_continues_counting_after_a_restart(self):
        pair = autoencoder()
        make = watching(every_n_steps=100)
        fit(make, model=pair)
        _, _, again, _ = fit(make, model=pair)
        assert [entry["step"] for entry in again.history] == [20, 40]

    def test_continues_counting_where_gradients_are_accumulated(self):
        model, encoder = autoencoder()
        adam = keras.optimizers.Adam(gradient_accumulation_steps=4)
        model.compile(adam, "mse")
        make = watching(every_n_steps=100)
        fit(make, model=(model, encoder))
        _, _, again, _ = fit(make, model=(model, encoder))
        assert [entry["step"] for entry in again.history] == [20, 40]


class TestScores:
    def test_equal_evaluate_on_the_final_weights(self):
        _, encoder, watch, _ = fit(watching())
        latents = encoder.predict(IMAGES, verbose=0)
        expected = evaluate(SOURCES, latents, **METRICS).scores()
        last = dict(watch.history[-1])
        assert last.pop("step") == 20
        assert last == pytest.approx(expected, abs=1e-6)

    def test_enter_the_history_of_fit(self):
        _, _, watch, history = fit(watching(every_n_steps=10))
        found = history.history["mig/mig"]
        expected = [entry["mig/mig"] for entry in watch.history[1:]]
        assert found == pytest.approx(expected)

    def test_functions_instead_of_models(self):
        _, _, watch, _ = fit(
            watching(
                lambda images: images[:, :2], reconstruct=lambda images: images + 0.1
            )
        )
        # A perfect encoder: MIG 1. An error of 0.1: 20 dB.
        assert watch.history[0]["mig/mig"] == pytest.approx(1.0)
        assert watch.history[0]["psnr/psnr"] == pytest.approx(20.0, abs=1e-3)

    def test_training_is_not_disturbed(self):
        plain, _ = autoencoder()
        plain.fit(IMAGES, IMAGES, batch_size=30, epochs=2, verbose=0)
        watched, _, _, _ = fit(watching(every_n_steps=3))
        for a, b in zip(plain.get_weights(), watched.get_weights(), strict=True):
            np.testing.assert_array_equal(a, b)

    def test_latents_that_are_not_finite_only_warn(self):
        with pytest.warns(UserWarning, match="step 0 are not finite"):
            _, _, watch, _ = fit(watching(lambda images: images[:, :2] * np.nan))
        assert watch.history == []
        assert watch.results == {}

    def test_scores_of_earlier_latents_do_not_stand_for_later_ones(self):
        broken = []

        def encode(images):
            return images[:, :2] * (np.nan if broken else 1.0)

        class Break(keras.callbacks.Callback):
            def on_epoch_begin(self, epoch, logs=None):
                if epoch == 1:
                    broken.append(True)

        watch = watching(encode, every_n_steps=10)(None)
        model, _ = autoencoder()
        with pytest.warns(UserWarning, match="step 20 are not finite"):
            history = model.fit(
                IMAGES, IMAGES, batch_size=30, epochs=2, verbose=0,
                callbacks=[Break(), watch],
            ).history  # fmt: skip
        assert history["mig/mig"][0] == pytest.approx(1.0)
        assert np.isnan(history["mig/mig"][1])
        assert watch.results == {}

    def test_tensorboard(self, tmp_path):
        import tensorflow as tf
        from tensorboard.backend.event_processing.event_accumulator import (
            EventAccumulator,
        )

        _, _, watch, _ = fit(watching(every_n_steps=10, log_dir=tmp_path))
        events = EventAccumulator(str(tmp_path)).Reload()
        logged = events.Tensors("metrics/mig/mig")
        assert [event.step for event in logged] == [0, 10, 20]
        values = [float(tf.make_ndarray(event.tensor_proto)) for event in logged]
        expected = [entry["mig/mig"] for entry in watch.history]
        np.testing.assert_allclose(values, expected, rtol=1e-6)


class Scripted:
    """An encoder whose quality follows a script: how much noise on each run."""

    def __init__(self, noises):
        self.noises = iter(noises)

    def __call__(self, images):
        if len(images) == 256:  # a run reads batches of 256 and 44
            self.noise = next(self.noises)
        generator = np.random.default_rng(0)
        return images[:, :2] + self.noise * generator.normal(size=(len(images), 2))


def select(path, noises, require=None, **selection):
    chosen = CheckpointSelection(
        path, monitor="mcc/mcc", require=require or {}, **selection
    )
    return fit(
        watching(
            Scripted(noises),
            every_n_steps=10,
            reconstruct=lambda images: images + 0.1,
            selection=chosen,
        )
    )


class TestSelection:
    def test_a_checkpoint_that_a_stricter_rule_refuses_does_not_count(self, tmp_path):
        """Tripod's rule: the best InfoM among those with a good reconstruction."""
        path = tmp_path / "best.weights.h5"
        model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
        lax = CheckpointSelection(path, "mcc/mcc")
        lax.save(model, 10, {"mcc/mcc": 0.9, "psnr/psnr": 20.0})
        strict = CheckpointSelection(path, "mcc/mcc", require={"psnr/psnr": 38.0})
        assert (lax.best(), strict.best()) == (0.9, None)
        better = {"mcc/mcc": 0.8, "psnr/psnr": 39.0}
        assert strict.accepts(better, strict.best())
        strict.save(model, 20, better)
        assert strict.best() == 0.8

    @pytest.mark.parametrize(("psnr", "best"), [(np.inf, 0.9), (np.nan, None)])
    def test_requirements_of_what_was_saved_without_a_finite_score(
        self, tmp_path, psnr, best
    ):
        """An exact copy has an infinite PSNR."""
        model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
        rule = CheckpointSelection(
            tmp_path / "best.weights.h5", "mcc/mcc", require={"psnr/psnr": 38.0}
        )
        rule.save(model, 10, {"mcc/mcc": 0.9, "psnr/psnr": psnr})
        assert rule.best() == best

    def test_keeps_the_best(self, tmp_path):
        path = tmp_path / "deep" / "best.keras"
        model, _, watch, _ = select(path, [1.0, 0.0, 0.5])
        record = json.loads((tmp_path / "deep" / "best.keras.json").read_text())
        assert record["step"] == 10
        assert record["value"] == pytest.approx(watch.history[1]["mcc/mcc"])
        saved = keras.models.load_model(path)
        # The checkpoint is of step 10, the model has gone on since.
        assert int(saved.optimizer.iterations) == 10
        assert not np.allclose(saved.get_weights()[0], model.get_weights()[0])
        assert sorted(p.name for p in path.parent.iterdir()) == [
            "best.keras",
            "best.keras.json",
        ]

    def test_smallest(self, tmp_path):
        path = tmp_path / "best.weights.h5"
        select(path, [0.0, 0.5, 2.0], mode="min")
        assert json.loads((tmp_path / "best.weights.h5.json").read_text())["step"] == 20
        model, _ = autoencoder(seed=1)
        model.load_weights(path)

    def test_requirements(self, tmp_path):
        # The reconstruction has 20 dB: 21 are never reached, 19 always.
        select(tmp_path / "a.keras", [1, 0, 0], require={"psnr/psnr": 21.0})
        assert not (tmp_path / "a.keras").exists()
        select(tmp_path / "b.keras", [1, 0, 0], require={"psnr/psnr": 19.0})
        assert (tmp_path / "b.keras").exists()

    def test_a_later_run_replaces_only_by_better(self, tmp_path):
        path = tmp_path / "best.keras"
        select(path, [0.1, 1.0, 1.0])
        before = path.read_bytes()
        select(path, [0.5, 0.5, 0.5])
        assert path.read_bytes() == before
        select(path, [0.5, 0.5, 0.0])
        assert path.read_bytes() != before

    def test_another_score_is_not_mixed_in(self, tmp_path):
        path = tmp_path / "best.keras"
        select(path, [0.1, 1.0, 1.0])
        with pytest.raises(ValueError, match="was chosen by"):
            select(path, [0.1], mode="min")

    def test_unknown_score(self, tmp_path):
        with pytest.raises(ValueError, match=r"No score.*there are: mcc/mcc"):
            select(tmp_path / "best.keras", [0.1], require={"fid": 1.0})

    def test_bad_selection(self):
        with pytest.raises(ValueError, match="mode"):
            CheckpointSelection("best.keras", mode="best")
        with pytest.raises(ValueError, match="path"):
            CheckpointSelection("best.h5")


class TestBadInput:
    def test_arguments(self):
        with pytest.raises(ValueError, match="discrete_latents"):
            DisentanglementMetrics(SOURCES, IMAGES, lambda x: x)
        with pytest.raises(ValueError, match="every_n_steps"):
            DisentanglementMetrics(
                SOURCES, IMAGES, lambda x: x, every_n_steps=0, **METRICS
            )
        with pytest.raises(ValueError, match="same samples"):
            DisentanglementMetrics(SOURCES[1:], IMAGES, lambda x: x, **METRICS)
