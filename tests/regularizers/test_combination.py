"""Ideas of several papers in one functional model."""

import keras
import numpy as np
import pytest
from keras import ops

import qlayers
from qlayers.backend import mirrored_strategy

TERMS = (
    "klm_multiinformation",
    "cliff_univariate",
    "cliff_bivariate",
    "cliff_uniform",
    "tc_total_correlation",
    "tc_discriminator_loss",
    "nhp_hessian_penalty",
    "fsq_perplexity",
)


def make_model(optimizer=None, epsilon=0.1):
    keras.utils.set_random_seed(0)
    latents = keras.Input((4,))
    hidden = keras.layers.Dense(16, "gelu", name="hidden")(latents)
    decoder = keras.Model(latents, keras.layers.Dense(6)(hidden), name="decoder")

    inputs = keras.Input((6,))
    h = keras.layers.Dense(4)(keras.layers.Dense(16, "gelu")(inputs))
    continuous = ops.tanh(h)
    z = qlayers.FiniteScalarQuantizer(12, name="fsq")(h)
    z = qlayers.KernelMultiinformation(1e-2, name="klm")(z, continuous)
    z = qlayers.Cliff(1e-2, seed=1, name="cliff")(z)
    z = qlayers.TotalCorrelationDiscriminator(0.1, (16,), seed=2, name="tc")(z)
    penalty = qlayers.NormalizedHessianPenalty(
        decoder, 1e-2, epsilon=epsilon, outputs=["hidden"], seed=3, name="nhp"
    )
    model = keras.Model(inputs, penalty(z, continuous=continuous))
    model.compile(optimizer or keras.optimizers.Adam(3e-3), "mse")
    return model


def test_all_at_once(tmp_path):
    x = np.random.default_rng(0).normal(size=(128, 6)).astype("float32")
    x[:, 3:] = np.tanh(x[:, :3])
    model = make_model()
    history = model.fit(x, x, batch_size=32, epochs=15, verbose=0).history
    for term in TERMS:
        assert np.all(np.isfinite(history[term])), term
    # The reconstruction is what is left of the loss without the weighted terms.
    reconstruction = np.array(history["loss"])
    for term, weight in {
        "klm_multiinformation": 1e-2,
        "cliff_univariate": 0.5e-2,
        "cliff_bivariate": 1e-2,
        "cliff_uniform": 0.7e-2,
        "tc_total_correlation": 0.1,
        "tc_discriminator_loss": 1.0,
        "nhp_hessian_penalty": 1e-2,
    }.items():
        reconstruction = reconstruction - weight * np.array(history[term])
    evaluated = model.evaluate(x, x, verbose=0, return_dict=True)["loss"]
    assert np.all(reconstruction > 0)
    np.testing.assert_allclose(reconstruction[-1], evaluated, rtol=0.15)
    assert reconstruction[-1] < 0.6 * reconstruction[0]

    model.save(tmp_path / "model.keras")
    restored = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(model(x), restored(x))
    again = [m.fit(x, x, batch_size=32, verbose=0).history for m in (model, restored)]
    assert again[0] == again[1]


@pytest.mark.slow
def test_two_replicas_take_the_step_of_one():
    """Several layers that exchange batches in one model, and random choices in each."""
    x = np.random.default_rng(0).normal(size=(16, 6)).astype("float32")
    # The wide step keeps the rounding of the differences out of the comparison.
    with mirrored_strategy().scope():
        replicated = make_model(keras.optimizers.SGD(0.01), epsilon=0.5)
    single = make_model(keras.optimizers.SGD(0.01), epsilon=0.5)
    histories = [
        model.fit(x, x, batch_size=16, epochs=2, shuffle=False, verbose=0).history
        for model in (replicated, single)
    ]
    for term in (*TERMS, "loss"):
        np.testing.assert_allclose(
            histories[0][term], histories[1][term], rtol=1e-4, err_msg=term
        )
    for ours, theirs in zip(replicated.weights, single.weights, strict=True):
        np.testing.assert_allclose(
            ours.numpy(), theirs.numpy(), rtol=1e-4, atol=1e-6, err_msg=ours.path
        )
