"""The methods of Friede et al. 2023, Learning Disentangled Discrete Representations.

All of them sum the cross-entropy over pixels and use Adam with a learning rate of 1e-4;
the Gaussian VAE of the comparison is `beta_vae` with `beta=1, reduction="sum"`.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import keras

import qlayers
from models.assembly import Assembly, assemble
from models.factor_model import FactorModel, halves
from models.latent_model import LatentModel
from models.method import Method, Paper
from models.methods.common import factor_model_from, model_from, with_discriminator
from models.networks.choice import Networks
from models.networks.initializers import truncated_normal_by_shape
from models.optimizers import make_adam
from models.regularizers import CapacityPenalty, MomentMatching
from models.supervision import Supervision
from qlayers.schedules import Schedulable

PAPER = Paper(
    "d_vae", "Friede et al. 2023, Learning Disentangled Discrete Representations"
)
_LOSS: dict[str, Any] = {"reconstruction": "bce", "reduction": "sum"}
_LEARNING_RATE = 1e-4


def rising_noise(
    num_steps: int = 300_000, first: float = 0.5, last: float = 2.0
) -> Any:
    """The paper's Gumbel scale: a half cosine up from 0.5 to 2 over the whole run."""
    return keras.optimizers.schedules.CosineDecay(
        first, decay_steps=num_steps, alpha=last / first
    )


def d_vae(
    networks: Networks,
    num_latents: int,
    *,
    num_values: int = 64,
    interval: tuple[float, float] = (-1.0, 1.0),
    noise_scale: Schedulable | None = None,
    kl_weight: Schedulable = 1.0,
    active_values: Sequence[Any] | None = None,
    supervision_weight: float = 0.0,
    supervision_reduction: str = "mean",
    label_sizes: Sequence[int] | None = None,
    learning_rate: Any = _LEARNING_RATE,
    **training: Any,
) -> LatentModel:
    """D-VAE: ordered categories on a fixed grid.

    With `supervision_weight` the model also learns from labels: `fit` then takes
    `(images, (labelled_images, labels))`, and the first latents' categories are trained
    by cross-entropy on the binned labels.

    Args:
        networks: Makes encoder and decoder.
        num_latents: Number of latents.
        num_values: Number of categories.
        interval: First and last value of a latent.
        noise_scale: Scale of the Gumbel noise; by default `rising_noise()`.
        kl_weight: Weight of the divergence to the uniform prior.
        active_values: Masks of categories; see `OrderedCategoricalQuantizer`.
        supervision_weight: Weight of the supervised loss.
        supervision_reduction: `"sum"` over labelled images, as in disentanglement_lib,
            or their `"mean"`.
        label_sizes: Number of values of each labelled factor.
        learning_rate: Number or schedule.
        **training: Arguments of `models.methods.common.model_from`.
    """
    quantizer = _ordered(num_values, interval, noise_scale, kl_weight, active_values)
    parts = assemble(networks, num_latents, quantizer=quantizer)
    return model_from(
        parts,
        "d_vae",
        learning_rate=learning_rate,
        supervised_loss=_supervision(
            "cross_entropy", supervision_weight, label_sizes, supervision_reduction
        ),
        **{**_LOSS, **training},
    )


def factor_d_vae(
    networks: Networks,
    num_latents: int,
    *,
    tc_weight: Schedulable = 30.0,
    num_values: int = 64,
    interval: tuple[float, float] = (-1.0, 1.0),
    noise_scale: Schedulable | None = None,
    kl_weight: Schedulable = 1.0,
    active_values: Sequence[Any] | None = None,
    supervision_weight: float = 0.0,
    supervision_reduction: str = "mean",
    label_sizes: Sequence[int] | None = None,
    **training: Any,
) -> FactorModel:
    """FactorDVAE: D-VAE with a total-correlation discriminator on its latents.

    Args:
        networks: Makes encoder and decoder.
        num_latents: Number of latents.
        tc_weight: Weight of the total correlation.
        num_values: Number of categories.
        interval: First and last value of a latent.
        noise_scale: Scale of the Gumbel noise; by default `rising_noise()`.
        kl_weight: Weight of the divergence to the uniform prior.
        active_values: Masks of categories; see `OrderedCategoricalQuantizer`.
        supervision_weight: As in `d_vae`.
        supervision_reduction: As in `d_vae`.
        label_sizes: Number of values of each labelled factor.
        **training: As in `factor_vae`.
    """
    quantizer = _ordered(num_values, interval, noise_scale, kl_weight, active_values)
    make_parts = functools.partial(assemble, networks, num_latents, quantizer=quantizer)
    return factorized_model(
        make_parts,
        tc_weight,
        "factor_d_vae",
        supervised_loss=_supervision(
            "cross_entropy", supervision_weight, label_sizes, supervision_reduction
        ),
        **training,
    )


