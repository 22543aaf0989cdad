"""QLAE's networks: counts from appendix B.3, values against NumPy."""

import keras
import numpy as np
import pytest

import models
from models.networks import style_decoder, style_encoder, style_inner_layers
from tests import numpy_layers as ref
from tests.models.networks.counting import conv, dense, norm, trainable


def weights_of(model, layer):
    return [np.asarray(w, float) for w in model.get_layer(layer).get_weights()]


def test_encoder_count():
    # Four blocks of widths 32, 64, 128, 256, each 3x3, 3x3, 4x4; no bias (code), a
    # scale and shift after each (code); then 256x4x4 -> 256 -> 256 -> 12.
    count, inputs = 0, 3
    for width in (32, 64, 128, 256):
        count += conv(3, inputs, width, bias=False)
        count += conv(3, width, width, bias=False)
        count += conv(4, width, width, bias=False)
        count += 3 * norm(width)
        inputs = width
    count += dense(256 * 4 * 4, 256) + dense(256, 256) + dense(256, 12)
    assert count == 3_684_524
    assert trainable(style_encoder((64, 64, 3), 12)) == count
    assert trainable(style_encoder((64, 64, 3), 12, variant="code")) == count


@pytest.mark.parametrize(("variant", "last_kernel"), [("paper", 1), ("code", 3)])
def test_decoder_count(variant, last_kernel):
    # 12 -> 256 -> 256 = w; a 256x4x4 map; four blocks of widths 256, 128, 64, 32, each
    # 3x3, 3x3, 4x4 and after each an affine map of w to two numbers a channel; last a
    # convolution to 3 channels.
    count, inputs = dense(12, 256) + dense(256, 256) + 256 * 4 * 4, 256
    for width in (256, 128, 64, 32):
        count += conv(3, inputs, width, bias=False)
        count += conv(3, width, width, bias=False)
        count += conv(4, width, width, bias=False)
        count += 3 * dense(256, 2 * width)
        inputs = width
    count += conv(last_kernel, 32, 3, bias=False)
    assert trainable(style_decoder(12, (64, 64, 3), variant=variant)) == count


def test_small_version_has_the_widths_16_32_64():
    encoder = style_encoder((32, 32, 3), 12, width=0.5)
    decoder = style_decoder(12, (32, 32, 3), width=0.5)
    stages = [encoder.get_layer(f"stage{i}_2_conv").output.shape for i in range(3)]
    assert [tuple(s[1:]) for s in stages] == [(16, 16, 16), (8, 8, 32), (4, 4, 64)]
    stages = [decoder.get_layer(f"stage{i}_2_conv").output.shape for i in range(3)]
    assert [tuple(s[1:]) for s in stages] == [(8, 8, 64), (16, 16, 32), (32, 32, 16)]
    assert encoder.get_layer("features").output.shape == (None, 128)


def test_no_preserving_layers():
    encoder = style_encoder((32, 32, 3), 12, width=0.5, preserving_layers=0)
    count = conv(4, 3, 16, False) + conv(4, 16, 32, False) + conv(4, 32, 64, False)
    count += norm(16) + norm(32) + norm(64)
    count += dense(64 * 16, 128) + dense(128, 128) + dense(128, 12)
    assert trainable(encoder) == count


@pytest.mark.parametrize("variant", ["paper", "code"])
def test_encoder_values(variant):
    encoder = style_encoder((8, 8, 3), 5, width=0.1, variant=variant)
    rng = np.random.default_rng(0)
    encoder.set_weights([rng.normal(0, 0.5, w.shape) for w in encoder.get_weights()])
    images = rng.uniform(size=(2, 8, 8, 3)).astype("float32")
    x = images
    for layer, stride in ((0, 1), (1, 1), (2, 2)):
        (kernel,) = weights_of(encoder, f"stage0_{layer}_conv")
        gamma, beta = weights_of(encoder, f"stage0_{layer}_norm")
        x = ref.conv(x, kernel, stride, pad=1)
        if variant == "paper":  # activation with slope 0.3, then normalization
            x = ref.instance_norm(ref.leaky_relu(x, 0.3), 1e-6, gamma, beta)
        else:
            x = ref.leaky_relu(ref.instance_norm(x, 1e-6, gamma, beta), 0.2)
    x = x.reshape(2, -1)
    for name in ("hidden", "features", "head"):
        kernel, bias = weights_of(encoder, name)
        x = x @ kernel + bias
        x = x if name == "head" else ref.relu(x)
    np.testing.assert_allclose(np.asarray(encoder(images)), x, atol=2e-4)


