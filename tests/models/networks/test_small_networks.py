"""The MLP and the spatial broadcast decoder."""

import numpy as np

from models.networks import mlp_encoder, spatial_broadcast_decoder
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
