"""Algorithm 1 of Baykal et al., two iterations: both batches, both optimizers."""

import keras
import numpy as np
import pytest

from tests.models.golden import networks, toolkit
from tests.models.golden.toolkit import Draws, Weights, torch

RATE, OTHER_RATE, BETA, GAMMA = 1e-3, 2e-3, 0.3, 0.2
LATENTS, CODES, HALF = 3, 5, 6


def sampled(w, x, code_dim, distance, uniform, temperature):
    """Relaxed one-hots, the latents that they stand for, and the logits."""
    slots = networks.dalle_encoder(w, x).reshape(len(x), LATENTS, 1, code_dim)
    difference = slots - w("quantizer/codebook")[0]
    if distance == "l1":
        logits = -difference.abs().sum(-1)
    else:
        logits = -(difference**2).sum(-1)
    weights = torch.softmax((logits + toolkit.gumbel(uniform)) / temperature, dim=-1)
    z = weights @ w("quantizer/codebook")[0]
    return weights, z.reshape(len(x), -1), logits


def permuted(one_hots, keys):
    """Every latent's one-hots in an order of their own."""
    order = np.argsort(keys.numpy(), axis=0)
    columns = [one_hots[order[:, j], j] for j in range(one_hots.shape[1])]
    return torch.stack(columns, dim=1)


@pytest.mark.parametrize(
    ("code_dim", "distance", "reduction"),
    [
        (1, "l1", "sum"),
        pytest.param(2, "squared_l2", "mean", marks=pytest.mark.slow),
    ],
)
def test_golden_steps(code_dim, distance, reduction, monkeypatch):
    # Faster than exp(-1e-5 t), so that the second step shows which one was taken.
    temperature = keras.optimizers.schedules.ExponentialDecay(1.0, 1, 0.5)
    options = {"num_values": CODES, "code_dim": code_dim, "distance": distance}
    options |= {"kl_weight": BETA, "kl_reduction": reduction, "tc_weight": GAMMA}
    options |= {"temperature": temperature, "hidden_units": [7, 6], "width": 1 / 32}
    options |= {"learning_rate": RATE, "discriminator_learning_rate": OTHER_RATE}
    model = toolkit.golden_model("factor_qvae", (8, 8, 3), LATENTS, seed=1, **options)
    _enlarge(model)
    critic = model.discriminator.discriminator_variables
    weights = Weights.of_autoencoder(model, critic=critic)
    first = torch.optim.Adam(weights.leaves("encoder", "decoder"), lr=RATE)
    second = torch.optim.Adam(weights.leaves("critic"), lr=OTHER_RATE)
    draws = Draws(monkeypatch)
    for step in range(2):
        images, x = toolkit.batch(8, 2 * HALF, seed=step)
        logs = toolkit.step_of(model, images)
        w, of_decoder = weights.part("encoder"), weights.part("decoder")
        of_critic = weights.part("critic")
        tau, shape = 0.5**step, (HALF, LATENTS, CODES)
        # The autoencoder, on the first batch.
        noise = draws.take("uniform", shape)
        z, values, logits = sampled(w, x[:HALF], code_dim, distance, noise, tau)
        outputs = networks.dalle_decoder(of_decoder, values, side=8)
        error = ((outputs - x[:HALF]) ** 2).mean()
        q = torch.softmax(logits, dim=-1)
        kl = (q * torch.log(q * CODES)).sum(-1)
        kl = kl.sum(1).mean() if reduction == "sum" else kl.mean()
        c = torch.softmax(networks.discriminator(of_critic, z.flatten(1), 3), dim=1)
        correlation = torch.log(c[:, 0] / (1 - c[:, 0])).mean()
        loss = error + BETA * kl + GAMMA * correlation
        weights.descend(loss, first)
        weights.check((model.optimizer, first))
        # The discriminator: the second batch through the updated encoder.
        noise = draws.take("uniform", shape)
        with torch.no_grad():
            other, _, _ = sampled(w, x[HALF:], code_dim, distance, noise, tau)
            other = permuted(other, draws.take("uniform", (HALF, LATENTS)))
        real = networks.discriminator(of_critic, z.detach().flatten(1), 3)
        made = networks.discriminator(of_critic, other.flatten(1), 3)
        of_real = torch.softmax(real, dim=1)[:, 0]
        of_made = torch.softmax(made, dim=1)[:, 0]
        other_loss = -(of_real.log() + (1 - of_made).log()).mean() / 2
        weights.descend(other_loss, second)
        draws.check_all_taken()
        toolkit.check_factor_logs(logs, loss, error, kl, correlation, other_loss)
        weights.check((model.discriminator_optimizer, second))


def _enlarge(model):
    """N(0, 0.02²) lets so small a network's signal vanish."""
    random = np.random.default_rng(2)
    for variable in model.trainable_variables:
        if "codebook" not in variable.path:
            scale = 0.5 if "kernel" in variable.path else 0.1
            fan_in = np.prod(variable.shape[:-1]) if "kernel" in variable.path else 1
            values = random.normal(size=variable.shape) * scale * (4 / fan_in) ** 0.5
            variable.assign(values.astype("float32"))
