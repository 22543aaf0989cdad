"""`fit` and `evaluate` on arrays: any batch, what is shown, what is refused."""

import numpy as np
import pytest

import models
from tests.models.tiny import tiny_images, tiny_model


@pytest.mark.parametrize("method", ["qlae", "factor_d_vae", "ql_infowgan_gp"])
def test_the_reconstruction_does_not_depend_on_the_batch_size(method):
    images = np.random.default_rng(0).random((9, 16, 16, 3), "float32")
    images[8] = 0.0
    model = models.build(method, (16, 16, 3), num_latents=3, width=0.125)
    model.compile(run_eagerly=True)  # two batches: tracing takes longer
    found = [
        model.evaluate(images, batch_size=size, verbose=0, return_dict=True)
        for size in (9, 8)
    ]
    for name in ("loss", "reconstruction"):
        assert found[0][name] == pytest.approx(found[1][name], rel=1e-5), name


@pytest.mark.parametrize("count", [5, 1])
def test_models_that_cut_their_batch_take_odd_ones(count):
    images = np.random.default_rng(0).random((count, 16, 16, 3), "float32")
    model = models.build("factor_vae", (16, 16, 3), num_latents=3, width=0.125)
    model.compile(run_eagerly=True)
    history = model.fit(images, batch_size=5, verbose=0).history
    assert np.isfinite(history["loss"]).all()


def test_a_batch_that_a_gan_cannot_cut_is_named():
    images = np.zeros((8, 16, 16, 3), "float32")
    model = models.build("infowgan_gp", (16, 16, 3), num_latents=3, width=0.125)
    model.compile()
    with pytest.raises(ValueError, match="encoder_steps=5 parts; received 8 images"):
        model.train_on_batch(images)


@pytest.mark.parametrize(
    ("method", "names"),
    [
        ("factor_vae", {"discriminator_loss"}),
        ("infowgan_gp", {"value", "gradient_penalty", "latent_error"}),
    ],
)
def test_evaluation_has_no_terms_that_training_alone_computes(method, names):
    images = tiny_images()
    model = tiny_model(method)
    model.compile(run_eagerly=True)  # one step: tracing a GAN's takes longer
    history = model.fit(
        images, batch_size=len(images), validation_data=(images,), verbose=0
    ).history
    assert names <= set(history)
    assert not {f"val_{name}" for name in names} & set(history)
    assert "val_reconstruction" in history


def test_grey_images_without_channels_are_refused():
    images = np.random.default_rng(0).random((16, 16, 16), "float32")
    model = models.build("ae", (16, 16, 1), num_latents=3, width=0.125)
    model.compile()
    with pytest.raises(ValueError, match=r"grey images need an axis of channels"):
        model.fit(images, batch_size=16, verbose=0)


def test_both_dip_vaes_have_their_own_weight():
    weights = {}
    for method in ("dip_vae_i", "dip_vae_ii"):
        model = models.build(method, (16, 16, 3), num_latents=3, width=0.125)
        (layer,) = (x for x in model.graph.layers if x.name == "dip")
        weights[method] = layer.diagonal_weight / layer.off_diagonal_weight
    assert weights == {"dip_vae_i": 10.0, "dip_vae_ii": 1.0}
