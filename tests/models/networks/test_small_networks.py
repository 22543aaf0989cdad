"""The MLP, the spatial broadcast decoder, the discriminator and the critic."""

import numpy as np
import pytest

from models.networks import (
    encoder_with_critic,
    latent_discriminator,
    mlp_encoder,
    residual_encoder,
    spatial_broadcast_decoder,
    style_encoder,
)
from tests import numpy_layers as ref
from tests.models.networks.counting import conv, dense, trainable


def weights_of(model, layer):
    return [np.asarray(w, float) for w in model.get_layer(layer).get_weights()]


def test_mlp_count_and_values():
    encoder = mlp_encoder(2, 2)
    # (2, 50), (50, 100), (100, 50), (50, 2) of Cliff's appendix G.1.
    count = dense(2, 50) + dense(50, 100) + dense(100, 50) + dense(50, 2)
    assert trainable(encoder) == count == 10_402
    x = np.random.default_rng(0).normal(size=(4, 2)).astype("float32")
    y = x
    for name in ("hidden0", "hidden1", "hidden2"):
        kernel, bias = weights_of(encoder, name)
        y = np.tanh(y @ kernel + bias)
    kernel, bias = weights_of(encoder, "head")
    np.testing.assert_allclose(np.asarray(encoder(x)), y @ kernel + bias, atol=1e-6)


def test_mlp_width():
    assert trainable(mlp_encoder(2, 2, width=0.1)) == (
        dense(2, 5) + dense(5, 10) + dense(10, 5) + dense(5, 2)
    )


def test_spatial_broadcast_count_and_translation():
    decoder = spatial_broadcast_decoder(2, (64, 64, 1))
    count = conv(3, 2 + 2, 64) + conv(3, 64, 64) + conv(3, 64, 1)
    assert trainable(decoder) == count
    # Without coordinates every interior pixel would be the same: they are used.
    image = np.asarray(decoder(np.ones((1, 2), "float32")))[0, 8:-8, 8:-8, 0]
    assert image.std() > 1e-3
    kernel, bias = decoder.get_layer("conv0").get_weights()
    kernel[:, :, 2:] = 0.0
    decoder.get_layer("conv0").set_weights([kernel, bias])
    image = np.asarray(decoder(np.ones((1, 2), "float32")))[0, 8:-8, 8:-8, 0]
    assert image.std() < 1e-6


def test_discriminator_count_and_values():
    # FactorVAE and FactorDVAE: six layers of 1000, two logits.
    assert trainable(latent_discriminator(10)) == (
        dense(10, 1000) + 5 * dense(1000, 1000) + dense(1000, 2)
    )
    # FactorQVAE: five layers of 1000 on 12 one-hot codes of 64.
    small = latent_discriminator(
        12 * 64, hidden_units=(1000,) * 5, initializer="normal", width=0.1
    )
    assert trainable(small) == dense(768, 100) + 4 * dense(100, 100) + dense(100, 2)
    kernel, bias = weights_of(small, "hidden0")
    assert kernel.std() == pytest.approx(0.02, rel=0.02)
    assert not bias.any()
    x = np.random.default_rng(0).normal(size=(3, 768)).astype("float32")
    y = x
    for layer in range(5):
        kernel, bias = weights_of(small, f"hidden{layer}")
        y = ref.leaky_relu(y @ kernel + bias, 0.2)
    kernel, bias = weights_of(small, "logits")
    np.testing.assert_allclose(np.asarray(small(x)), y @ kernel + bias, atol=1e-6)


@pytest.mark.parametrize("build", [style_encoder, residual_encoder])
def test_critic_is_one_projection_of_the_shared_features(build):
    encoder = build((16, 16, 3), 5, width=0.25)
    model = encoder_with_critic(encoder)
    features = encoder.get_layer("features").output.shape[-1]
    assert trainable(model) == trainable(encoder) + dense(features, 1)
    images = np.random.default_rng(0).uniform(size=(3, 16, 16, 3)).astype("float32")
    outputs = model(images)
    assert outputs["value"].shape == (3, 1)
    np.testing.assert_array_equal(
        np.asarray(outputs["latents"]), np.asarray(encoder(images))
    )
    # The weights are shared, not copied.
    head = encoder.get_layer("head")
    head.set_weights([np.zeros_like(w) for w in head.get_weights()])
    assert not np.asarray(model(images)["latents"]).any()


def test_critic_needs_the_layer_it_reads():
    with pytest.raises(ValueError, match="no layer named 'nothing'"):
        encoder_with_critic(
            style_encoder((16, 16, 3), 5, width=0.1), features="nothing"
        )


def test_wrong_arguments():
    with pytest.raises(ValueError, match="initializer"):
        latent_discriminator(10, initializer="zeros")
    with pytest.raises(ValueError, match="negative_slope"):
        latent_discriminator(10, negative_slope=-0.1)
