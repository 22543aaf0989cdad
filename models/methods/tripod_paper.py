"""The methods of Hsu et al. 2024, Tripod."""

import dataclasses
from typing import Any

import qlayers
from models.assembly import assemble
from models.latent_model import LatentModel
from models.method import Method, Paper
from models.methods.common import model_from
from models.methods.qlae_paper import PAPER_BETA_2
from models.networks.choice import Networks
from models.networks.residual import residual_inner_layers
from models.networks.style import style_inner_layers
from qlayers.schedules import Schedulable

PAPER = Paper("tripod", "Hsu et al. 2024, Tripod")


def tripod(
    networks: Networks,
    num_latents: int,
    *,
    num_values: int = 12,
    klm_weight: Schedulable = 1e-4,
    nhp_weight: Schedulable = 1e-2,
    regularized_layers: list[str] | None = None,
    aggregate: str = "joint",
    directions: str = "random",
    num_perturbations: int = 2,
    batch_fraction: float = 1.0,
    step_interval: int = 1,
    seed: int | None = None,
    **training: Any,
) -> LatentModel:
    """Tripod: finite scalar quantization, KLM and the normalized Hessian penalty.

    The ablations of the paper are `nhp_weight=0`, `klm_weight=0` and
    `num_values=144`. The paper prints a learning rate of 1e-3, with which the tanh
    saturates early; its public code has 2e-4.

    Args:
        networks: Makes encoder and decoder.
        num_latents: Number of latents.
        num_values: Values of each latent.
        klm_weight: Weight of the kernel multiinformation.
        nhp_weight: Weight of the normalized Hessian penalty.
        regularized_layers: Names of the decoder's layers whose outputs are
            regularized; by default the inner ones of the `"residual"` and `"style"`
            decoders (the paper leaves the image out), or the output of any other.
        aggregate: `"joint"` (paper) or `"per_output"` (public code).
        directions: `"random"` (paper), or `"coordinates"` for the steadier estimate
            of `NormalizedHessianPenalty`.
        num_perturbations: Random directions of each kind. The fewer, the noisier is
            the penalty's gradient; see `studies/penalty_noise.py`.
        batch_fraction: Share of the batch the penalty is computed on.
        step_interval: The penalty is computed every so many steps.
        seed: Seed of the perturbations.
        **training: Arguments of `models.methods.common.model_from`.
    """
    quantizer = qlayers.FiniteScalarQuantizer(num_values, name="quantizer")
    klm = qlayers.KernelMultiinformation(klm_weight, name="klm")
    layers = _layers_or_default(networks, regularized_layers)
    estimate = _estimate(layers, num_perturbations, batch_fraction, step_interval, seed)
    estimate |= {"aggregate": aggregate, "directions": directions}

    def penalize(decoder: Any) -> qlayers.NormalizedHessianPenalty:
        return qlayers.NormalizedHessianPenalty(
            decoder, nhp_weight, **estimate, name="nhp"
        )

    regularizers = [klm, penalize]
    return _model("tripod", networks, num_latents, quantizer, regularizers, training)


def tripod_naive(
    networks: Networks,
    num_latents: int,
    *,
    num_values: int = 12,
    bandwidth: float = 0.1,
    klm_weight: Schedulable = 1e-4,
    hessian_weight: Schedulable = 1e-2,
    quantize_weight: Schedulable = 1e-2,
    commit_weight: Schedulable = 1e-2,
    regularized_layers: list[str] | None = None,
    num_perturbations: int = 2,
    batch_fraction: float = 1.0,
    step_interval: int = 1,
    seed: int | None = None,
    **training: Any,
) -> LatentModel:
    """The three ideas as they were: learned codebooks, fixed smoothing, plain penalty.

    The decoders of the `"residual"` and `"style"` networks normalize the regularized
    maps, as the paper says, unless `decoder_options={"normalize_outputs": False}`. The
    paper does not say the smoothing.

    Args:
        networks: Makes encoder and decoder.
        num_latents: Number of latents.
        num_values: Values in each codebook.
        bandwidth: Fixed smoothing of the kernel densities.
        klm_weight: Weight of the kernel multiinformation.
        hessian_weight: Weight of the Hessian penalty.
        quantize_weight: Weight of the quantization loss.
        commit_weight: Weight of the commitment loss.
        regularized_layers, num_perturbations, batch_fraction, step_interval: See
            `tripod`.
        seed: Seed of the perturbations.
        **training: Arguments of `models.methods.common.model_from`.
    """
    networks = _normalized(networks)
    quantizer = qlayers.LatentQuantizer(
        num_values,
        quantize_weight=quantize_weight,
        commit_weight=commit_weight,
        name="quantizer",
    )
    klm = qlayers.KernelMultiinformation(klm_weight, bandwidth=bandwidth, name="klm")
    layers = _layers_or_default(networks, regularized_layers)
    estimate = _estimate(layers, num_perturbations, batch_fraction, step_interval, seed)

    def penalize(decoder: Any) -> qlayers.HessianPenalty:
        return qlayers.HessianPenalty(
            decoder, hessian_weight, **estimate, name="hessian"
        )

    return _model(
        "tripod_naive", networks, num_latents, quantizer, [klm, penalize], training
    )


def _estimate(
    layers: list[str] | None,
    num_perturbations: int,
    batch_fraction: float,
    step_interval: int,
    seed: int | None,
) -> dict[str, Any]:
    """What both penalties take."""
    return {
        "outputs": layers,
        "num_perturbations": num_perturbations,
        "batch_fraction": batch_fraction,
        "step_interval": step_interval,
        "seed": seed,
    }


def _model(
    name: str,
    networks: Networks,
    num_latents: int,
    quantizer: Any,
    regularizers: list[Any],
    training: dict[str, Any],
) -> LatentModel:
    parts = assemble(
        networks, num_latents, quantizer=quantizer, regularizers=regularizers
    )
    return model_from(parts, name, **{"beta_2": PAPER_BETA_2, **training})


def _layers_or_default(
    networks: Networks, layers: list[str] | None
) -> list[str] | None:
    if layers is None and networks.family == "residual":
        return residual_inner_layers(networks.image_shape)
    if layers is None and networks.family == "style":
        options = networks.decoder_options
        return style_inner_layers(
            networks.image_shape,
            options.get("preserving_layers", 2),
            options.get("normalize_outputs", False),
        )
    return layers


def _normalized(networks: Networks) -> Networks:
    """The same networks, with normalized inner maps where nothing else is asked for."""
    if networks.family not in ("residual", "style"):
        return networks
    options = {"normalize_outputs": True, **networks.decoder_options}
    return dataclasses.replace(networks, decoder_options=options)


METHODS = tuple(
    Method(
        build.__name__,
        build,
        PAPER,
        network="residual",
        quantized=True,
        checkpoint="best_above_psnr",
    )
    for build in (tripod, tripod_naive)
)
