"""FactorQVAE's networks: counts from appendix A.3, values against NumPy."""

import numpy as np
import pytest

from models.networks import dalle_decoder, dalle_encoder
from tests import numpy_layers as ref
from tests.models.networks.counting import conv, dense, trainable


def weights_of(model, layer):
    return [np.asarray(w, float) for w in model.get_layer(layer).get_weights()]


def block_count(inputs, outputs, kernel_sizes, inner):
    """Four convolutions, and a 1x1 skip where the width changes."""
    widths = [inputs, inner, inner, inner, outputs]
    count = sum(
        conv(k, i, o)
        for k, i, o in zip(kernel_sizes, widths[:-1], widths[1:], strict=True)
    )
    return count + (conv(1, inputs, outputs) if inputs != outputs else 0)


@pytest.mark.parametrize(("variant", "divisor"), [("paper", 1), ("code", 4)])
def test_encoder_count(variant, divisor):
    # n = m = 128: 3x3 to 128, two blocks each of 128, 256, 512, pooled to 16x16 on the
    # way, then 16*16*512 -> 128 -> 128 -> o.
    count, inputs = conv(3, 3, 128), 128
    for width in (128, 256, 512):
        for block_inputs in (inputs, width):
            count += block_count(block_inputs, width, (3, 3, 3, 1), width // divisor)
        inputs = width
    count += dense(16 * 16 * 512, 128) + dense(128, 128) + dense(128, 12)
    assert trainable(dalle_encoder((64, 64, 3), 12, variant=variant)) == count


@pytest.mark.parametrize(
    ("variant", "divisor", "start"), [("paper", 1, 16), ("code", 4, 64)]
)
def test_decoder_count(variant, divisor, start):
    count, inputs = dense(12, 16 * 16 * start), start
    for width in (512, 256, 128):
        for block_inputs in (inputs, width):
            count += block_count(block_inputs, width, (1, 3, 3, 3), width // divisor)
        inputs = width
    count += conv(1, 128, 3)
    assert trainable(dalle_decoder(12, (64, 64, 3), variant=variant)) == count


def block(model, x, label, variant):
    skip = x
    if any(layer.name == f"{label}_skip" for layer in model.layers):
        kernel, bias = weights_of(model, f"{label}_skip")
        skip = ref.conv(x, kernel, bias=bias)
    for layer in range(4):
        kernel, bias = weights_of(model, f"{label}_{layer}_conv")
        x = ref.conv(ref.relu(x), kernel, bias=bias)
    return skip + (x / 36.0 if variant == "code" else x)


def randomized(model, rng):
    model.set_weights([rng.normal(0, 0.2, w.shape) for w in model.get_weights()])
    return model


@pytest.mark.parametrize("variant", ["paper", "code"])
def test_encoder_values(variant):
    rng = np.random.default_rng(0)
    encoder = randomized(
        dalle_encoder((8, 8, 3), 5, width=1 / 32, variant=variant), rng
    )
    images = rng.uniform(size=(2, 8, 8, 3)).astype("float32")
    kernel, bias = weights_of(encoder, "stem")
    x = ref.conv(images - 0.5, kernel, bias=bias)
    for group in range(3):
        x = ref.max_pool(x) if group else x
        for index in range(2):
            x = block(encoder, x, f"group{group}_{index}", variant)
    x = ref.relu(x.reshape(2, -1))
    for name in ("hidden", "features", "head"):
        kernel, bias = weights_of(encoder, name)
        x = x @ kernel + bias
        x = x if name == "head" else ref.relu(x)
    np.testing.assert_allclose(np.asarray(encoder(images)), x, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("variant", ["paper", "code"])
def test_decoder_values(variant):
    rng = np.random.default_rng(1)
    decoder = randomized(
        dalle_decoder(4, (8, 8, 3), width=1 / 16, variant=variant), rng
    )
    z = rng.normal(size=(2, 4)).astype("float32")
    kernel, bias = weights_of(decoder, "start_dense")
    x = (z @ kernel + bias).reshape(2, 2, 2, -1)
    for group in range(3):
        x = ref.double(x) if group else x
        for index in range(2):
            x = block(decoder, x, f"group{group}_{index}", variant)
    kernel, bias = weights_of(decoder, "centered_image")
    expected = ref.conv(ref.relu(x), kernel, bias=bias) + 0.5
    np.testing.assert_allclose(np.asarray(decoder(z)), expected, atol=1e-4, rtol=1e-4)


def test_initial_values():
    decoder = dalle_decoder(12, (32, 32, 3), width=0.5)
    kernel, bias = weights_of(decoder, "group1_1_2_conv")
    assert kernel.std() == pytest.approx(0.02, rel=0.02)
    assert not bias.any()
