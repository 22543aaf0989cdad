"""Algorithm 3 of Hsu et al. 2023, one round: encoder and critic twice, then generator.

The quantized version, whose prior is uniform over the current codebook; and the
continuous one, uniform on [0, 1].
"""

import pytest

from tests.models.golden import networks, toolkit
from tests.models.golden.test_qlae import SMALL_NETWORKS, quantized
from tests.models.golden.toolkit import Draws, Weights, torch

RATE, DECAY, LATENTS, VALUES, COUNT = 1e-3, 2.0, 3, 5, 4
STAGES, SIDE = 1, 8


class Round:
    """The players: weights in PyTorch, and the terms of each side's loss."""

    def __init__(self, weights, draws, is_quantized):
        self.encoder = weights.part("encoder")
        self.generator = weights.part("generator")
        self.draws, self.is_quantized = draws, is_quantized
        self.codes = weights.part("codebook")

    def codebook(self):
        return self.codes("quantizer/codebook")[..., 0]

    def prior(self):
        uniform = self.draws.take("uniform", (COUNT, LATENTS))
        if not self.is_quantized:
            return uniform
        codes = torch.floor(uniform * VALUES).long()
        rows = torch.arange(LATENTS).expand(COUNT, -1)
        return self.codebook()[rows, codes]

    def generate(self, z):
        return torch.sigmoid(networks.style_decoder(self.generator, z, STAGES))

    def judge(self, x):
        """Recovered latents, value, and the losses of the codebook."""
        features, head = networks.style_encoder(self.encoder, x, STAGES)
        value = networks.linear(self.encoder, features, "value")[:, 0]
        if not self.is_quantized:
            return head, value, 0.0 * value, 0.0 * value
        z, quantize, commit = quantized(self.codebook(), head)
        return z, value, quantize, commit

    def encoder_terms(self, real, with_codebook):
        z = self.prior()
        fake = self.generate(z)
        if not with_codebook:
            z, fake = z.detach(), fake.detach()
        share = self.draws.take("uniform", (COUNT, 1, 1, 1))
        recovered, of_fake, quantize, commit = self.judge(fake)
        value = (of_fake - self.judge(real)[1]).mean()
        mixed = share * real + (1 - share) * fake
        mixed = mixed if with_codebook else mixed.requires_grad_()
        slope = torch.autograd.grad(
            self.judge(mixed)[1].sum(), mixed, create_graph=True
        )[0]
        norm = slope.flatten(1).pow(2).sum(1).sqrt()
        error = ((recovered - z) ** 2).mean()
        return value, ((norm - 1) ** 2).mean(), error, (quantize + commit).mean()

    def generator_terms(self):
        z = self.prior()
        recovered, value, quantize, commit = self.judge(self.generate(z))
        return -value.mean(), ((recovered - z) ** 2).mean(), (quantize + commit).mean()


@pytest.mark.parametrize(
    ("method", "side"),
    [
        ("ql_infowgan_gp", "generator"),
        ("infowgan_gp", "generator"),
        # Appendix B.4.
        ("ql_infowgan_gp", "encoder"),
    ],
)
def test_golden_round(method, side, monkeypatch):
    is_quantized = method == "ql_infowgan_gp"
    options = {"encoder_steps": 2, "weight_decay": DECAY, "learning_rate": RATE}
    options |= {"codebook_side": side, **SMALL_NETWORKS}
    if is_quantized:
        options["num_values"] = VALUES
    model = toolkit.golden_model(method, (SIDE, SIDE, 3), LATENTS, seed=6, **options)
    codebook = model.quantizer.trainable_variables if is_quantized else []
    weights = Weights(
        encoder=[v for v in model.encoder_variables if "codebook" not in v.path],
        generator=model.decoder.trainable_variables,
        codebook=codebook,
    )
    settings = {"lr": RATE, "betas": (0.0, 0.9)}
    with_codebook = side == "encoder"
    judged, made = ("encoder",), ("generator", "codebook")
    if with_codebook:
        judged, made = ("encoder", "codebook"), ("generator",)
    judging = toolkit.adam_with_decay(weights, judged, DECAY, **settings)
    making = toolkit.adam_with_decay(weights, made, DECAY, **settings)
    draws = Draws(monkeypatch)
    images, x = toolkit.batch(SIDE, 2 * COUNT, seed=0)
    logs = toolkit.step_of(model, images)
    players = Round(weights, draws, is_quantized)
    values, penalties, errors = [], [], []
    for real in x.split(COUNT):
        value, penalty, error, of_codes = players.encoder_terms(real, with_codebook)
        loss = value + 10 * penalty + 200 * error + 0.01 * of_codes
        weights.descend(loss, judging)
        values.append(value)
        penalties.append(penalty)
        errors.append(error)
    weights.check((model.optimizer, judging))
    value, error, of_codes = players.generator_terms()
    of_generator = value + 200 * error + 0.01 * of_codes
    weights.descend(of_generator, making)
    draws.check_all_taken()
    errors.append(error)
    toolkit.check_logs(
        logs,
        loss=loss,
        value=sum(values) / 2,
        gradient_penalty=sum(penalties) / 2,
        latent_error=sum(errors) / 3,
        generator_loss=of_generator,
    )
    weights.check((model.generator_optimizer, making))