def factor_vae(
    networks: Networks,
    num_latents: int,
    *,
    tc_weight: Schedulable = 30.0,
    kl_weight: Schedulable = 1.0,
    supervision: str = "bce",
    supervision_weight: float = 0.0,
    supervision_reduction: str = "mean",
    label_sizes: Sequence[int] | None = None,
    two_batches: bool = True,
    **training: Any,
) -> FactorModel:
    """The FactorVAE of Kim and Mnih 2018.

    Args:
        networks: Makes encoder and decoder.
        num_latents: Number of latents.
        tc_weight: Weight of the total correlation, the paper's gamma.
        kl_weight: Weight of the divergence to the normal prior.
        supervision: `"bce"`, `"l2"`, `"l2_sigmoid"` or `"l2_scaled"`, for
            `supervision_weight`; see `models.supervision.Supervision`.
        supervision_weight: Weight of a supervised loss on the first latents' means;
            see `d_vae`.
        supervision_reduction: As in `d_vae`.
        label_sizes: Number of values of each labelled factor.
        two_batches: Whether a batch is two halves, as in Kim and Mnih's algorithm;
            Friede et al. permute the same batch.
        **training: `learning_rate`, `discriminator_learning_rate`,
            `discriminator_beta_1`, `discriminator_beta_2`, `hidden_units`,
            `negative_slope`, `seed` and arguments of
            `models.methods.common.factor_model_from`.
    """
    latent = qlayers.GaussianLatent(kl_weight, name="gaussian")
    make_parts = functools.partial(assemble, networks, num_latents, quantizer=latent)
    return factorized_model(
        make_parts,
        tc_weight,
        "factor_vae",
        two_batches=two_batches,
        supervised_loss=_supervision(
            supervision, supervision_weight, label_sizes, supervision_reduction
        ),
        **training,
    )


def supervised_vae(
    networks: Networks,
    num_latents: int,
    *,
    label_sizes: Sequence[int],
    beta: Schedulable = 1.0,
    supervision: str = "bce",
    supervision_weight: float = 1.0,
    supervision_reduction: str = "mean",
    learning_rate: Any = _LEARNING_RATE,
    **training: Any,
) -> LatentModel:
    """The Gaussian VAE with a supervised loss on its first latents' means.

    Args:
        networks: Makes encoder and decoder.
        num_latents: Number of latents.
        label_sizes: Number of values of each labelled factor.
        beta: Weight of the divergence.
        supervision: As in `factor_vae`.
        supervision_weight: Weight of the supervised loss.
        supervision_reduction: As in `d_vae`.
        learning_rate: Number or schedule.
        **training: Arguments of `models.methods.common.model_from`.
    """
    latent = qlayers.GaussianLatent(beta, name="gaussian")
    parts = assemble(networks, num_latents, quantizer=latent)
    return model_from(
        parts,
        "supervised_vae",
        learning_rate=learning_rate,
        supervised_loss=_supervision(
            supervision, supervision_weight, label_sizes, supervision_reduction
        ),
        **{**_LOSS, **training},
    )


def dip_vae(
    networks: Networks,
    num_latents: int,
    *,
    with_noise: bool,
    off_diagonal_weight: float = 10.0,
    diagonal_factor: float | None = None,
    kl_weight: Schedulable = 1.0,
    learning_rate: Any = _LEARNING_RATE,
    **training: Any,
) -> LatentModel:
    """The DIP-VAEs of Kumar et al. 2018: latents of covariance one.

    Args:
        networks: Makes encoder and decoder.
        num_latents: Number of latents.
        with_noise: Whether the samples' covariance is meant (`dip_vae_ii`) or that of
            the means (`dip_vae_i`).
        off_diagonal_weight: Weight of the squared covariances.
        diagonal_factor: Weight of the variances' squared distance from 1, relative to
            the former. Default: as Locatello et al. 2019, 10 for I and 1 for II.
        kl_weight: Weight of the divergence to the normal prior.
        learning_rate: Number or schedule.
        **training: Arguments of `models.methods.common.model_from`.
    """
    if diagonal_factor is None:
        diagonal_factor = 1.0 if with_noise else 10.0
    matching = MomentMatching(
        off_diagonal_weight,
        diagonal_factor * off_diagonal_weight,
        with_noise=with_noise,
        name="dip",
    )
    parts = assemble(
        networks,
        num_latents,
        quantizer=qlayers.GaussianLatent(kl_weight, name="gaussian"),
        regularizers=[matching],
    )
    name = "dip_vae_ii" if with_noise else "dip_vae_i"
    return model_from(parts, name, learning_rate=learning_rate, **{**_LOSS, **training})