@pytest.mark.parametrize("variant", ["paper", "code"])
def test_decoder_values(variant):
    decoder = style_decoder(4, (8, 8, 3), width=0.1, variant=variant)
    rng = np.random.default_rng(1)
    decoder.set_weights([rng.normal(0, 0.5, w.shape) for w in decoder.get_weights()])
    z = rng.normal(size=(3, 4)).astype("float32")
    style = z
    for name in ("style0", "style1"):
        kernel, bias = weights_of(decoder, name)
        style = ref.relu(style @ kernel + bias)
    (start,) = weights_of(decoder, "start")
    x = np.repeat(start[None], 3, axis=0)
    for layer, stride in ((0, 1), (1, 1), (2, 2)):
        (kernel,) = weights_of(decoder, f"stage0_{layer}_conv")
        if stride == 1:  # the same layer as a transposed convolution
            kernel = kernel[::-1, ::-1].transpose(0, 1, 3, 2)
        x = ref.conv_transpose(x, kernel, stride, pad=1)
        x = ref.leaky_relu(x, 0.3 if variant == "paper" else 0.2)
        kernel, bias = weights_of(decoder, f"stage0_{layer}_adain")
        affine = style @ kernel + bias
        affine = affine if variant == "paper" else ref.relu(affine)
        scale, shift = np.split(affine, 2, axis=-1)
        x = ref.instance_norm(x, 1e-6, scale, shift)
    (kernel,) = weights_of(decoder, "logits")
    expected = ref.conv(x, kernel)
    np.testing.assert_allclose(np.asarray(decoder(z)), expected, atol=2e-4)


def test_initial_values():
    decoder = style_decoder(12, (32, 32, 3))
    np.testing.assert_array_equal(weights_of(decoder, "start")[0], np.float32(0.1))
    # U(+-1/sqrt(fan_in)): 128 channels in, 4x4 kernel. Deviation limit / sqrt(3).
    (kernel,) = weights_of(decoder, "stage0_2_conv")
    limit = (128 * 16) ** -0.5
    assert np.abs(kernel).max() <= limit
    assert kernel.std() == pytest.approx(limit / 3**0.5, rel=0.02)
    # 128 channels in, 64 out: fan-in and fan-out differ.
    (kernel,) = weights_of(decoder, "stage1_0_conv")
    assert np.abs(kernel).max() == pytest.approx((128 * 9) ** -0.5, rel=0.01)
    _, bias = weights_of(decoder, "style1")
    assert 0.8 * 256**-0.5 < np.abs(bias).max() <= 256**-0.5


def test_up_convolution_initializer_uses_the_input_channels():
    decoder = style_decoder(12, (32, 32, 3), preserving_layers=0)
    (kernel,) = weights_of(decoder, "stage1_0_conv")  # 128 -> 64 channels
    assert np.abs(kernel).max() == pytest.approx((128 * 16) ** -0.5, rel=0.01)


def test_same_kernels_twice_would_be_a_bug():
    encoder = style_encoder((32, 32, 3), 12)
    (first,) = weights_of(encoder, "stage1_1_conv")
    other = style_encoder((32, 32, 3), 12)
    (second,) = weights_of(other, "stage1_1_conv")
    assert np.abs(first - second).max() > 0.01
    kernel, bias = weights_of(encoder, "features")
    assert np.abs(kernel[0] - bias).max() > 0.01


@pytest.mark.parametrize("preserving_layers", [0, 2])
def test_inner_layers_are_all_maps_but_the_last(preserving_layers):
    shape = (32, 32, 3)
    decoder = style_decoder(12, shape, width=0.5, preserving_layers=preserving_layers)
    names = style_inner_layers(shape, preserving_layers)
    shapes = [tuple(decoder.get_layer(n).output.shape[1:]) for n in names]
    assert shapes == [(128,), (8, 8, 64), (16, 16, 32)]


def test_normalized_outputs_keep_the_style():
    """Each inner map has mean 0 and deviation 1, and still depends on the latents."""
    shape = (16, 16, 3)
    decoder = style_decoder(
        3, shape, width=0.25, preserving_layers=0, normalize_outputs=True
    )
    names = style_inner_layers(shape, 0, normalize_outputs=True)
    assert names == ["style1", "stage0_normal"]
    inner = keras.Model(decoder.input, decoder.get_layer("stage0_normal").output)
    z = np.random.default_rng(0).normal(size=(4, 3)).astype("float32")
    maps = np.array(inner(z), "float64").reshape(4, -1)
    np.testing.assert_allclose(maps.mean(1), 0.0, atol=1e-5)
    np.testing.assert_allclose(maps.std(1), 1.0, atol=1e-3)
    assert np.abs(maps[0] - maps[1]).max() > 0.05


def test_naive_tripod_penalizes_normalized_maps():
    model = models.build(
        "tripod_naive", (16, 16, 3), 3, network="style", width=0.125, seed=0
    )
    penalty = next(layer for layer in model.graph.layers if layer.name == "hessian")
    assert penalty.outputs == ["style1", "stage0_normal"]
