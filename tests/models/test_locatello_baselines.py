"""DIP-VAE-I, DIP-VAE-II and AnnealedVAE: loss terms against NumPy."""

import keras
import numpy as np
import pytest

import models

IMAGES = np.random.default_rng(0).random((12, 16, 16, 3), dtype="float32")


def _model(method, **options):
    keras.utils.set_random_seed(0)
    model = models.build(
        method, (16, 16, 3), 3, network="locatello", width=1 / 16, **options
    )
    # Latents with covariances, and posteriors of other widths than the prior.
    head = model.quantizer_inputs.layers[-1].get_layer("head")
    random = np.random.default_rng(1)
    head.kernel.assign(4 * random.normal(size=head.kernel.shape).astype("float32"))
    model.compile(run_eagerly=True)
    return model


def _moments(model):
    outputs = np.array(model.quantizer_inputs(IMAGES), "float64")
    mean, log_variance = np.split(outputs, 2, axis=1)
    return mean, np.exp(log_variance)


@pytest.mark.parametrize(("method", "factor"), [("dip_vae_i", 10), ("dip_vae_ii", 1)])
def test_dip_vae_asks_for_the_covariance_one(method, factor):
    """Kumar et al.: Cov[mean], and with the posteriors' variances for II."""
    model = _model(method, off_diagonal_weight=3.0, diagonal_factor=float(factor))
    mean, variance = _moments(model)
    covariance = np.cov(mean, rowvar=False, ddof=0)
    if method == "dip_vae_ii":
        covariance = covariance + np.diag(variance.mean(0))
    off = sum(covariance[i, j] ** 2 for i in range(3) for j in range(3) if i != j)
    diagonal = ((np.diag(covariance) - 1) ** 2).sum()
    kl = 0.5 * (mean**2 + variance - 1 - np.log(variance)).sum(1).mean()
    logs = model.train_on_batch(IMAGES, return_dict=True)
    assert off > 1e-3
    assert float(logs["dip_off_diagonal"]) == pytest.approx(off, rel=1e-3)
    assert float(logs["dip_diagonal"]) == pytest.approx(diagonal, rel=1e-3)
    assert float(logs["gaussian_kl"]) == pytest.approx(kl, rel=1e-3)
    rest = float(logs["loss"]) - float(logs["reconstruction"])
    assert rest == pytest.approx(kl + 3 * off + 3 * factor * diagonal, rel=1e-3)


def test_annealed_vae_holds_the_divergence_at_a_growing_capacity():
    """Burgess et al.: gamma |KL - C|, C from 0 to its end in equal steps."""
    model = _model(
        "annealed_vae", capacity=8.0, capacity_steps=4, capacity_weight=1000.0
    )
    for step in range(6):
        mean, variance = _moments(model)
        kl = 0.5 * (mean**2 + variance - 1 - np.log(variance)).sum(1).mean()
        logs = model.train_on_batch(IMAGES, return_dict=True)
        model.reset_metrics()
        excess = abs(kl - min(2.0 * step, 8.0))
        assert float(logs["capacity_excess"]) == pytest.approx(excess, rel=1e-3)
        rest = float(logs["loss"]) - float(logs["reconstruction"])
        assert rest == pytest.approx(1000 * excess, rel=1e-3)
