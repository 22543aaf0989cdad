"""Quantities that follow a schedule: the value at step t, and who counts steps."""

import keras
import numpy as np
import pytest
from scipy.special import log_softmax

import qlayers
from tests.gradients import as_float64

pytestmark = pytest.mark.backends

schedules = keras.optimizers.schedules
rng = np.random.default_rng(0)
X = rng.normal(size=(6, 4)).astype("float32")


def halving():
    return schedules.ExponentialDecay(0.8, decay_steps=1, decay_rate=0.5)


def test_weights_are_read_at_the_number_of_training_calls_so_far():
    layer = qlayers.LatentQuantizer(5, quantize_weight=halving(), commit_weight=0.0)
    layer.build((None, 4))
    values = []
    for _ in range(4):
        layer(X, training=True)
        values.append(float(as_float64(layer.losses[0])))
    nearest = as_float64(layer.lookup(layer.codes(X)))
    squared = ((X - nearest) ** 2).sum(-1).mean()
    np.testing.assert_allclose(values, 0.8 * 0.5 ** np.arange(4) * squared, rtol=1e-4)
    assert int(as_float64(layer.training_step)) == 4


def test_inference_reads_but_does_not_count():
    layer = qlayers.LatentQuantizer(5, commit_weight=halving())
    layer(X, training=True)
    for _ in range(3):
        layer(X, training=False)
    assert int(as_float64(layer.training_step)) == 1
    assert float(as_float64(layer.value_of("commit_weight"))) == pytest.approx(0.4)


def test_no_counter_without_a_schedule():
    layer = qlayers.LatentQuantizer(5)
    layer(X, training=True)
    assert layer.training_step is None
    assert len(layer.weights) == 1


def test_tracked_term_stays_unweighted():
    layer = qlayers.GaussianLatent(kl_weight=halving(), seed=0, name="z")
    layer.build((None, 4))
    for _ in range(3):
        layer(X, training=True)
    mean, raw = np.split(X.astype("float64"), 2, axis=-1)
    expected = 0.5 * (mean**2 + np.exp(raw) - 1 - raw).sum(-1).mean()
    (metric,) = (m for m in layer.metrics if m.name == "z_kl")
    np.testing.assert_allclose(as_float64(metric.result()), expected, rtol=1e-4)
    np.testing.assert_allclose(as_float64(layer.losses[0]), 0.2 * expected, rtol=1e-4)


@pytest.mark.parametrize("kind", ["gumbel", "categorical", "ordered"])
def test_temperature_of_the_step_shapes_the_samples(kind):
    """At every step the noise implied by the step's temperature is the same draw."""
    makers = {
        "gumbel": lambda t: qlayers.GumbelQuantizer(4, temperature=t, seed=1),
        "categorical": lambda t: qlayers.CategoricalQuantizer(4, temperature=t, seed=1),
        "ordered": lambda t: qlayers.OrderedCategoricalQuantizer(
            4, temperature=t, seed=1
        ),
    }
    scheduled, constant = makers[kind](halving()), makers[kind](1.0)
    for step in range(3):
        temperature = 0.8 * 0.5**step
        logs = []
        for layer in (scheduled, constant):
            _, y = layer(X, training=True, return_assignments=True)
            logs.append(np.log(np.maximum(as_float64(y), 1e-30)))
        # softmax(a / t) = softmax(log softmax(a) / t)
        expected = log_softmax(logs[1] / temperature, axis=-1)
        seen = expected > -15
        np.testing.assert_allclose(logs[0][seen], expected[seen], rtol=1e-3, atol=1e-3)


def test_fit_counts_steps_and_continues_after_saving(tmp_path):
    inputs = keras.Input((4,))
    layer = qlayers.LatentQuantizer(5, commit_weight=halving())
    model = keras.Model(inputs, layer(inputs))
    model.compile("sgd", "mse")
    model.fit(X, X, batch_size=2, epochs=2, verbose=0)
    assert int(as_float64(layer.training_step)) == 6
    model.evaluate(X, X, verbose=0)
    assert int(as_float64(layer.training_step)) == 6
    model.save(tmp_path / "model.keras")
    restored = keras.saving.load_model(tmp_path / "model.keras")
    restored.fit(X, X, batch_size=6, epochs=1, verbose=0)
    assert int(as_float64(restored.layers[-1].training_step)) == 7


def test_step_can_be_set_from_outside():
    layer = qlayers.LatentQuantizer(5, commit_weight=halving())
    layer.build((None, 4))
    layer.training_step.assign(3)
    assert float(as_float64(layer.value_of("commit_weight"))) == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda v: qlayers.LatentQuantizer(quantize_weight=v), "quantize_weight"),
        (lambda v: qlayers.VectorQuantizer(commit_weight=v), "commit_weight"),
        (lambda v: qlayers.GumbelQuantizer(kl_weight=v), "kl_weight"),
        (lambda v: qlayers.GumbelQuantizer(temperature=v), "temperature"),
        (lambda v: qlayers.CategoricalQuantizer(temperature=v), "temperature"),
        (lambda v: qlayers.OrderedCategoricalQuantizer(noise_scale=v), "noise_scale"),
        (lambda v: qlayers.GaussianLatent(kl_weight=v), "kl_weight"),
    ],
)
@pytest.mark.parametrize("value", [-0.1, float("nan"), float("inf"), "1", None, True])
def test_neither_number_nor_schedule(make, name, value):
    with pytest.raises(ValueError, match=f"`{name}`.*Received: .*LearningRateSchedule"):
        make(value)


@pytest.mark.parametrize(
    "make",
    [
        qlayers.GumbelQuantizer,
        qlayers.CategoricalQuantizer,
        qlayers.OrderedCategoricalQuantizer,
    ],
)
def test_temperature_zero_is_refused(make):
    with pytest.raises(ValueError, match=r"greater than 0. Received: 0"):
        make(temperature=0)
