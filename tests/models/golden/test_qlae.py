"""Algorithm 2 of Hsu et al. 2023, two steps."""

import pytest

from tests.models.golden import networks, toolkit
from tests.models.golden.toolkit import Weights, torch

RATE, DECAY, LATENTS = 1e-3, 2.0, 4
SMALL_NETWORKS = {
    "width": 0.125,
    "encoder_options": {"preserving_layers": 0},
    "decoder_options": {"preserving_layers": 0},
}


def quantized(codebook, continuous):
    """Algorithm 1: latents, quantization and commitment losses of each sample."""
    distances = (continuous[:, :, None] - codebook[None]).abs()
    z = torch.gather(
        codebook.expand(len(continuous), -1, -1), 2, distances.argmin(2, keepdim=True)
    )[..., 0]
    quantize = ((continuous.detach() - z) ** 2).sum(1)
    commit = ((continuous - z.detach()) ** 2).sum(1)
    return continuous + (z - continuous).detach(), quantize, commit


@pytest.mark.parametrize(
    "reduction", ["sum", pytest.param("mean", marks=pytest.mark.slow)]
)
def test_golden_steps(reduction):
    options = {"loss_reduction": reduction, "weight_decay": DECAY, **SMALL_NETWORKS}
    options["learning_rate"] = RATE
    model = toolkit.golden_model("qlae", (16, 16, 3), LATENTS, seed=0, **options)
    weights = Weights.of_autoencoder(model)
    w, of_decoder = weights.part("encoder"), weights.part("decoder")
    adam = toolkit.adam_with_decay(
        weights, ("encoder", "decoder"), DECAY, lr=RATE, betas=(0.9, 0.99)
    )

    def terms_of(step, x):
        _, continuous = networks.style_encoder(w, x, stages=2)
        codebook = w("quantizer/codebook")[..., 0]
        z, quantize, commit = quantized(codebook, continuous)
        if reduction == "mean":
            quantize, commit = quantize / LATENTS, commit / LATENTS
        logits = networks.style_decoder(of_decoder, z, stages=2)
        probability = torch.sigmoid(logits)
        error = -(x * probability.log() + (1 - x) * (1 - probability).log()).mean()
        of_codes = {
            "quantizer_quantize_loss": quantize.mean(),
            "quantizer_commit_loss": commit.mean(),
        }
        loss = error + 0.01 * quantize.mean() + 0.01 * commit.mean()
        return loss, {"reconstruction": error, **of_codes}

    batches = [toolkit.batch(16, 8, seed=step) for step in range(2)]
    toolkit.follow(model, weights, adam, batches, terms_of)
