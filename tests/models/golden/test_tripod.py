"""Algorithm 1 of Hsu et al. 2024, Tripod, two steps."""

import math

import keras
import numpy as np
import pytest

from tests.models.golden import networks, toolkit
from tests.models.golden.toolkit import Draws, Weights, torch

RATE, LATENTS, COUNT, LEVELS, EPSILON = 1e-3, 3, 6, 12, 0.1
KLM, NHP = 0.3, 0.2


def quantized(head):
    """Equation 10 with the straight-through gradient, and the tanh."""
    continuous = torch.tanh(head)
    levels = torch.round((LEVELS - 1) / 2 * (continuous + 1))
    z = 2 / (LEVELS - 1) * levels - 1
    return continuous + (z - continuous).detach(), continuous


def multiinformation(z, sigma):
    """Equations 11 to 14, densities with all their constants."""
    count, n = z.shape
    variance = (4 / ((n + 2) * count)) ** (2 / (n + 4)) * sigma**2
    difference = z[:, None] - z[None]
    exponent = -0.5 * (difference**2 / variance).sum(-1)
    constant = (2 * math.pi) ** (n / 2) * variance.prod().sqrt()
    joint = (exponent.exp() / constant).mean(1)
    kernels = (-0.5 * (difference / sigma) ** 2).exp()
    marginals = (kernels / (math.sqrt(2 * math.pi) * sigma)).mean(1)
    return (joint.log() - marginals.log().sum(1)).mean()


def normalized_hessian(decode, z, sigma, signs, normals, aggregate):
    """Lines 14 to 24: second differences, variances over draws, one ratio a sample."""
    ratios, numerators, denominators = [], [], []
    for directions, found in ((signs, numerators), (normals, denominators)):
        curvatures = []
        for draw in range(2):
            step = EPSILON * sigma * directions[:, draw]
            ends = zip(decode(z + step), decode(z), decode(z - step), strict=True)
            curvatures.append([(a - 2 * b + c) / EPSILON**2 for a, b, c in ends])
        for first, second in zip(*curvatures, strict=True):
            variance = torch.stack([first, second]).var(0)
            found.append(variance.flatten(1).sum(1))
    if aggregate == "joint":
        return (sum(numerators) / sum(denominators)).mean()
    ratios = [a / b for a, b in zip(numerators, denominators, strict=True)]
    return sum(ratios).mean()


@pytest.mark.parametrize(
    "aggregate", ["joint", pytest.param("per_output", marks=pytest.mark.slow)]
)
def test_golden_steps(aggregate, monkeypatch):
    options = {"klm_weight": KLM, "nhp_weight": NHP, "aggregate": aggregate}
    options |= {"width": 1 / 16, "learning_rate": RATE}
    model = toolkit.golden_model("tripod", (16, 16, 3), LATENTS, seed=3, **options)
    _spread(model)
    weights = Weights.of_autoencoder(model)
    w, of_decoder = weights.part("encoder"), weights.part("decoder")
    adam = torch.optim.Adam(
        weights.leaves("encoder", "decoder"), lr=RATE, betas=(0.9, 0.99)
    )
    draws = Draws(monkeypatch)

    def inner(points):
        return networks.residual_decoder(of_decoder, points, stages=2)[1]

    def terms_of(step, x):
        # n_p draws of each kind for every image.
        uniform = draws.take("uniform", (COUNT, 2, LATENTS))
        signs = torch.where(uniform < 0.5, -1.0, 1.0)
        normals = draws.take("normal", (COUNT, 2, LATENTS))
        z, continuous = quantized(networks.residual_encoder(w, x, stages=2))
        sigma = continuous.std(0, correction=0)
        logits, _ = networks.residual_decoder(of_decoder, z, stages=2)
        error = torch.nn.functional.binary_cross_entropy_with_logits(logits, x)
        klm = multiinformation(z, sigma)
        nhp = normalized_hessian(inner, z, sigma, signs, normals, aggregate)
        terms = {"klm_multiinformation": klm, "nhp_hessian_penalty": nhp}
        return error + KLM * klm + NHP * nhp, {"reconstruction": error, **terms}

    batches = [toolkit.batch(16, COUNT, seed=step) for step in range(2)]
    # Second differences cost digits.
    toolkit.follow(model, weights, adam, batches, terms_of, draws, digits=3e-3)


def _spread(model):
    """Latents with a deviation of about 0.5: smaller ones leave few digits of float32
    to second differences."""
    network = model.encoder.get_layer("encoder_network")
    head = network.get_layer("head")
    random = np.random.default_rng(0)
    kernel = random.normal(size=head.kernel.shape)
    features = keras.Model(network.input, network.get_layer("features").output)
    outputs = np.array(features(toolkit.batch(16, 32, seed=9)[0])) @ kernel
    head.kernel.assign((0.6 * kernel / outputs.std(0)).astype("float32"))
    head.bias.assign((-0.6 * outputs.mean(0) / outputs.std(0)).astype("float32"))
