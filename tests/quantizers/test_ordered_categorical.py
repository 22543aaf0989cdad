"""OrderedCategoricalQuantizer against equations 2 and 3 of Friede et al."""

import keras
import numpy as np
import pytest
from keras import ops
from scipy import stats
from scipy.special import log_softmax, softmax

import qlayers
from qlayers.quantizers.ordered_categorical import active_indices
from tests.gradients import as_float64, gradients

N, K = 3, 5
rng = np.random.default_rng(0)
LOGITS = (2 * rng.normal(size=(6, N * K))).astype("float32")
L = LOGITS.astype("float64").reshape(6, N, K)
ACTIVE = [2, [0, 2, 3], None]
MASK = np.array([[1, 0, 0, 0, 1], [1, 0, 1, 1, 0], [1, 1, 1, 1, 1]], bool)

pytestmark = pytest.mark.backends


def make(size=N, **kwargs):
    layer = qlayers.OrderedCategoricalQuantizer(K, seed=0, **kwargs)
    layer.build((None, size * K))
    return layer


@pytest.mark.parametrize("interval", [(-1.0, 1.0), (0.0, 1.0)])
def test_inference_is_the_expectation(interval):
    layer = make(interval=interval, temperature=0.8)
    values = np.linspace(*interval, K)
    z, weights = layer(LOGITS, return_assignments=True)
    y = softmax(L / 0.8, axis=-1)
    np.testing.assert_allclose(as_float64(weights), y, rtol=1e-4, atol=1e-7)
    np.testing.assert_allclose(as_float64(z), y @ values, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(
        as_float64(layer.value_table()), [values] * N, rtol=1e-6, atol=1e-7
    )
    assert layer.trainable_variables == []


def test_codes_are_modes_and_equal_the_output_once_collapsed():
    layer = make()
    np.testing.assert_array_equal(as_float64(layer.codes(LOGITS)), L.argmax(-1))
    sharp = 1000 * LOGITS
    np.testing.assert_allclose(
        as_float64(layer(sharp)), as_float64(layer.lookup(layer.codes(sharp)))
    )


@pytest.mark.parametrize("scale", [0.5, 2.0])
def test_training_scales_the_gumbel_noise(scale):
    layer = make(size=1, noise_scale=scale, temperature=0.9)
    logits = np.repeat(LOGITS[:1, :K], 8000, axis=0)
    z, weights = layer(logits, training=True, return_assignments=True)
    weights = as_float64(weights)[:, 0]
    np.testing.assert_allclose(
        as_float64(z)[:, 0], weights @ np.linspace(-1, 1, K), rtol=1e-4, atol=1e-5
    )
    log_ratio = np.log(weights[:, 0]) - np.log(weights[:, 1])
    noise = (0.9 * log_ratio - (L[0, 0, 0] - L[0, 0, 1])) / scale
    assert stats.kstest(noise, "logistic").pvalue > 1e-3
    assert stats.kstest(1.15 * noise, "logistic").pvalue < 1e-3


def test_kl_is_summed_over_latents():
    layer = make(kl_weight=0.5, noise_scale=2.0, temperature=3.0)
    layer(LOGITS, training=True)
    log_q = log_softmax(L, axis=-1)
    expected = (np.exp(log_q) * (log_q + np.log(K))).sum((-1, -2)).mean()
    (loss,) = layer.losses
    np.testing.assert_allclose(as_float64(loss), 0.5 * expected, rtol=1e-4)


def test_training_gradient():
    """dz/dl_k = y_k (v_k - z) / t, given the drawn y."""
    layer = make(temperature=0.6, noise_scale=1.5)
    found = gradients(layer, LOGITS, ops.sum, training=True, return_assignments=True)
    z, y = found.outputs
    expected = y * (np.linspace(-1, 1, K) - z[..., None]) / 0.6
    np.testing.assert_allclose(
        found.inputs.reshape(y.shape), expected, rtol=1e-3, atol=1e-5
    )


def test_noise_scale_follows_the_papers_half_cosine():
    steps = 40
    schedule = keras.optimizers.schedules.CosineDecay(0.5, steps, alpha=4.0)
    layer = make(noise_scale=schedule)
    used = []
    for _ in range(steps + 1):
        used.append(float(as_float64(layer.value_of("noise_scale"))))
        layer(LOGITS, training=True)
    t = np.arange(steps + 1)
    expected = 0.5 * (0.5 + 2.0) + 0.5 * (0.5 - 2.0) * np.cos(np.pi * t / steps)
    np.testing.assert_allclose(used, expected, rtol=1e-4)
    assert used[0] == pytest.approx(0.5)
    assert used[-1] == pytest.approx(2.0)


class TestMasks:
    def test_excluded_categories_never_get_probability(self):
        layer = make(active_values=ACTIVE, noise_scale=5.0)
        for training in (False, True):
            logits = (50 * rng.normal(size=(300, N * K))).astype("float32")
            z, weights = layer(logits, training=training, return_assignments=True)
            weights = as_float64(weights)
            np.testing.assert_array_equal(weights[:, ~MASK], 0.0)
            np.testing.assert_allclose(weights.sum(-1), 1.0, rtol=1e-5)
            assert np.isfinite(as_float64(z)).all()

    def test_weights_are_the_softmax_over_active_ones(self):
        layer = make(active_values=ACTIVE)
        _, weights = layer(LOGITS, return_assignments=True)
        expected = np.exp(L) * MASK
        expected /= expected.sum(-1, keepdims=True)
        np.testing.assert_allclose(as_float64(weights), expected, rtol=1e-4)

    @pytest.mark.parametrize("factor", [1.0, 1e30])
    def test_codes_are_always_active(self, factor):
        layer = make(active_values=ACTIVE)
        logits = np.clip(factor * LOGITS.astype("float64"), -3e38, 3e38)
        # Every excluded logit is the largest of its latent.
        logits = logits.reshape(6, N, K)
        logits[:, ~MASK] = 3e38
        logits[:, MASK] -= 1.0
        codes = as_float64(layer.codes(logits.reshape(6, -1).astype("float32")))
        for j in range(N):
            assert set(codes[:, j]) <= set(np.flatnonzero(MASK[j]))

    def test_all_active_logits_at_minus_infinity_still_beat_excluded_ones(self):
        layer = make(active_values=ACTIVE)
        logits = np.where(MASK, -np.inf, np.inf).astype("float32").reshape(1, -1)
        codes = as_float64(layer.codes(logits))[0].astype(int)
        assert all(MASK[j, codes[j]] for j in range(N))

    def test_kl_is_to_the_uniform_over_active_ones(self):
        layer = make(active_values=ACTIVE, kl_weight=1.0)
        layer(LOGITS)
        expected = 0.0
        for j in range(N):
            log_q = log_softmax(L[:, j][:, MASK[j]], axis=-1)
            per_sample = (np.exp(log_q) * (log_q + np.log(MASK[j].sum()))).sum(-1)
            expected += per_sample.mean()
        (loss,) = layer.losses
        np.testing.assert_allclose(as_float64(loss), expected, rtol=1e-4)

    def test_excluded_logits_get_no_gradient(self):
        layer = make(active_values=ACTIVE, kl_weight=1.0)
        found = gradients(layer, LOGITS, ops.sum, add_losses=True, training=True)
        gradient = found.inputs.reshape(6, N, K)
        np.testing.assert_array_equal(gradient[:, ~MASK], 0.0)
        assert np.all(np.isfinite(gradient))
        assert np.all(np.any(gradient[:, MASK] != 0.0, axis=0))

    def test_counts_spread_evenly_with_both_ends(self):
        assert active_indices(2, 64) == [0, 63]
        assert active_indices(3, 5) == [0, 2, 4]
        for num_values in (2, 5, 12, 64):
            for count in range(1, num_values + 1):
                indices = active_indices(count, num_values)
                assert len(set(indices)) == count
                assert indices == sorted(indices)
                if count > 1:
                    gaps = np.diff(indices)
                    assert (indices[0], indices[-1]) == (0, num_values - 1)
                    assert gaps.max() - gaps.min() <= 1

    def test_arrays_and_tuples_are_accepted_and_kept_in_the_config(self):
        layer = make(active_values=(np.int64(2), np.array([0, 2, 3]), None))
        assert layer.get_config()["active_values"] == [2, [0, 2, 3], None]
        assert layer.active_categories == [list(np.flatnonzero(row)) for row in MASK]

    @pytest.mark.parametrize(
        ("active", "message"),
        [
            ([2, 2], "describes 2 latents, but the input has logits for 3"),
            ([6, 2, 2], "asks for 6 of 5"),
            ([0, 2, 2], "at least 1. Received: 0"),
            ([[0, 5], 2, 2], "from 0 to 4. Received: \\[0, 5\\]"),
            ([[], 2, 2], "from 0 to 4. Received: \\[\\]"),
            ([[-1], 2, 2], "Received: -1"),
            ([2.5, 2, 2], "Received: 2.5"),
            (3, "one entry for each latent. Received: 3"),
        ],
    )
    def test_bad_masks(self, active, message):
        with pytest.raises(ValueError, match=message):
            make(active_values=active)

    @pytest.mark.parametrize("interval", [(1, -1), (0, 0), (0, np.inf), 3.0, (0, 1, 2)])
    def test_bad_interval(self, interval):
        with pytest.raises(ValueError, match="two finite, increasing numbers"):
            make(interval=interval)


def test_soft_values_leave_out_excluded_categories():
    layer = make(active_values=ACTIVE, temperature=0.3)
    wanted = softmax(np.where(MASK, L, -np.inf), axis=-1) @ np.linspace(-1, 1, K)
    np.testing.assert_allclose(
        as_float64(layer.soft_values(LOGITS)), wanted, rtol=1e-4, atol=1e-6
    )
