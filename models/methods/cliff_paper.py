"""The methods of Barin-Pacela et al. 2025, Quantized Disentanglement."""

from typing import Any

import qlayers
from models.assembly import assemble
from models.latent_model import LatentModel
from models.method import Method, Paper
from models.methods.common import model_from, weight_for_reduction
from models.networks.choice import FAMILIES, Networks
from models.reconstruction import Reduction
from qlayers.schedules import Schedulable

PAPER = Paper(
    "cliff", "Barin-Pacela et al. 2025, Quantized Disentanglement: A Practical Approach"
)
_LEARNING_RATE = 1e-4


def cliff(
    networks: Networks,
    num_latents: int,
    *,
    cliff_weight: Schedulable = 1.0,
    univariate_weight: Schedulable = 0.5,
    bivariate_weight: Schedulable = 1.0,
    uniform_weight: Schedulable = 0.7,
    bandwidth: Schedulable = 0.1,
    uniform_dimensions: int = 1,
    beta: float | None = 10.0,
    reduction: Reduction = "sum",
    seed: int | None = None,
    **training: Any,
) -> LatentModel:
    """Cliff on a beta-VAE's means, on an autoencoder, or on an encoder alone.

    Args:
        networks: Makes encoder and decoder; with `"mlp"` networks there is no decoder
            and Cliff's criterion is the only loss, as for the synthetic data.
        num_latents: Number of latents.
        cliff_weight: Weight of the whole criterion.
        univariate_weight: Weight of the entropies of one latent's cliffs.
        bivariate_weight: Weight of the divergence between conditional cliffs.
        uniform_weight: Weight of the divergence from the uniform.
        bandwidth: Bandwidth of the density estimates.
        uniform_dimensions: 1 compares latents with the uniform, 2 pairs of latents
            (appendix F.5).
        beta: Weight of the beta-VAE's divergence beside a sum over pixels; None for
            an autoencoder without one.
        reduction: Reduction of the reconstruction loss over pixels.
        seed: Seed of the choice of conditioning values.
        **training: Arguments of `models.methods.common.model_from`.
    """
    criterion = qlayers.Cliff(
        cliff_weight,
        univariate_weight=univariate_weight,
        bivariate_weight=bivariate_weight,
        uniform_weight=uniform_weight,
        bandwidth=bandwidth,
        uniform_dimensions=uniform_dimensions,
        seed=seed,
        name="cliff",
    )
    return _supported(
        networks, num_latents, criterion, beta, reduction, "cliff", training
    )


def hfs(
    networks: Networks,
    num_latents: int,
    *,
    hfs_weight: Schedulable = 1.0,
    num_pairs: int = 25,
    beta: float | None = 10.0,
    reduction: Reduction = "sum",
    seed: int | None = None,
    **training: Any,
) -> LatentModel:
    """Hausdorff factorized support on a beta-VAE's means, or on an autoencoder.

    Args:
        networks: Makes encoder and decoder.
        num_latents: Number of latents.
        hfs_weight: Weight of the Hausdorff distance.
        num_pairs: Pairs of latents drawn at each step.
        beta: As in `cliff`.
        reduction: Reduction of the reconstruction loss over pixels.
        seed: Seed of the choice of pairs.
        **training: Arguments of `models.methods.common.model_from`.
    """
    support = qlayers.HausdorffFactorizedSupport(
        hfs_weight, num_pairs=num_pairs, seed=seed, name="hfs"
    )
    return _supported(networks, num_latents, support, beta, reduction, "hfs", training)


def ioss(
    networks: Networks,
    num_latents: int,
    *,
    ioss_weight: Schedulable = 1e4,
    num_samples: int = 10_000,
    trim: float = 0.01,
    beta: float | None = 1.0,
    reduction: Reduction = "sum",
    seed: int | None = None,
    **training: Any,
) -> LatentModel:
    """Independence-of-support score on a beta-VAE's means, or on an autoencoder.

    Args:
        networks: Makes encoder and decoder.
        num_latents: Number of latents.
        ioss_weight: Weight of the score.
        num_samples: Points drawn in the box of the support.
        trim: Share of the extremes that is left out.
        beta: As in `cliff`.
        reduction: Reduction of the reconstruction loss over pixels.
        seed: Seed of the points.
        **training: Arguments of `models.methods.common.model_from`.
    """
    support = qlayers.IndependentSupport(
        ioss_weight, num_samples=num_samples, trim=trim, seed=seed, name="ioss"
    )
    return _supported(networks, num_latents, support, beta, reduction, "ioss", training)


def additive(networks: Networks, num_latents: int, **training: Any) -> LatentModel:
    """An autoencoder with an additive decoder (Lachapelle et al. 2023).

    Args:
        networks: `"resnet_additive"` networks, or the smaller `"locatello_additive"`.
        num_latents: Number of latents.
        **training: Arguments of `models.methods.common.model_from`.
    """
    loss = {"reconstruction": "mse", "learning_rate": 1e-3}
    return model_from(
        assemble(networks, num_latents), "additive", **{**loss, **training}
    )


def _supported(
    networks: Networks,
    num_latents: int,
    regularizer: Any,
    beta: float | None,
    reduction: Reduction,
    name: str,
    training: dict[str, Any],
) -> LatentModel:
    with_decoder = FAMILIES[networks.family].decoder is not None
    quantizer = None
    if beta is not None and with_decoder:
        weight = weight_for_reduction(beta, networks, reduction)
        quantizer = qlayers.GaussianLatent(weight, name="gaussian")
    parts = assemble(
        networks,
        num_latents,
        quantizer=quantizer,
        regularizers=[regularizer],
        with_decoder=with_decoder,
    )
    settings = {"learning_rate": _LEARNING_RATE, "reduction": reduction, **training}
    if not with_decoder:
        settings["reconstruction"] = None
    return model_from(parts, name, **settings)


METHODS = (
    *(
        Method(
            build.__name__,
            build,
            PAPER,
            "locatello",
            needs_decoder=False,
            gaussian=True,
        )
        for build in (cliff, hfs, ioss)
    ),
    Method(
        "additive",
        additive,
        PAPER,
        "resnet_additive",
        only_network=True,
        other_networks=("locatello_additive",),
    ),
)
