"""Tripod's networks: counts from the description, values against NumPy."""

import keras
import numpy as np
import pytest

from models.networks import (
    residual_decoder,
    residual_encoder,
    residual_inner_layers,
)
from tests import numpy_layers as ref
from tests.models.networks.counting import conv, dense, norm, trainable


def weights_of(model, layer):
    return [np.asarray(w, float) for w in model.get_layer(layer).get_weights()]


def test_encoder_count():
    # Per stage two blocks of two (3x3 with bias, norm); only the first block changes
    # the width (3 -> 32), so only it has a 1x1 skip. 2x2 pixels to channels, then 1x1
    # to twice the width. Pool, 512 -> 512 with layer norm, -> 12.
    count = conv(1, 3, 32)
    inputs = 3
    for width in (32, 64, 128, 256):
        count += conv(3, inputs, width) + 3 * conv(3, width, width) + 4 * norm(width)
        count += conv(1, 4 * width, 2 * width)
        inputs = 2 * width
    count += dense(512, 512) + norm(512) + dense(512, 12)
    assert trainable(residual_encoder((64, 64, 3), 12)) == count


def test_decoder_count():
    # Condition 12 -> 256 -> 256 with layer norms; a 4x4x512 map; per stage two blocks
    # of two (3x3 with bias, affine map of the condition to two numbers a channel), then
    # 3x3 to half the width, at last to 3 channels.
    count = dense(12, 256) + dense(256, 256) + 2 * norm(256) + 4 * 4 * 512
    for width, following in ((512, 256), (256, 128), (128, 64), (64, 3)):
        count += 4 * (conv(3, width, width) + dense(256, 2 * width))
        count += conv(3, width, following)
    assert trainable(residual_decoder(12, (64, 64, 3))) == count
    # Normalizing the stages' outputs has nothing to learn.
    naive = residual_decoder(12, (64, 64, 3), normalize_outputs=True)
    assert trainable(naive) == count


@pytest.mark.parametrize("normalize_outputs", [False, True])
def test_inner_layers_of_the_hessian_penalty(normalize_outputs):
    shape = (64, 64, 3)
    decoder = residual_decoder(12, shape, normalize_outputs=normalize_outputs)
    names = residual_inner_layers(shape)
    assert names == ["cond", "block0", "block1", "block2"]
    inner = keras.Model(decoder.input, [decoder.get_layer(n).output for n in names])
    shapes = [tuple(t.shape[1:]) for t in inner.outputs]
    assert shapes == [(256,), (8, 8, 256), (16, 16, 128), (32, 32, 64)]
    outputs = inner(np.random.default_rng(0).normal(size=(2, 12)).astype("float32"))
    means = [float(np.abs(np.mean(t, axis=(1, 2))).max()) for t in outputs[1:]]
    assert all((m < 1e-5) == normalize_outputs for m in means)


def test_inner_layers_follow_the_image_size():
    names = residual_inner_layers((32, 32, 3))
    decoder = residual_decoder(12, (32, 32, 3), width=0.25)
    assert names == ["cond", "block0", "block1"]
    shapes = [tuple(decoder.get_layer(n).output.shape[1:]) for n in names]
    assert shapes == [(64,), (8, 8, 32), (16, 16, 16)]


def test_encoder_values():
    encoder = residual_encoder((8, 8, 3), 5, width=0.125)
    rng = np.random.default_rng(0)
    encoder.set_weights([rng.normal(0, 0.4, w.shape) for w in encoder.get_weights()])
    images = rng.uniform(size=(2, 8, 8, 3)).astype("float32")
    x = 2.0 * images.astype(float) - 1.0
    for block in (0, 1):
        skip = x
        if block == 0:
            kernel, bias = weights_of(encoder, "stage0_0_skip")
            skip = ref.conv(x, kernel, bias=bias)
        for layer in (0, 1):
            kernel, bias = weights_of(encoder, f"stage0_{block}_{layer}_conv")
            gamma, beta = weights_of(encoder, f"stage0_{block}_{layer}_norm")
            x = ref.instance_norm(ref.conv(x, kernel, bias=bias), 1e-5, gamma, beta)
            x = ref.gelu_tanh(x)
        x = skip + x
    kernel, bias = weights_of(encoder, "stage0_down")
    # 1x1 on 2x2 pixels side by side is a 2x2 convolution with stride 2.
    kernel = kernel.reshape(2, 2, 4, 8)
    x = ref.conv(x, kernel, stride=2, pad=0, bias=bias).mean(axis=(1, 2))
    kernel, bias = weights_of(encoder, "features_dense")
    x = ref.layer_norm(x @ kernel + bias, 1e-5, *weights_of(encoder, "features_norm"))
    kernel, bias = weights_of(encoder, "head")
    expected = ref.gelu_tanh(x) @ kernel + bias
    np.testing.assert_allclose(np.asarray(encoder(images)), expected, atol=2e-4)


def test_decoder_values():
    decoder = residual_decoder(4, (8, 8, 3), width=0.125)
    rng = np.random.default_rng(1)
    decoder.set_weights([rng.normal(0, 0.4, w.shape) for w in decoder.get_weights()])
    z = rng.normal(size=(3, 4)).astype("float32")
    condition = z.astype(float)
    for name in ("cond_hidden", "cond"):
        kernel, bias = weights_of(decoder, f"{name}_dense")
        scale, shift = weights_of(decoder, f"{name}_norm")
        condition = ref.layer_norm(condition @ kernel + bias, 1e-5, scale, shift)
        condition = ref.gelu_tanh(condition)
    (start,) = weights_of(decoder, "start")
    x = np.repeat(start[None], 3, axis=0)
    for block in (0, 1):
        skip = x
        for layer in (0, 1):
            kernel, bias = weights_of(decoder, f"stage0_{block}_{layer}_conv")
            x = ref.conv(x, kernel, bias=bias)
            kernel, bias = weights_of(decoder, f"stage0_{block}_{layer}_norm")
            scale, shift = np.split(condition @ kernel + bias, 2, axis=-1)
            x = ref.gelu_tanh(ref.instance_norm(x, 1e-5, 1.0 + scale, shift))
        x = skip + x
    kernel, bias = weights_of(decoder, "logits")
    expected = ref.conv(ref.double(x), kernel, bias=bias)
    np.testing.assert_allclose(np.asarray(decoder(z)), expected, atol=5e-4)


def test_start_map_is_ones():
    (start,) = weights_of(residual_decoder(12, (32, 32, 3)), "start")
    np.testing.assert_array_equal(start, np.ones((4, 4, 256)))
