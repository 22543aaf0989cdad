"""GumbelQuantizer against equations 3, 4 and 8 of the FactorQVAE paper."""

import keras
import numpy as np
import pytest
from keras import ops
from scipy import stats
from scipy.special import log_softmax

import qlayers
from tests.gradients import as_float64, gradients

NUM_VALUES = 5
rng = np.random.default_rng(0)


def make(code_dim=1, num_latents=3, **kwargs):
    layer = qlayers.GumbelQuantizer(NUM_VALUES, code_dim=code_dim, seed=0, **kwargs)
    layer.build((None, num_latents * code_dim))
    return layer


def inputs(size=3, batch=6):
    return rng.normal(size=(batch, size)).astype("float32")


def equation_3(layer, x):
    """Distances (..., n, K) in float64, by the layer's own codebook."""
    table = as_float64(layer.codebook)[0]
    slots = x.astype("float64").reshape(*x.shape[:-1], -1, 1, layer.code_dim)
    if layer.distance == "l1":
        return np.abs(slots - table).sum(-1)
    squares = ((slots - table) ** 2).sum(-1)
    return np.sqrt(squares) if layer.distance == "l2" else squares


VARIANTS = pytest.mark.parametrize(
    ("code_dim", "distance"),
    [(1, "l1"), (1, "squared_l2"), (2, "l1"), (2, "squared_l2"), (2, "l2")],
)


@pytest.mark.backends
@VARIANTS
def test_inference_is_the_nearest_code(code_dim, distance):
    layer = make(code_dim, distance=distance)
    x = inputs(3 * code_dim, batch=40)
    codes = equation_3(layer, x).argmin(-1)
    z = as_float64(layer.codebook)[0][codes].reshape(x.shape)
    output, weights = layer(x, return_assignments=True)
    np.testing.assert_array_equal(as_float64(output), z)
    np.testing.assert_array_equal(as_float64(layer.codes(x)), codes)
    np.testing.assert_array_equal(as_float64(weights), np.eye(NUM_VALUES)[codes])
    np.testing.assert_array_equal(as_float64(layer.lookup(codes)), z)


@pytest.mark.backends
@VARIANTS
def test_training_mixes_codes_by_relaxed_samples(code_dim, distance):
    """The noise recovered from the weights is Gumbel only if eq. 3 and 4 hold."""
    temperature = 0.7
    layer = make(code_dim, 1, distance=distance, temperature=temperature)
    x = np.repeat(inputs(code_dim, batch=1), 8000, axis=0)
    z, weights = layer(x, training=True, return_assignments=True)
    weights = as_float64(weights)
    table = as_float64(layer.codebook)[0]
    np.testing.assert_allclose(
        as_float64(z), (weights @ table)[:, 0], rtol=1e-4, atol=1e-5
    )
    distances = equation_3(layer, x[:1])[0, 0]
    log_ratio = np.log(weights[:, 0, 0]) - np.log(weights[:, 0, 1])
    noise = temperature * log_ratio + distances[0] - distances[1]
    assert stats.kstest(noise, "logistic").pvalue > 1e-3
    assert stats.kstest(noise + 0.1, "logistic").pvalue < 1e-2


def test_training_weights_are_the_relaxed_one_hot_of_tfp():
    import tensorflow_probability as tfp

    layer = make(num_latents=1, temperature=0.5)
    x = np.repeat(inputs(1, batch=1), 8000, axis=0)
    _, weights = layer(x, training=True, return_assignments=True)
    oracle = tfp.distributions.RelaxedOneHotCategorical(
        0.5, logits=-equation_3(layer, x[:1])[0, 0].astype("float32")
    )
    theirs = oracle.sample(8000, seed=(0, 1)).numpy()
    for k in range(NUM_VALUES):
        ours = weights.numpy()[:, 0, k]
        assert stats.ks_2samp(ours, theirs[:, k]).pvalue > 1e-3


@pytest.mark.backends
@pytest.mark.parametrize("reduction", ["sum", "mean"])
@pytest.mark.parametrize("training", [False, True])
@VARIANTS
def test_kl_to_the_uniform_prior(code_dim, distance, training, reduction):
    layer = make(
        code_dim, distance=distance, kl_weight=0.3, kl_reduction=reduction, name="q"
    )
    x = inputs(3 * code_dim)
    layer(x, training=training)
    log_q = log_softmax(-equation_3(layer, x), axis=-1)
    per_latent = (np.exp(log_q) * (log_q + np.log(NUM_VALUES))).sum(-1)
    per_sample = per_latent.sum(-1) if reduction == "sum" else per_latent.mean(-1)
    (loss,) = layer.losses
    np.testing.assert_allclose(as_float64(loss), 0.3 * per_sample.mean(), rtol=1e-4)
    (metric,) = (m for m in layer.metrics if m.name == "q_kl")
    np.testing.assert_allclose(
        as_float64(metric.result()), per_sample.mean(), rtol=1e-4
    )


