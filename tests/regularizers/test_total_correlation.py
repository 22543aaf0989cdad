"""The discriminator: its estimate, its isolation from the encoder, its groups."""

import keras
import numpy as np
import pytest
from keras import ops

import qlayers
from qlayers.functional import permute_latents
from tests.gradients import as_float64, gradient_of, gradients

rng = np.random.default_rng(0)
Z = rng.normal(size=(16, 3)).astype("float32")


def numpy_logits(layer, x, slope=0.2):
    x = x.astype("float64")
    for depth, (kernel, bias) in enumerate(
        zip(layer.kernels, layer.biases, strict=True)
    ):
        x = x @ as_float64(kernel) + as_float64(bias)
        if depth < len(layer.kernels) - 1:
            x = np.where(x > 0, x, slope * x)
    return x


def cross_entropy(logits, label):
    return -np.log(np.exp(logits) / np.exp(logits).sum(-1, keepdims=True))[:, label]


@pytest.mark.backends
def test_values_are_the_formulas():
    layer = qlayers.TotalCorrelationDiscriminator(2.0, (7, 5), seed=0)
    layer(Z)
    logits = numpy_logits(layer, Z)
    np.testing.assert_allclose(
        as_float64(layer.log_density_ratio(Z)), logits[:, 0] - logits[:, 1], rtol=1e-4
    )
    permuted = as_float64(permute_latents(Z, seed=1)).astype("float32")
    expected = 0.5 * (
        cross_entropy(logits, 0).mean()
        + cross_entropy(numpy_logits(layer, permuted), 1).mean()
    )
    np.testing.assert_allclose(
        as_float64(layer.discriminator_loss(Z, permuted)), expected, rtol=1e-5
    )
    layer(Z, training=True)
    estimate = (logits[:, 0] - logits[:, 1]).mean()
    np.testing.assert_allclose(as_float64(layer.losses[0]), 2 * estimate, rtol=1e-4)
    shown = [as_float64(metric.result()) for metric in layer.metrics]
    np.testing.assert_allclose(shown[0], estimate, rtol=1e-4)


@pytest.mark.backends
def test_each_loss_moves_only_its_side():
    layer = qlayers.TotalCorrelationDiscriminator(1.0, (7,), seed=0)
    layer(Z)
    permuted = permute_latents(Z, seed=1)
    of_latents = gradient_of(lambda z: layer.discriminator_loss(z, permuted), Z)
    np.testing.assert_array_equal(of_latents, 0.0)
    of_latents = gradient_of(lambda z: ops.mean(layer.log_density_ratio(z)), Z)
    assert np.abs(of_latents).max() > 0
    # In a training call the variables feel the discriminator's loss alone...
    both = gradients(layer, Z, add_losses=True, training=True)
    np.testing.assert_allclose(both.inputs, of_latents, rtol=1e-5, atol=1e-8)
    alone = type(layer).from_config({**layer.get_config(), "trains_itself": False})
    alone(Z)
    alone.set_weights(layer.get_weights())
    # ... and without it nothing.
    frozen = gradients(alone, Z, add_losses=True, training=True)
    np.testing.assert_allclose(frozen.inputs, of_latents, rtol=1e-5, atol=1e-8)
    for gradient in frozen.variables.values():
        np.testing.assert_array_equal(gradient, 0.0)
    assert any(np.abs(gradient).max() > 0 for gradient in both.variables.values())


def make_model(weight=1.0):
    keras.utils.set_random_seed(0)
    inputs = keras.Input((5,))
    layer = qlayers.TotalCorrelationDiscriminator(weight, (8,), seed=0)
    z = layer(keras.layers.Dense(3, name="encoder")(inputs))
    return keras.Model(inputs, keras.layers.Dense(5, name="decoder")(z)), layer


def test_two_optimizers_are_bit_identical_to_each_side_alone():
    """One side's optimizer leaves the other side's variables as they are."""
    import tensorflow as tf

    x = rng.normal(size=(16, 5)).astype("float32")
    model, layer = make_model()
    is_own = {id(v) for v in layer.discriminator_variables}
    encoder_side = [v for v in model.trainable_variables if id(v) not in is_own]
    assert len(encoder_side) == 4
    assert len(layer.discriminator_variables) == 4
    for chosen, others in (
        (layer.discriminator_variables, encoder_side),
        (encoder_side, layer.discriminator_variables),
    ):
        optimizer = keras.optimizers.Adam(1e-2)
        with tf.GradientTape() as tape:
            outputs = model(x, training=True)
            loss = tf.reduce_mean((outputs - x) ** 2) + sum(model.losses)
        before = [v.numpy() for v in chosen], [v.numpy() for v in others]
        gradient = tape.gradient(loss, [v.value for v in chosen])
        optimizer.apply(gradient, chosen)
        for old, variable in zip(before[1], others, strict=True):
            np.testing.assert_array_equal(old, variable.numpy())
        for old, variable in zip(before[0], chosen, strict=True):
            assert not np.array_equal(old, variable.numpy())


