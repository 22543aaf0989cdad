"""Records of methods against the models that they describe."""

import dataclasses

import numpy as np
import pytest

import models
from models import METHODS, Method
from models.networks.choice import FAMILIES
from tests.models.tiny import tiny_model


@pytest.fixture
def qlae_that_forwards():
    def build(networks, num_latents, **options):
        return METHODS["qlae"].build(networks, num_latents, **options)

    method = Method("forwarding", build, hands_on=(METHODS["qlae"],), quantized=True)
    yield models.register(method)
    del METHODS["forwarding"]


def test_forwarded_hyperparameters_are_known(qlae_that_forwards):
    from experiments.settings.config import resolve

    given = {"num_values": 7}
    config = resolve("forwarding", profile="cpu", hyperparameters=given)
    assert config.hyperparameters["num_values"] == 7
    model = models.build("forwarding", (8, 8, 3), 3, width=0.1, num_values=7)
    assert model.quantizer.num_values == 7


def test_fixed_arguments_are_not_a_users_to_set():
    assert "shared_codebook" in METHODS["qlae"].hyperparameters()
    assert "shared_codebook" not in METHODS["qlae_global"].hyperparameters()
    assert "two_batches" not in METHODS["factor_qvae"].hyperparameters()
    forwarding = dataclasses.replace(
        METHODS["qlae_global"], name="x", fixed={}, hands_on=(METHODS["qlae_global"],)
    )
    assert "shared_codebook" not in forwarding.hyperparameters()
    with pytest.raises(TypeError, match="shared_codebook"):
        models.build("qlae_global", (8, 8, 3), 3, shared_codebook=False)


@pytest.mark.parametrize("name", sorted(set(METHODS) - {"additive"}))
def test_records_agree_with_models(name):
    model, method = tiny_model(name), METHODS[name]
    discrete = model.quantizer is not None and model.quantizer.is_discrete
    assert method.quantized == discrete
    known = {k: v for k, v in method.hyperparameters().items() if v is not None}
    pieces = 2 if getattr(model, "two_batches", False) else 1
    expected = getattr(model, "encoder_steps", pieces)
    assert method.pieces({**known, **method.fixed}) == expected
    assert (method.paper is None) == (name == "self_sizing")
    assert FAMILIES[method.network].encoder


def test_two_papers_have_a_discrete_vae():
    assert "Baykal" in METHODS["dvae"].paper.title
    assert "Friede" in METHODS["d_vae"].paper.title


def test_names_are_taken_once():
    with pytest.raises(ValueError, match="already"):
        models.register(Method("qlae", METHODS["qlae"].build))
    same = METHODS["qlae"]
    assert models.register(same, replace=True) is METHODS["qlae"]


def test_additive_decoders_of_both_sizes_are_sums_of_blocks():
    """An image is the sum of what each block gives: mixed differences vanish."""
    options = {"network": "locatello_additive", "width": 0.1}
    options["decoder_options"] = {"block_sizes": [2, 2]}
    decoder = models.build("additive", (16, 16, 3), 4, **options).decoder
    first, second = np.array([[1, 2, 0, 0]], "f4"), np.array([[0, 0, 3, 4]], "f4")
    both, neither = decoder(first + second), decoder(0 * first)
    parts = decoder(first) + decoder(second)
    np.testing.assert_allclose(both + neither, parts, atol=1e-5)
    assert np.abs(both - neither).max() > 1e-3


def test_additive_needs_its_networks():
    with pytest.raises(ValueError, match="resnet_additive"):
        models.build("additive", (32, 32, 3), 4, network="style")
    with pytest.raises(ValueError, match="needs a decoder"):
        models.build("qlae", (2,), 4, network="mlp")
