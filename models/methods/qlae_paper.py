"""The methods of Hsu et al. 2023, Disentanglement via Latent Quantization."""

from collections.abc import Callable
from typing import Any, Literal

import qlayers
from models.assembly import Assembly, assemble
from models.info_gan import InfoGan, encoder_steps
from models.latent_model import LatentModel
from models.method import Method, Paper
from models.methods.common import SHAPES3D_SIZE, model_from, weight_for_reduction
from models.networks.choice import Networks
from models.reconstruction import Reduction
from qlayers.schedules import Schedulable

PAPER = Paper("qlae", "Hsu et al. 2023, Disentanglement via Latent Quantization")

# Both QLAE and Tripod print this; their public codes have optax's default, 0.999.
PAPER_BETA_2 = 0.99


def ae(networks: Networks, num_latents: int, **training: Any) -> LatentModel:
    """A plain autoencoder.

    Args:
        networks: Makes encoder and decoder.
        num_latents: Number of latents.
        **training: `learning_rate`, `weight_decay`, `beta_1`, `beta_2`, `clip_value`,
            `reconstruction`, `reduction`; see `models.methods.common`.
            `beta_2` is 0.99, as printed.
    """
    return _model(assemble(networks, num_latents), "ae", **training)


def beta_vae(
    networks: Networks,
    num_latents: int,
    *,
    beta: Schedulable = 3.0,
    scale: Literal["log_variance", "softplus"] = "log_variance",
    reduction: Reduction = "mean",
    **training: Any,
) -> LatentModel:
    """The beta-VAE of Higgins et al. 2017.

    Args:
        networks: Makes encoder and decoder.
        num_latents: Number of latents.
        beta: Weight of the divergence relative to a reconstruction loss that is
            *summed* over pixels; with a mean it is divided by their number.
        scale: How the encoder gives the scales; see `qlayers.GaussianLatent`.
        reduction: `"mean"` or `"sum"` of the reconstruction loss over pixels.
        **training: As in `ae`.
    """
    weight = weight_for_reduction(beta, networks, reduction)
    latent = qlayers.GaussianLatent(weight, scale=scale, name="gaussian")
    parts = assemble(networks, num_latents, quantizer=latent)
    return _model(parts, "beta_vae", reduction=reduction, **training)


def beta_tcvae(
    networks: Networks,
    num_latents: int,
    *,
    beta: float = 3.0,
    dataset_size: int = SHAPES3D_SIZE,
    scale: Literal["log_variance", "softplus"] = "log_variance",
    reduction: Reduction = "mean",
    **training: Any,
) -> LatentModel:
    """The beta-TCVAE of Chen et al. 2018, with minibatch-weighted sampling.

    Args:
        networks: Makes encoder and decoder.
        num_latents: Number of latents.
        beta: Weight of the total correlation; index-code mutual information and
            dimension-wise divergence have weight 1 (all relative to summed pixels).
        dataset_size: Number of images the minibatches are drawn from.
        scale: How the encoder gives the scales; see `qlayers.GaussianLatent`.
        reduction: `"mean"` or `"sum"` of the reconstruction loss over pixels.
        **training: As in `ae`.
    """
    one = weight_for_reduction(1.0, networks, reduction)
    decomposed = qlayers.MinibatchTotalCorrelation(
        weight=beta * one,
        dataset_size=dataset_size,
        mi_weight=one,
        kl_weight=one,
        name="tcvae",
    )
    parts = assemble(
        networks,
        num_latents,
        quantizer=qlayers.GaussianLatent(0.0, scale=scale, name="gaussian"),
        regularizers=[decomposed],
    )
    return _model(parts, "beta_tcvae", reduction=reduction, **training)


def bio_ae(
    networks: Networks,
    num_latents: int,
    *,
    activity_weight: float = 1e-2,
    nonnegative_weight: float = 1.0,
    weight_decay: float = 1e-4,
    **training: Any,
) -> LatentModel:
    """The BioAE of Whittington et al. 2023: non-negative latents of low energy.

    Args:
        networks: Makes encoder and decoder.
        num_latents: Number of latents.
        activity_weight: Weight of the latents' energy.
        nonnegative_weight: Weight of their negative part.
        weight_decay: Decay of the kernels; the method's own energy on weights.
        **training: As in `ae`.
    """
    energy = qlayers.ActivityEnergy(
        activity_weight, nonnegative_weight=nonnegative_weight, name="energy"
    )
    parts = assemble(networks, num_latents, regularizers=[energy])
    return _model(parts, "bio_ae", weight_decay=weight_decay, **training)


def vq_vae(
    networks: Networks,
    num_latents: int,
    *,
    num_codes: int = 512,
    code_dim: int = 64,
    quantize_weight: Schedulable = 1.0,
    commit_weight: Schedulable = 0.25,
    loss_reduction: Literal["sum", "mean"] = "mean",
    weight_decay: float = 1e-2,
    **training: Any,
) -> LatentModel:
    """A VQ-VAE with one slot per latent; its metrics are taken on code indices.

    Args:
        networks: Makes encoder and decoder.
        num_latents: Number of slots.
        num_codes: Size of the codebook that the slots share.
        code_dim: Numbers in a slot.
        quantize_weight: Weight of the quantization loss.
        commit_weight: Weight of the commitment loss.
        loss_reduction: `"mean"`, to match a mean over pixels, or `"sum"`.
        weight_decay: Decay of the kernels.
        **training: As in `ae`.
    """
    quantizer = qlayers.VectorQuantizer(
        num_codes,
        code_dim,
        quantize_weight=quantize_weight,
        commit_weight=commit_weight,
        loss_reduction=loss_reduction,
        # The paper's baseline has none of the cures for unused codes.
        **qlayers.VectorQuantizer.PLAIN,
        name="quantizer",
    )
    parts = assemble(networks, num_latents, quantizer=quantizer)
    return _model(parts, "vq_vae", weight_decay=weight_decay, **training)


