"""Masked samples have no part in the batch statistics of a regularizer."""

import keras
import numpy as np
import pytest
from keras import ops

import qlayers
from qlayers.functional import permute_latents
from qlayers.regularizers.base import LatentRegularizer

pytestmark = pytest.mark.backends

LENGTHS = (3, 5, 1)
MASK = np.arange(5) < np.array(LENGTHS)[:, None]


def padded(seed=0, size=4):
    x = np.random.default_rng(seed).normal(size=(3, 5, size)).astype("float32")
    x[~MASK] = 40.0
    return x


def moments():
    return padded(1), np.abs(padded(2)) + 0.1


LAYERS = {
    "activity": (lambda: qlayers.ActivityEnergy(1.0), list),
    "multiinformation": (lambda: qlayers.KernelMultiinformation(1.0), list),
    "continuous": (
        lambda: qlayers.KernelMultiinformation(1.0),
        lambda: [padded(1)],
    ),
    # All unmasked samples condition: which ones is otherwise a draw.
    "cliff": (lambda: qlayers.Cliff(num_conditions=12, seed=0), list),
    "hausdorff": (lambda: qlayers.HausdorffFactorizedSupport(1.0, seed=0), list),
    "support": (lambda: qlayers.IndependentSupport(1.0, 500, 0.12, seed=0), list),
    "minibatch": (lambda: qlayers.MinibatchTotalCorrelation(1.0, 100), moments),
    "discriminator": (
        lambda: qlayers.TotalCorrelationDiscriminator(
            1.0, (8,), trains_itself=False, seed=0
        ),
        list,
    ),
}


def numpy_of(values):
    return [ops.convert_to_numpy(value) for value in values]


@pytest.mark.parametrize("name", LAYERS)
def test_a_padded_batch_equals_the_unpadded_one(name):
    make, others = LAYERS[name]
    z, rest = padded(), others()
    masked, plain = make(), make()
    for layer in (masked, plain):
        layer.build((None, 4))
    outputs = masked(keras.layers.Masking(40.0)(z), *rest, training=True)
    plain(z[MASK], *(x[MASK] for x in rest), training=True)
    found, expected = numpy_of(masked.losses), numpy_of(plain.losses)
    assert len(expected) == len(found) > 0
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(outputs._keras_mask, MASK)


@pytest.mark.slow
def test_masks_of_keras_in_a_compiled_fit():
    """More padding, the same losses and the same gradients."""
    short = padded()
    long = np.pad(short, [(0, 0), (0, 3), (0, 0)], constant_values=40.0)
    results = []
    for x in (short, long):
        keras.utils.set_random_seed(0)
        inputs = keras.Input((None, 4))
        h = keras.layers.Dense(4)(keras.layers.Masking(40.0)(inputs))
        z = qlayers.KernelMultiinformation(1.0, name="m")(h, continuous=h * 2.0)
        z = qlayers.Cliff(num_conditions=20, seed=0, name="c")(z)
        model = keras.Model(inputs, keras.layers.LSTM(2)(z))
        jit_compile = keras.backend.backend() == "jax"
        model.compile(keras.optimizers.SGD(0.01), "mse", jit_compile=jit_compile)
        y = np.ones((3, 2), "float32")
        history = model.fit(x, y, batch_size=3, epochs=2, verbose=0).history
        results.append((history, model.get_weights()))
    (history, weights), (others, theirs) = results
    assert {"m_multiinformation", "c_bivariate"} <= {*history}
    for name, values in history.items():
        assert values == pytest.approx(others[name], rel=1e-3), name
    for ours, other in zip(weights, theirs, strict=True):
        np.testing.assert_allclose(ours, other, rtol=1e-3, atol=1e-5)


def test_masked_samples_are_not_shuffled_into_the_others():
    z, weights = (
        np.arange(30.0).reshape(10, 3),
        np.array([0, 1, 1, 0, 1, 1, 1, 0, 1, 1]),
    )
    found = ops.convert_to_numpy(permute_latents(z, 0, weights.astype("float32")))
    chosen = weights > 0
    np.testing.assert_array_equal(np.sort(found[chosen], axis=0), z[chosen])
    assert not np.array_equal(found[chosen], z[chosen])


def test_what_cannot_be_weighted_is_refused():
    class Plain(LatentRegularizer):
        weight = 1.0

        def add_terms(self, z):
            self.add_loss(ops.mean(z))

    x = keras.layers.Masking(40.0)(padded())
    with pytest.raises(ValueError, match="received a mask"):
        Plain()(x, training=True)
    penalty = qlayers.HessianPenalty(keras.layers.Dense(2), 1.0)
    with pytest.raises(ValueError, match="received a mask"):
        penalty(padded()[0], mask=MASK[0], training=True)
