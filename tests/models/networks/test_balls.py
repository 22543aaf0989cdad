"""The networks for the balls: ResNet-18, its decoder, and the additive one."""

import keras
import numpy as np
import pytest

from models.networks import (
    additive_decoder,
    balls_decoder,
    resnet_encoder,
    spatial_broadcast_decoder,
    style_decoder,
)
from tests import numpy_layers as ref
from tests.models.networks.counting import conv, dense, norm, trainable


def test_encoder_count():
    # ResNet-18 has 11,689,512 parameters, of which the classifier to 1000 classes,
    # which is left out, has 512 * 1000 + 1000 (He et al. 2016; torchvision's figure).
    count = 11_689_512 - dense(512, 1000)
    count += 5 * (dense(512, 512) + norm(512)) + dense(512, 4) + norm(4)
    assert trainable(resnet_encoder((64, 64, 3), 4)) == count


def test_decoder_count():
    # dz -> 512, four more of 512, one to 64 channels of 4x4; then the four transposed
    # convolutions of appendix G.2.
    count = dense(4, 512) + 4 * dense(512, 512) + 5 * norm(512)
    count += dense(512, 64 * 4 * 4) + norm(64 * 4 * 4)
    count += conv(4, 64, 64) + conv(4, 64, 32) + conv(4, 32, 32) + conv(4, 32, 3)
    assert trainable(balls_decoder(4, (64, 64, 3))) == count
    assert trainable(balls_decoder(4, (64, 64, 3), variant="code")) == count


def test_last_activation_is_the_papers():
    paper = balls_decoder(4, (16, 16, 3), width=0.1)
    code = balls_decoder(4, (16, 16, 3), width=0.1, variant="code")
    paper.get_layer("image").bias.assign([-0.1, 0.0, 0.1])
    code.set_weights(paper.get_weights())
    z = np.random.default_rng(0).normal(size=(3, 4)).astype("float32")
    plain = np.asarray(code(z))
    assert plain.min() < 0.0 < plain.max()
    expected = ref.leaky_relu(plain, 0.01)
    np.testing.assert_allclose(np.asarray(paper(z)), expected, atol=1e-7)


def test_encoder_halves_like_resnet18():
    encoder = resnet_encoder((64, 64, 3), 4, width=0.25)
    names = ["stem_relu", "stem_pool", *(f"stage{i}_1_relu1" for i in range(4))]
    sizes = [encoder.get_layer(name).output.shape[1] for name in names]
    assert sizes == [32, 16, 16, 8, 4, 2]


def test_strided_convolution_pads_both_sides():
    encoder = resnet_encoder((32, 32, 3), 4, width=0.1)
    part = keras.Model(encoder.input, encoder.get_layer("stem_conv").output)
    images = np.random.default_rng(0).uniform(size=(1, 32, 32, 3)).astype("float32")
    kernel = np.asarray(encoder.get_layer("stem_conv").get_weights()[0], float)
    expected = ref.conv(images, kernel, stride=2, pad=3)
    np.testing.assert_allclose(np.asarray(part(images)), expected, atol=1e-5)


def test_latents_are_batch_normalized():
    encoder = resnet_encoder((32, 32, 3), 4, width=0.1)
    images = np.random.default_rng(0).uniform(size=(16, 32, 32, 3)).astype("float32")
    z = np.asarray(encoder(images, training=True))
    np.testing.assert_allclose(z.mean(axis=0), 0.0, atol=1e-4)
    np.testing.assert_allclose(z.std(axis=0), 1.0, atol=0.05)


def mixed_second_difference(decoder, first, second):
    """f(a, b) - f(a', b) - f(a, b') + f(a', b') for two latents, others fixed."""
    z = np.random.default_rng(0).normal(size=(1, 4)).astype("float32")
    values = []
    for step_first, step_second in ((0, 0), (1, 0), (0, 1), (1, 1)):
        moved = z.copy()
        moved[0, first] += step_first
        moved[0, second] += step_second
        values.append(np.asarray(decoder(moved), float))
    return np.abs(values[0] - values[1] - values[2] + values[3]).max()


@pytest.mark.parametrize("build", [balls_decoder, style_decoder])
def test_additive_decoder_is_additive_across_blocks_only(build):
    decoder = additive_decoder(
        4, (16, 16, 3), block_sizes=(2, 2), decoder=build, width=0.125
    )
    for weight in decoder.trainable_weights:
        if weight.name == "kernel":  # as drawn, six layers leave little of the input
            weight.assign(2.5 * weight)
    scale = np.abs(np.asarray(decoder(np.ones((1, 4), "float32")))).max()
    for first, second in ((0, 2), (0, 3), (1, 2), (1, 3)):
        assert mixed_second_difference(decoder, first, second) < 2e-6 * (1 + scale)
    for first, second in ((0, 1), (2, 3)):
        assert mixed_second_difference(decoder, first, second) > 1e-2 * scale


def test_additive_decoder_by_default_takes_every_latent_alone():
    decoder = additive_decoder(3, (16, 16, 1), width=0.1)
    parts = [layer for layer in decoder.layers if isinstance(layer, keras.Model)]
    assert [part.input_shape for part in parts] == [(None, 1)] * 3
    z = np.random.default_rng(0).normal(size=(2, 3)).astype("float32")
    expected = sum(np.asarray(part(z[:, i : i + 1])) for i, part in enumerate(parts))
    np.testing.assert_allclose(np.asarray(decoder(z)), expected, atol=1e-6)
    one = trainable(balls_decoder(1, (16, 16, 1), width=0.1))
    assert trainable(decoder) == 3 * one


def test_one_block_is_the_plain_decoder():
    decoder = additive_decoder(
        2, (8, 8, 1), block_sizes=(2,), decoder=spatial_broadcast_decoder, width=0.1
    )
    assert [layer.name for layer in decoder.layers][1] == "broadcast"


def test_block_sizes_must_add_up():
    with pytest.raises(ValueError, match=r"add up to `num_latents` \(4\).*\[2, 1\]"):
        additive_decoder(4, (16, 16, 3), block_sizes=(2, 1))
