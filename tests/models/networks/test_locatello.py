"""Locatello's networks: counts from Cliff's appendix G.3, values against NumPy."""

import numpy as np
import pytest

from models.networks import locatello_decoder, locatello_encoder
from tests import numpy_layers as ref
from tests.models.networks.counting import conv, dense, trainable


def weights_of(model, layer):
    return [np.asarray(w, float) for w in model.get_layer(layer).get_weights()]


@pytest.mark.parametrize(("variant", "last_kernel"), [("paper", 4), ("code", 2)])
def test_encoder_count(variant, last_kernel):
    # 4x4 to 32, 4x4 to 32, then 64 and 64, dense 256, dense 2 x 10.
    count = conv(4, 3, 32) + conv(4, 32, 32)
    count += conv(last_kernel, 32, 64) + conv(last_kernel, 64, 64)
    count += dense(4 * 4 * 64, 256) + dense(256, 20)
    assert trainable(locatello_encoder((64, 64, 3), 20, variant=variant)) == count


def test_decoder_count():
    count = dense(10, 256) + dense(256, 4 * 4 * 64)
    count += conv(4, 64, 64) + conv(4, 64, 32) + conv(4, 32, 32) + conv(4, 32, 3)
    assert trainable(locatello_decoder(10, (64, 64, 3))) == count


def test_small_image_leaves_out_the_layer_of_highest_resolution():
    count = conv(4, 3, 32) + conv(4, 32, 64) + conv(4, 64, 64)
    count += dense(4 * 4 * 64, 256) + dense(256, 20)
    assert trainable(locatello_encoder((32, 32, 3), 20)) == count
    count = dense(10, 256) + dense(256, 4 * 4 * 64)
    count += conv(4, 64, 64) + conv(4, 64, 32) + conv(4, 32, 3)
    assert trainable(locatello_decoder(10, (32, 32, 3))) == count


@pytest.mark.parametrize("variant", ["paper", "code"])
def test_encoder_values(variant):
    encoder = locatello_encoder((32, 32, 1), 5, width=0.1, variant=variant)
    images = np.random.default_rng(0).uniform(size=(2, 32, 32, 1)).astype("float32")
    x = images
    for stage in range(3):
        kernel, bias = weights_of(encoder, f"conv{stage}")
        pad = 1 if len(kernel) == 4 else 0
        x = ref.relu(ref.conv(x, kernel, stride=2, pad=pad, bias=bias))
    x = x.reshape(2, -1)
    kernel, bias = weights_of(encoder, "features")
    x = ref.relu(x @ kernel + bias)
    kernel, bias = weights_of(encoder, "head")
    expected = x @ kernel + bias
    assert np.abs(expected).max() > 1e-2
    np.testing.assert_allclose(np.asarray(encoder(images)), expected, atol=1e-5)


def test_decoder_values():
    decoder = locatello_decoder(4, (16, 16, 3), width=0.1)
    z = np.random.default_rng(0).normal(size=(2, 4)).astype("float32")
    x = z
    for name in ("hidden", "start_dense"):
        kernel, bias = weights_of(decoder, name)
        x = ref.relu(x @ kernel + bias)
    x = x.reshape(2, 4, 4, -1)
    for name in ("deconv0", "logits"):
        kernel, bias = weights_of(decoder, name)
        x = ref.conv_transpose(x, kernel, 2, 1, bias)
        x = x if name == "logits" else ref.relu(x)
    np.testing.assert_allclose(np.asarray(decoder(z)), x, atol=1e-5)


def test_initial_values():
    encoder = locatello_encoder((64, 64, 3), 20)
    kernel, bias = weights_of(encoder, "features")
    # A normal cut at two deviations keeps 0.880 of its deviation.
    assert kernel.std() == pytest.approx(0.8796 / 32.0, rel=0.01)
    assert np.abs(kernel).max() <= 2.0 / 32.0
    assert not bias.any()