def qlae(
    networks: Networks,
    num_latents: int,
    *,
    num_values: int = 10,
    shared_codebook: bool = False,
    quantize_weight: Schedulable = 1e-2,
    commit_weight: Schedulable = 1e-2,
    loss_reduction: Literal["sum", "mean"] = "sum",
    codebook_init: Literal["even", "normal"] = "even",
    weight_decay: Schedulable = 0.1,
    **training: Any,
) -> LatentModel:
    """The quantized-latent autoencoder, Algorithm 2.

    `weight_decay=0` is the paper's ablation without weight decay. Its negative results
    (appendix B.4) are `quantize_weight=1, commit_weight=0.25`, the weights of VQ-VAE;
    both weights growing from 0, `linear(0, 0.01)`; a `weight_decay` of
    `step(0, 0.1)`, which starts after half of the training; and `l1_weight`.

    Args:
        networks: Makes encoder and decoder.
        num_latents: Number of latents.
        num_values: Values in each codebook.
        shared_codebook: One codebook for all latents: the ablation `qlae_global`.
        quantize_weight: Weight of the quantization loss, a number or a schedule.
        commit_weight: Weight of the commitment loss, a number or a schedule.
        loss_reduction: `"sum"` over latents (paper) or `"mean"` (public code).
        codebook_init: How codebooks start; see `qlayers.LatentQuantizer`. Baykal et
            al.'s QLAE draws them.
        weight_decay: Decay of everything but biases and codebooks, a number or a
            schedule.
        **training: As in `ae`.
    """
    quantizer = qlayers.LatentQuantizer(
        num_values,
        shared_codebook=shared_codebook,
        quantize_weight=quantize_weight,
        commit_weight=commit_weight,
        loss_reduction=loss_reduction,
        init=codebook_init,
        name="quantizer",
    )
    parts = assemble(networks, num_latents, quantizer=quantizer)
    return _model(parts, "qlae", weight_decay=weight_decay, **training)


def infowgan_gp(networks: Networks, num_latents: int, **options: Any) -> InfoGan:
    """InfoWGAN-GP with a uniform continuous prior.

    Args:
        networks: Makes encoder and generator.
        num_latents: Number of latents.
        **options: Arguments of `models.info_gan.InfoGan`.
    """
    return InfoGan(networks, num_latents, quantizer=None, **options)


def ql_infowgan_gp(
    networks: Networks,
    num_latents: int,
    *,
    num_values: int = 10,
    quantize_weight: Schedulable = 1e-2,
    commit_weight: Schedulable = 1e-2,
    loss_reduction: Literal["sum", "mean"] = "sum",
    weight_decay: Schedulable = 1e-3,
    **options: Any,
) -> InfoGan:
    """The quantized-latent InfoWGAN-GP, Algorithm 3.

    It has the options of appendix B.4 that `qlae` has, and `codebook_side="encoder"`.

    Args:
        networks: Makes encoder and generator.
        num_latents: Number of latents.
        num_values: Values in each codebook.
        quantize_weight: Weight of the quantization loss, a number or a schedule.
        commit_weight: Weight of the commitment loss, a number or a schedule.
        loss_reduction: `"sum"` over latents (paper) or `"mean"` (public code).
        weight_decay: Decay of everything but biases and codebooks, a number or a
            schedule.
        **options: Arguments of `models.info_gan.InfoGan`.
    """
    quantizer = qlayers.LatentQuantizer(
        num_values,
        quantize_weight=quantize_weight,
        commit_weight=commit_weight,
        loss_reduction=loss_reduction,
        name="quantizer",
    )
    return InfoGan(
        networks,
        num_latents,
        quantizer=quantizer,
        weight_decay=weight_decay,
        **options,
    )


def _model(parts: Assembly, name: str, **training: Any) -> LatentModel:
    return model_from(parts, name, **{"beta_2": PAPER_BETA_2, **training})


def _record(name: str, build: Callable[..., LatentModel], **facts: Any) -> Method:
    return Method(name, build, PAPER, **{"checkpoint": "best_above_psnr", **facts})


_GAN: dict[str, Any] = {
    "hands_on": (InfoGan.__init__,),
    "pieces": encoder_steps,
    "checkpoint": "last",
}
METHODS = (
    _record("ae", ae),
    _record("beta_vae", beta_vae, gaussian=True),
    _record("beta_tcvae", beta_tcvae, gaussian=True),
    _record("bio_ae", bio_ae),
    _record("vq_vae", vq_vae, quantized=True),
    _record("qlae", qlae, quantized=True),
    _record("qlae_global", qlae, quantized=True, fixed={"shared_codebook": True}),
    _record("infowgan_gp", infowgan_gp, **_GAN),
    _record("ql_infowgan_gp", ql_infowgan_gp, quantized=True, **_GAN),
)
