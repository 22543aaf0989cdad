"""What holds for every method: size, training, saving, replicas."""

import keras
import numpy as np
import pytest

import models
from models.networks.choice import Networks
from qlayers.backend import mirrored_strategy
from tests.models.tiny import NUM_LATENTS, OPTIONS, STYLE, fit, tiny_images, tiny_model

ADVERSARIAL = ("infowgan_gp", "ql_infowgan_gp")
REPLICATED = ("factor_vae",)


def test_every_method_is_tested():
    assert set(OPTIONS) == set(models.METHODS)


# Encoder outputs, decoder inputs and further parameters, by hand, for 4 latents:
#   quantizers: 4 codebooks of 10 values (of 16 where they size themselves), one of 10,
#   16 codes of 4 numbers, one scalar codebook of 8;
#   discriminator d -> 16 -> 16 -> 2 with biases: 16 d + 16 + 272 + 34;
#   critic: one linear unit on the 32 features, 33.
_DISCRIMINATOR_OF_LATENTS = 16 * 4 + 16 + 272 + 34
_DISCRIMINATOR_OF_ONE_HOTS = 16 * 4 * 8 + 16 + 272 + 34
_PARAMETERS = {
    "ae": (4, 4, 0),
    "beta_vae": (8, 4, 0),
    "beta_tcvae": (8, 4, 0),
    "factor_vae": (8, 4, _DISCRIMINATOR_OF_LATENTS),
    "bio_ae": (4, 4, 0),
    "vq_vae": (16, 16, 16 * 4),
    "qlae": (4, 4, 4 * 10),
    "qlae_global": (4, 4, 10),
    "infowgan_gp": (4, 4, 33),
    "ql_infowgan_gp": (4, 4, 33 + 40),
    "qvae": (4, 4, 8),
    "dvae": (32, 4, 8),
    "factor_qvae": (4, 4, 8 + _DISCRIMINATOR_OF_ONE_HOTS),
    "factor_dvae_learned": (32, 4, 8 + _DISCRIMINATOR_OF_ONE_HOTS),
    "d_vae": (32, 4, 0),
    "factor_d_vae": (32, 4, _DISCRIMINATOR_OF_LATENTS),
    "supervised_vae": (8, 4, 0),
    "dip_vae_i": (8, 4, 0),
    "dip_vae_ii": (8, 4, 0),
    "annealed_vae": (8, 4, 0),
    "tripod": (4, 4, 0),
    "tripod_naive": (4, 4, 4 * 12),
    "cliff": (8, 4, 0),
    "hfs": (8, 4, 0),
    "ioss": (8, 4, 0),
    "self_sizing": (4, 4, 4 * 16),
}


def _trainable_size(model):
    unique = {id(v): v for v in model.trainable_variables}
    return sum(int(np.prod(v.shape)) for v in unique.values())


@pytest.mark.parametrize("method", sorted(_PARAMETERS))
def test_parameter_count_is_networks_plus_method(method):
    encoder_outputs, decoder_inputs, more = _PARAMETERS[method]
    networks = Networks(
        STYLE["network"],
        (8, 8, 3),
        STYLE["width"],
        STYLE["encoder_options"],
        STYLE["decoder_options"],
    )
    expected = (
        networks.encoder(encoder_outputs).count_params()
        + networks.decoder(decoder_inputs).count_params()
        + more
    )
    assert _trainable_size(tiny_model(method)) == expected


# One optimizer and two; the other methods train in the slow run.
_QUICK = {"qlae", "factor_qvae"}


@pytest.mark.parametrize(
    "method",
    [
        pytest.param(m, marks=[pytest.mark.slow] * (m not in _QUICK))
        for m in sorted(OPTIONS)
    ],
)
def test_trains_saves_and_continues(method, tmp_path):
    model = tiny_model(method)
    model.compile()
    before = {v.path: np.array(v) for v in model.trainable_variables}
    first = fit(model, steps=1)
    for variable in model.trainable_variables:
        moved = not np.array_equal(before[variable.path], np.array(variable))
        # A bias before a normalization has no effect, hence no gradient.
        assert moved or "bias" in variable.path, f"{variable.path} did not move"
    last = fit(model, steps=298)
    for name, values in last.items():
        assert np.all(np.isfinite(values)), (name, last)
    if method not in ADVERSARIAL:
        # Means over the 298 steps that follow, against the first step.
        assert last["loss"][0] < first["loss"][0], (first, last)
        assert last["reconstruction"][0] < first["reconstruction"][0]
    _check_continues_after_reload(model, tmp_path)


def _check_continues_after_reload(model, folder):
    model.save(folder / "model.keras")
    restored = keras.saving.load_model(folder / "model.keras")
    images = tiny_images(model.encoder.input_shape[1])
    np.testing.assert_array_equal(model.encode(images), restored.encode(images))
    ours, theirs = fit(model, steps=2), fit(restored, steps=2)
    assert ours.keys() == theirs.keys()
    for name in ours:
        np.testing.assert_array_equal(ours[name], theirs[name], err_msg=name)
    assert model.encode(images).shape[-1] == model.decoder.input_shape[-1]
    reconstruction = model.reconstruct(images)
    assert reconstruction.shape == images.shape
    assert reconstruction.min() >= 0.0 and reconstruction.max() <= 1.0


@pytest.mark.parametrize(
    "method",
    [
        pytest.param(name, marks=() if name in REPLICATED else pytest.mark.slow)
        for name in sorted(OPTIONS)
        if name != "additive"  # batch normalization has statistics of its replica
    ],
)
def test_two_replicas_train(method):
    """Two replicas take one replica's steps where no noise is drawn."""
    with mirrored_strategy().scope():
        replicated = tiny_model(method)
        replicated.compile(keras.optimizers.SGD(1e-3))
    fit(replicated, steps=2)
    for variable in replicated.trainable_variables:
        copies = mirrored_strategy().experimental_local_results(variable.value)
        np.testing.assert_array_equal(copies[0].numpy(), copies[1].numpy())
    if method in ("ae", "bio_ae", "vq_vae", "qlae", "qlae_global"):
        single = tiny_model(method)
        single.compile(keras.optimizers.SGD(1e-3))
        fit(single, steps=2)
        for ours, theirs in zip(replicated.weights, single.weights, strict=True):
            np.testing.assert_allclose(
                ours.numpy(), theirs.numpy(), rtol=1e-4, atol=1e-6
            )


def test_encoder_and_decoder_are_plain_functional_models():
    model = tiny_model("tripod")
    assert isinstance(model.encoder, keras.Model)
    assert model.encoder.output_shape == (None, NUM_LATENTS)
    assert model.decoder.output_shape == (None, 8, 8, 3)
    assert not any("nhp" in layer.name for layer in model.encoder.layers)


def test_vq_vae_keeps_the_papers_layer():
    """None of the cures for unused codes that the layer has by default."""
    quantizer = tiny_model("vq_vae").quantizer
    for name, value in type(quantizer).PLAIN.items():
        assert getattr(quantizer, name) == value