def test_kl_is_the_one_of_tfp():
    import tensorflow_probability as tfp

    tfd = tfp.distributions
    layer = make(kl_weight=1.0)
    x = inputs()
    layer(x)
    logits = -equation_3(layer, x).astype("float32")
    divergence = tfd.kl_divergence(
        tfd.OneHotCategorical(logits=logits),
        tfd.OneHotCategorical(logits=np.zeros_like(logits)),
    )
    expected = divergence.numpy().sum(-1).mean()
    np.testing.assert_allclose(as_float64(layer.losses[0]), expected, rtol=1e-4)


@pytest.mark.backends
@pytest.mark.parametrize("distance", ["l1", "squared_l2"])
def test_training_gradient_to_inputs_and_codebook(distance):
    """Chain rule of z = y M, y = softmax((-R + g) / t), given the drawn y."""
    temperature = 0.6
    layer = make(distance=distance, temperature=temperature)
    x = inputs()
    found = gradients(layer, x, ops.sum, training=True, return_assignments=True)
    z, y = found.outputs
    table = as_float64(layer.codebook)[0, :, 0]
    difference = x.astype("float64")[..., None] - table
    # Slope of the logit -R_k in x; in M_k it is the opposite.
    slope = -np.sign(difference) if distance == "l1" else -2 * difference
    mixing = y * (table - z[..., None]) / temperature
    np.testing.assert_allclose(
        found.inputs, (mixing * slope).sum(-1), rtol=1e-3, atol=1e-5
    )
    expected = (y - mixing * slope).sum((0, 1))
    np.testing.assert_allclose(
        found.variables["codebook"][0, :, 0], expected, rtol=1e-3, atol=1e-5
    )


@pytest.mark.backends
def test_training_gradient_of_the_euclidean_distance():
    """The slope of |x - M_k| is the unit vector; an input on a code has none of it."""
    layer = make(code_dim=2, num_latents=1, distance="l2")
    table = as_float64(layer.codebook)[0]
    x = np.concatenate([inputs(2), table[:1]]).astype("float32")
    found = gradients(layer, x, ops.sum, training=True, return_assignments=True)
    z, y = found.outputs[0], found.outputs[1][:, 0]
    difference = x.astype("float64")[:, None] - table
    length = np.linalg.norm(difference, axis=-1, keepdims=True)
    slope = -np.divide(difference, length, where=length > 0, out=0 * difference)
    # d sum(z) / d logit_k = y_k sum(M_k - z).
    mixing = y * (table.sum(-1) - z.sum(-1)[:, None])
    expected = (mixing[..., None] * slope).sum(1)
    np.testing.assert_allclose(found.inputs, expected, rtol=1e-3, atol=1e-5)


@pytest.mark.backends
def test_inference_gradient_is_straight_through():
    layer = make()
    found = gradients(layer, inputs(), ops.sum)
    np.testing.assert_array_equal(found.inputs, 1.0)
    np.testing.assert_array_equal(found.variables["codebook"], 0.0)


@pytest.mark.backends
def test_value_table_has_a_row_for_each_latent():
    layer = make()
    table = as_float64(layer.codebook)[0, :, 0]
    np.testing.assert_array_equal(as_float64(layer.value_table()), [table] * 3)
    vectors = make(code_dim=2)
    assert tuple(vectors.value_table().shape) == (3, NUM_VALUES, 2)


@pytest.mark.backends
def test_papers_temperature_schedule():
    """exp(-1e-5 t) as the docstring writes it."""
    schedule = keras.optimizers.schedules.ExponentialDecay(
        1.0, decay_steps=100_000, decay_rate=np.exp(-1.0)
    )
    for step in (0, 1, 1000, 100_000):
        np.testing.assert_allclose(
            as_float64(schedule(step)), np.exp(-1e-5 * step), rtol=1e-5
        )


@pytest.mark.backends
@VARIANTS
def test_soft_values_are_the_mean_code(code_dim, distance):
    layer = make(code_dim, distance=distance)
    x = inputs(3 * code_dim)
    logits = -equation_3(layer, x)
    np.testing.assert_allclose(as_float64(layer.logits(x)), logits, rtol=1e-5)
    weights = np.exp(log_softmax(logits, axis=-1))
    wanted = (weights @ as_float64(layer.codebook)[0]).reshape(6, -1)
    np.testing.assert_allclose(
        as_float64(layer.soft_values(x)), wanted, rtol=1e-4, atol=1e-6
    )