def annealed_vae(
    networks: Networks,
    num_latents: int,
    *,
    capacity: float = 25.0,
    capacity_steps: int = 100_000,
    capacity_weight: Schedulable = 1000.0,
    learning_rate: Any = _LEARNING_RATE,
    **training: Any,
) -> LatentModel:
    """The AnnealedVAE of Burgess et al. 2017: a divergence that may grow.

    Args:
        networks: Makes encoder and decoder.
        num_latents: Number of latents.
        capacity: Divergence that is allowed in the end, in nats.
        capacity_steps: Steps over which it grows from 0, evenly.
        capacity_weight: Weight of the distance from the capacity.
        learning_rate: Number or schedule.
        **training: Arguments of `models.methods.common.model_from`.
    """
    growing = keras.optimizers.schedules.PolynomialDecay(
        0.0, decay_steps=capacity_steps, end_learning_rate=capacity
    )
    parts = assemble(
        networks,
        num_latents,
        quantizer=qlayers.GaussianLatent(0.0, name="gaussian"),
        regularizers=[CapacityPenalty(capacity_weight, growing, name="capacity")],
    )
    return model_from(
        parts, "annealed_vae", learning_rate=learning_rate, **{**_LOSS, **training}
    )


def _supervision(
    kind: str, weight: float, sizes: Sequence[int] | None, reduction: str
) -> Supervision | None:
    if not weight:
        return None
    if sizes is None:
        raise ValueError("`supervision_weight` needs `label_sizes` as well.")
    return Supervision(kind, weight, tuple(sizes), reduction)


def factorized_model(
    make_parts: Callable[..., Assembly],
    tc_weight: Schedulable,
    name: str,
    *,
    hidden_units: Any = (1000,) * 6,
    negative_slope: float = 0.2,
    learning_rate: Any = _LEARNING_RATE,
    discriminator_learning_rate: Any = 1e-4,
    discriminator_beta_1: float = 0.5,
    discriminator_beta_2: float = 0.9,
    two_batches: bool = False,
    seed: int | None = None,
    **training: Any,
) -> FactorModel:
    """What `factor_vae` and `factor_d_vae` share: they differ in their quantizer."""
    parts = with_discriminator(
        make_parts,
        tc_weight,
        hidden_units=hidden_units,
        negative_slope=negative_slope,
        kernel_initializer=truncated_normal_by_shape(),
        seed=seed,
    )
    return factor_model_from(
        parts,
        name,
        two_batches=two_batches,
        learning_rate=learning_rate,
        discriminator_optimizer={
            "learning_rate": discriminator_learning_rate,
            "beta_1": discriminator_beta_1,
            "beta_2": discriminator_beta_2,
        },
        **{**_LOSS, **training},
    )


def _ordered(
    num_values: int,
    interval: tuple[float, float],
    noise_scale: Any,
    kl_weight: Any,
    active_values: Any,
) -> qlayers.OrderedCategoricalQuantizer:
    return qlayers.OrderedCategoricalQuantizer(
        num_values,
        interval=interval,
        noise_scale=rising_noise() if noise_scale is None else noise_scale,
        kl_weight=kl_weight,
        active_values=active_values,
        name="quantizer",
    )


_FACTOR: dict[str, Any] = {
    "hands_on": (factorized_model, factor_model_from, make_adam),
    "pieces": halves,
}


def _gaussian(name: str, build: Callable[..., LatentModel], **facts: Any) -> Method:
    return Method(name, build, PAPER, "locatello", gaussian=True, **facts)


METHODS = (
    Method("d_vae", d_vae, PAPER, "locatello", quantized=True),
    Method("factor_d_vae", factor_d_vae, PAPER, "locatello", quantized=True, **_FACTOR),
    _gaussian("factor_vae", factor_vae, **_FACTOR),
    _gaussian("supervised_vae", supervised_vae),
    _gaussian("dip_vae_i", dip_vae, fixed={"with_noise": False}),
    _gaussian("dip_vae_ii", dip_vae, fixed={"with_noise": True}),
    _gaussian("annealed_vae", annealed_vae),
)
