"""D-VAE and FactorDVAE of Friede et al. 2023, two steps each."""

import keras
import numpy as np

from tests.models.golden import networks, toolkit
from tests.models.golden.test_factor_qvae import permuted
from tests.models.golden.toolkit import Draws, Weights, torch

RATE, LATENTS, CATEGORIES, COUNT, GAMMA = 1e-3, 3, 5, 6, 4.0


def _model(method, **options):
    options |= {"num_values": CATEGORIES, "learning_rate": RATE, "width": 1 / 16}
    options["encoder_options"] = {"variant": "code"}
    # Half a cosine over 10 steps from 0.5 up to 2.
    noise_scale = keras.optimizers.schedules.CosineDecay(0.5, 10, alpha=4.0)
    options["noise_scale"] = noise_scale
    return toolkit.golden_model(method, (16, 16, 3), LATENTS, seed=2, **options)


def _elbo(w, of_decoder, x, uniform, step):
    """Latents, summed cross-entropy and divergence, each a mean over images."""
    logits = networks.locatello_encoder(w, x).reshape(-1, LATENTS, CATEGORIES)
    scale = 0.5 * (0.5 + 2.0) + 0.5 * (0.5 - 2.0) * np.cos(np.pi * step / 10)
    weights = torch.softmax(logits + scale * toolkit.gumbel(uniform), dim=-1)
    z = weights @ torch.linspace(-1, 1, CATEGORIES, dtype=torch.float64)
    outputs = networks.locatello_decoder(of_decoder, z)
    error = toolkit.summed_cross_entropy(outputs, x)
    log_q = torch.log_softmax(logits, dim=-1)
    kl = (log_q.exp() * (log_q + np.log(CATEGORIES))).sum((1, 2)).mean()
    return z, error, kl


def test_golden_steps_of_d_vae(monkeypatch):
    model = _model("d_vae")
    weights = Weights.of_autoencoder(model)
    adam = torch.optim.Adam(weights.leaves("encoder", "decoder"), lr=RATE)
    draws = Draws(monkeypatch)

    def terms_of(step, x):
        noise = draws.take("uniform", (COUNT, LATENTS, CATEGORIES))
        parts = weights.part("encoder"), weights.part("decoder")
        _, error, kl = _elbo(*parts, x, noise, step)
        return error + kl, {"reconstruction": error, "quantizer_kl": kl}

    batches = [toolkit.batch(16, COUNT, seed=step) for step in range(2)]
    toolkit.follow(model, weights, adam, batches, terms_of, draws)


def test_golden_steps_of_factor_d_vae(monkeypatch):
    """One batch for both sides; the discriminator sees latents from before the step."""
    options = {"tc_weight": GAMMA, "hidden_units": [7, 6]}
    model = _model("factor_d_vae", discriminator_learning_rate=2 * RATE, **options)
    weights = Weights.of_autoencoder(
        model, critic=model.discriminator.discriminator_variables
    )
    first = torch.optim.Adam(weights.leaves("encoder", "decoder"), lr=RATE)
    second = torch.optim.Adam(weights.leaves("critic"), lr=2 * RATE, betas=(0.5, 0.9))
    draws, judge = Draws(monkeypatch), weights.part("critic")
    cross_entropy = torch.nn.functional.cross_entropy
    for step in range(2):
        images, x = toolkit.batch(16, COUNT, seed=step)
        logs = toolkit.step_of(model, images)
        noise = draws.take("uniform", (COUNT, LATENTS, CATEGORIES))
        keys = draws.take("uniform", (COUNT, LATENTS))
        draws.check_all_taken()
        parts = weights.part("encoder"), weights.part("decoder")
        z, error, kl = _elbo(*parts, x, noise, step)
        pair = networks.discriminator(judge, z, 3)
        correlation = (pair[:, 0] - pair[:, 1]).mean()
        loss = error + kl + GAMMA * correlation
        real = networks.discriminator(judge, z.detach(), 3)
        made = networks.discriminator(judge, permuted(z.detach(), keys), 3)
        joint, product = torch.zeros(COUNT).long(), torch.ones(COUNT).long()
        other_loss = (cross_entropy(real, joint) + cross_entropy(made, product)) / 2
        of_vae = torch.autograd.grad(loss, weights.leaves("encoder", "decoder"))
        of_critic = torch.autograd.grad(other_loss, weights.leaves("critic"))
        for leaf, gradient in zip(
            weights.leaves("encoder", "decoder", "critic"),
            (*of_vae, *of_critic),
            strict=True,
        ):
            leaf.grad = gradient
        first.step()
        second.step()
        toolkit.check_factor_logs(logs, loss, error, kl, correlation, other_loss)
        weights.check((model.optimizer, first), (model.discriminator_optimizer, second))
