"""Cliff of Barin-Pacela et al. 2025, two steps: points, and a beta-VAE's means."""

import math

import numpy as np
import pytest

from tests.models.golden import networks, toolkit
from tests.models.golden.toolkit import Draws, Weights, torch

RATE, SIGMA = 1e-3, 0.3
GRID, CONDITIONS = 100, 20
STEP = 10 / GRID
OPTIONS = {"bandwidth": SIGMA, "learning_rate": RATE}


def normal_density(x, mean):
    exponent = -0.5 * ((x - mean) / SIGMA) ** 2
    return exponent.exp() / (math.sqrt(2 * math.pi) * SIGMA)


def density_slope(x, mean):
    return -(x - mean) / SIGMA**2 * normal_density(x, mean)


def entropy(density):
    """Equation 2 by equation 15; 0 log 0 is 0."""
    logarithm = torch.where(density > 0, density, torch.ones_like(density)).log()
    return -(density * logarithm).sum(-1) * STEP


def unit(magnitude):
    """Divided by its integral."""
    return magnitude / (magnitude.sum(-1, keepdim=True) * STEP)


def criterion(z, chosen, points):
    """Equations 1 to 7, one pair of factors at a time.

    The constant of equation 7 is -log(2 sqrt 3), as a divergence needs.
    """
    z = (z - z.mean(0)) / z.std(0, correction=0)
    n = z.shape[1]
    grid = torch.linspace(-5, 5, GRID, dtype=torch.float64)
    univariate = bivariate = uniform = 0.0
    for i in range(n):
        slope = density_slope(grid[:, None], z[None, :, i]).mean(1)
        univariate = univariate + entropy(unit(slope.abs()))
        for j in set(range(n)) - {i}:
            conditional = []
            for zeta in z[chosen, j]:
                along = density_slope(grid[:, None], z[None, :, i])
                across = normal_density(zeta, z[None, :, j])
                of_pair = (along * across).mean(1)
                conditional.append(unit((of_pair / across.mean()).abs()))
            conditional = torch.stack(conditional)
            mixture = conditional.mean(0)
            bivariate = bivariate + entropy(mixture) - entropy(conditional).mean()
        density = normal_density(points[:, None], z[None, :, i]).mean(1)
        uniform = uniform - math.log(2 * math.sqrt(3)) - density.log().mean()
    return univariate, bivariate, uniform


def _terms(z, draws):
    """The criterion's terms as the model logs them, of what it drew."""
    chosen = draws.take("shuffle", (len(z),))[:CONDITIONS].long()
    points = draws.take("uniform", (GRID,))
    assert 1.0 < points.abs().max() <= math.sqrt(3)
    names = ("cliff_univariate", "cliff_bivariate", "cliff_uniform")
    return dict(zip(names, criterion(z, chosen, points), strict=True))


def test_golden_steps_on_points(monkeypatch):
    """Section 3.1: the criterion is the only loss."""
    parts = (0.5, 1.5, 0.7)
    names = ("univariate_weight", "bivariate_weight", "uniform_weight")
    options = {"cliff_weight": 2.0, **dict(zip(names, parts, strict=True)), **OPTIONS}
    options |= {"network": "mlp", "width": 0.2}
    model = toolkit.golden_model("cliff", (2,), 2, seed=4, **options)
    weights = Weights(encoder=model.trainable_variables)
    adam = torch.optim.Adam(weights.leaves("encoder"), lr=RATE)
    draws = Draws(monkeypatch)

    def terms_of(step, points):
        terms = _terms(networks.mlp(weights.part("encoder"), points), draws)
        pairs = zip(parts, terms.values(), strict=True)
        return 2.0 * sum(weight * term for weight, term in pairs), terms

    randoms = [np.random.default_rng(step) for step in range(2)]
    points = [random.uniform(-1, 1, (30, 2)).astype("float32") for random in randoms]
    batches = [(each, torch.tensor(each).double()) for each in points]
    toolkit.follow(model, weights, adam, batches, terms_of, draws)


@pytest.mark.slow
def test_golden_steps_on_images(monkeypatch):
    """Section 3.2: beside a beta-VAE, on the means."""
    beta, latents, count = 10.0, 3, 24
    options = {"encoder_options": {"variant": "code"}, "beta": beta, **OPTIONS}
    options["width"] = 1 / 16
    model = toolkit.golden_model("cliff", (16, 16, 3), latents, seed=5, **options)
    weights = Weights.of_autoencoder(model)
    adam = torch.optim.Adam(weights.leaves("encoder", "decoder"), lr=RATE)
    draws = Draws(monkeypatch)

    def terms_of(step, x):
        noise = draws.take("normal", (count, latents))
        head = networks.locatello_encoder(weights.part("encoder"), x)
        mean, log_variance = head.chunk(2, dim=1)
        z = mean + (0.5 * log_variance).exp() * noise
        logits = networks.locatello_decoder(weights.part("decoder"), z)
        error = toolkit.summed_cross_entropy(logits, x)
        kl = 0.5 * (mean**2 + log_variance.exp() - 1 - log_variance).sum(1).mean()
        terms = _terms(mean, draws)
        univariate, bivariate, uniform = terms.values()
        of_cliff = 0.5 * univariate + bivariate + 0.7 * uniform
        loss = error + beta * kl + of_cliff
        return loss, {"reconstruction": error, "gaussian_kl": kl, **terms}

    batches = [toolkit.batch(16, count, seed=step) for step in range(2)]
    toolkit.follow(model, weights, adam, batches, terms_of, draws)
