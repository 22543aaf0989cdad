"""Usage statistics against NumPy, in `fit` history, epoch by epoch."""

import keras
import numpy as np
import pytest

import qlayers
from qlayers.backend import mirrored_strategy
from tests.gradients import as_float64

pytestmark = pytest.mark.backends

rng = np.random.default_rng(0)


def reference(codes, num_values):
    """Perplexity and share of used codes of each latent, in float64."""
    perplexity, usage = [], []
    for j, count in enumerate(num_values):
        frequency = np.bincount(codes[:, j], minlength=count) / len(codes)
        used = frequency[frequency > 0]
        perplexity.append(np.exp(-(used * np.log(used)).sum()))
        usage.append(len(used) / count)
    return np.array(perplexity), np.array(usage)


def test_counts_over_several_updates():
    num_values = [3, 6, 2]
    usage = qlayers.CodeUsage(num_values, detail="per_latent", name="z")
    codes = np.stack([rng.integers(0, m, size=50) for m in (2, 6, 1)], axis=-1)
    usage.update_state(codes[:20])
    usage.update_state(codes[20:].reshape(5, 6, 3))
    perplexity, share = reference(codes, num_values)
    results = {key: float(value) for key, value in usage.result().items()}
    assert results["z_perplexity"] == pytest.approx(perplexity.mean(), rel=1e-5)
    assert results["z_usage"] == pytest.approx(share.mean(), rel=1e-5)
    for j in range(3):
        assert results[f"z_perplexity_{j}"] == pytest.approx(perplexity[j], rel=1e-5)
        assert results[f"z_usage_{j}"] == pytest.approx(share[j], rel=1e-5)
    assert len(results) == 8


def test_extremes():
    usage = qlayers.CodeUsage([4, 4])
    usage.update_state([[0, i] for i in range(4)])
    np.testing.assert_allclose(as_float64(usage.perplexity()), [1.0, 4.0], rtol=1e-6)
    np.testing.assert_allclose(as_float64(usage.usage()), [0.25, 1.0])


def test_nothing_seen_gives_zero_and_reset_forgets():
    usage = qlayers.CodeUsage([4])
    np.testing.assert_array_equal(as_float64(usage.perplexity()), [0.0])
    usage.update_state([[1], [2]])
    usage.reset_state()
    np.testing.assert_array_equal(as_float64(usage.counts), 0.0)
    np.testing.assert_array_equal(as_float64(usage.usage()), [0.0])


def test_negative_codes_are_skipped():
    usage = qlayers.CodeUsage([3, 3])
    usage.update_state([[-1, 2], [0, -1]])
    np.testing.assert_array_equal(as_float64(usage.counts), [[1, 0, 0], [0, 0, 1]])


@pytest.mark.parametrize(
    ("codes", "message"),
    [
        ([[0, 1, 1]], r"codes of shape \(..., 2\). Received shape \(1, 3\)"),
        ([[0.5, 1.0]], "integers. Received dtype float64"),
        ([[0, 3]], "from 0 to 2 for latent 1. Received the code 3"),
        ([[2, 0]], "from 0 to 1 for latent 0. Received the code 2"),
    ],
)
def test_codes_that_do_not_fit(codes, message):
    with pytest.raises(ValueError, match=message):
        qlayers.CodeUsage([2, 3]).update_state(codes)


@pytest.mark.parametrize("num_values", [5, [], [2.5], [0]])
def test_bad_counts(num_values):
    with pytest.raises(ValueError, match="num_values"):
        qlayers.CodeUsage(num_values)


def frozen_model(layer, size=4):
    """Passes inputs to the layer and never changes."""
    inputs = keras.Input((size,))
    model = keras.Model(inputs, layer(inputs))
    model.compile(keras.optimizers.SGD(0.0), "mse")
    return model