def test_the_discriminators_update_does_not_depend_on_the_encoders_loss():
    """In one joint step each side moves exactly as if it were alone."""
    x = rng.normal(size=(16, 5)).astype("float32")
    results = {}
    for name, weight, rate in (("low", 0.1, 0.01), ("high", 10.0, 0.01)):
        model, layer = make_model(weight)
        model.compile(keras.optimizers.SGD(rate), "mse")
        model.train_on_batch(x, x)
        results[name] = (
            [v.numpy() for v in layer.discriminator_variables],
            model.get_layer("encoder").kernel.numpy(),
        )
    for low, high in zip(results["low"][0], results["high"][0], strict=True):
        np.testing.assert_array_equal(low, high)
    assert not np.array_equal(results["low"][1], results["high"][1])


@pytest.mark.parametrize(
    "correlation", [0.5, *(pytest.param(c, marks=pytest.mark.slow) for c in (0.0, 0.9))]
)
def test_the_trained_estimate_is_the_gaussians_total_correlation(correlation):
    """-log(1 - rho^2) / 2, by a plain fit with one optimizer."""
    generator = np.random.default_rng(1)
    covariance = [[1.0, correlation], [correlation, 1.0]]
    z = generator.multivariate_normal([0, 0], covariance, size=60_000)
    z = z.astype("float32")
    keras.utils.set_random_seed(0)
    inputs = keras.Input((2,))
    layer = qlayers.TotalCorrelationDiscriminator(1.0, (64, 64), seed=0)
    model = keras.Model(inputs, layer(inputs))
    rate = keras.optimizers.schedules.CosineDecay(3e-3, 480)
    model.compile(keras.optimizers.Adam(rate), jit_compile=False)
    history = model.fit(z, batch_size=500, epochs=4, verbose=0).history
    fresh = generator.multivariate_normal([0, 0], covariance, size=20_000)
    estimate = as_float64(layer.log_density_ratio(fresh.astype("float32"))).mean()
    expected = -0.5 * np.log(1 - correlation**2)
    np.testing.assert_allclose(estimate, expected, rtol=0.08, atol=0.02)
    shown = history[f"{layer.name}_total_correlation"]
    np.testing.assert_allclose(shown[-1], expected, rtol=0.1, atol=0.02)
    # A discriminator that cannot tell has the loss log 2.
    loss = history[f"{layer.name}_discriminator_loss"][-1]
    assert loss <= np.log(2) + 0.01
    assert (loss < np.log(2) - 0.02) == (correlation > 0)


def test_the_penalty_makes_an_encoder_decorrelate():
    """Latents start dependent; the encoder's gradient lowers their correlation."""
    generator = np.random.default_rng(2)
    x = generator.multivariate_normal([0, 0], [[1, 0.8], [0.8, 1]], size=20_000)
    keras.utils.set_random_seed(0)
    inputs = keras.Input((2,))
    encoder = keras.layers.Dense(2, use_bias=False, kernel_initializer="identity")
    layer = qlayers.TotalCorrelationDiscriminator(1.0, (32, 32), seed=0)
    model = keras.Model(inputs, layer(encoder(inputs)))
    model.compile(keras.optimizers.Adam(2e-3))
    model.fit(x.astype("float32"), batch_size=500, epochs=4, verbose=0)
    z = x @ encoder.kernel.numpy()
    assert abs(np.corrcoef(z.T)[0, 1]) < 0.4


@pytest.mark.backends
def test_one_hot_groups_move_together():
    codes = rng.integers(0, 4, size=(12, 3))
    one_hot = np.eye(4, dtype="float32")[codes]
    layer = qlayers.TotalCorrelationDiscriminator(1.0, (6,), one_hot=True, seed=0)
    outputs = layer(one_hot, training=True)
    np.testing.assert_array_equal(as_float64(outputs), one_hot)
    assert tuple(layer.kernels[0].shape) == (12, 6)
    logits = numpy_logits(layer, one_hot.reshape(12, 12))
    expected = (logits[:, 0] - logits[:, 1]).mean()
    np.testing.assert_allclose(as_float64(layer.losses[0]), expected, rtol=1e-4)
    permuted = permute_latents(one_hot, seed=1)
    loss = layer.discriminator_loss(one_hot, permuted)
    other = numpy_logits(layer, as_float64(permuted).reshape(12, 12))
    expected = 0.5 * (cross_entropy(logits, 0) + cross_entropy(other, 1)).mean()
    np.testing.assert_allclose(as_float64(loss), expected, rtol=1e-5)


@pytest.mark.backends
def test_default_network_is_the_papers():
    layer = qlayers.TotalCorrelationDiscriminator(1.0)
    layer.build((None, 10))
    shapes = [tuple(kernel.shape) for kernel in layer.kernels]
    assert shapes == [(10, 1000), *[(1000, 1000)] * 5, (1000, 2)]
    assert layer.negative_slope == 0.2


def test_a_traced_step_reads_each_weight_once():
    """A second read, which no gradient passes through, could follow the update.

    Half of the first steps of small models on a busy machine then had a total
    correlation of one weight after and the others before the update.
    """
    import tensorflow as tf

    layer = qlayers.TotalCorrelationDiscriminator(1.0, (7, 5), seed=0)
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(3), layer])
    model.compile("sgd", "mse")
    step = tf.function(model.train_step).get_concrete_function((Z, Z))
    handles = {id(handle): tensor for handle, tensor in step.graph.captures}
    for variable in layer.discriminator_variables:
        handle = handles[id(variable.value.handle)]
        reads = [op for op in handle.consumers() if op.type == "ReadVariableOp"]
        assert len(reads) == 1, variable.path