@pytest.mark.parametrize("track_usage", ["mean", "per_latent", None])
def test_history_shows_the_epochs_statistics(track_usage):
    layer = qlayers.LatentQuantizer(
        6, track_usage=track_usage, init_range=1.0, name="latent"
    )
    model = frozen_model(layer)
    x = rng.normal(size=(50, 4)).astype("float32")
    x[:, 3] = 0.1
    history = model.fit(x, x, batch_size=16, epochs=2, verbose=0).history
    shown = {key for key in history if "perplexity" in key or "usage" in key}
    if track_usage is None:
        assert not shown
        return
    perplexity, share = reference(as_float64(layer.codes(x)).astype(int), [6] * 4)
    expected = {
        "latent_perplexity": perplexity.mean(),
        "latent_usage": share.mean(),
    }
    if track_usage == "per_latent":
        for j in range(4):
            expected[f"latent_perplexity_{j}"] = perplexity[j]
            expected[f"latent_usage_{j}"] = share[j]
    assert shown == set(expected)
    for key, value in expected.items():
        np.testing.assert_allclose(history[key], [value, value], rtol=1e-5)
    # Started anew in the second epoch: what is left are the codes of one epoch.
    np.testing.assert_array_equal(as_float64(layer.usage.counts).sum(-1), 50)


def test_evaluation_counts_its_own_codes():
    layer = qlayers.FiniteScalarQuantizer([3, 5], name="fsq")
    model = frozen_model(layer, size=2)
    x = rng.normal(size=(20, 2)).astype("float32")
    results = model.evaluate(x, x, verbose=0, return_dict=True)
    perplexity, share = reference(as_float64(layer.codes(x)).astype(int), [3, 5])
    assert results["fsq_perplexity"] == pytest.approx(perplexity.mean(), rel=1e-5)
    assert results["fsq_usage"] == pytest.approx(share.mean(), rel=1e-5)


@pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="replicas are TensorFlow's"
)
def test_two_replicas_count_the_whole_batch():
    strategy = mirrored_strategy()
    with strategy.scope():
        layer = qlayers.LatentQuantizer(6, init_range=1.0, name="shared_out")
        model = frozen_model(layer)
    x = rng.normal(size=(48, 4)).astype("float32")
    history = model.fit(x, x, batch_size=16, epochs=2, verbose=0).history
    perplexity, share = reference(as_float64(layer.codes(x)).astype(int), [6] * 4)
    np.testing.assert_allclose(
        history["shared_out_perplexity"], [perplexity.mean()] * 2, rtol=1e-5
    )
    np.testing.assert_allclose(
        history["shared_out_usage"], [share.mean()] * 2, rtol=1e-5
    )


def fit_on_zeros(quantizer, epochs=3, num_samples=64):
    """All inputs are alike: one code of each latent is in use."""
    model = keras.Sequential([keras.Input((4,)), quantizer, keras.layers.Dense(2)])
    model.compile("sgd", "mse")
    x = np.zeros((num_samples, 4), "float32")
    model.fit(x, x[:, :2], batch_size=16, epochs=epochs, verbose=0)


def test_idle_codes_are_told_once_with_the_cure(recwarn):
    fit_on_zeros(qlayers.LatentQuantizer(16, revive_after=None, name="idle"))
    told = [str(w.message) for w in recwarn if "'idle' uses" in str(w.message)]
    assert len(told) == 1 and "\n" not in told[0]
    assert told[0].startswith("'idle' uses 6.2 % of its codes.")
    assert "revive_after" in told[0]


def test_used_codes_and_short_epochs_are_not_told(recwarn):
    fit_on_zeros(qlayers.LatentQuantizer(8, name="idle"))  # one of eight
    fit_on_zeros(qlayers.LatentQuantizer(32, name="idle"))  # two samples for a code
    fit_on_zeros(qlayers.LatentQuantizer(16, track_usage=None, name="idle"))
    assert not [w for w in recwarn if "'idle' uses" in str(w.message)]
