"""The methods of Baykal et al., Disentanglement with Factor Quantized VAEs.

All of them minimise the mean squared error. The paper works on images in [-0.5, 0.5];
here the `"dalle"` networks move images there and back.
"""

import functools
from collections.abc import Callable
from typing import Any, Literal

import keras

import qlayers
from models.assembly import Assembly, assemble
from models.factor_model import FactorModel, halves
from models.latent_model import LatentModel
from models.method import Method, Paper
from models.methods.common import (
    exponential_temperature,
    factor_model_from,
    model_from,
    with_discriminator,
)
from models.networks.choice import Networks
from models.optimizers import make_adam
from qlayers.quantizers.gumbel import Distance
from qlayers.schedules import Schedulable

PAPER = Paper(
    "factor_qvae", "Baykal et al., Disentanglement with Factor Quantized VAEs"
)
_LOSS: dict[str, Any] = {"reconstruction": "mse", "reduction": "mean"}


def cosine_learning_rate(start: float = 1e-3, num_steps: int = 50_000) -> Any:
    """The paper's schedule: a half cosine from 1e-3 to 1.25e-6."""
    return keras.optimizers.schedules.CosineDecay(
        start, decay_steps=num_steps, alpha=1.25e-6 / start
    )


def dvae(
    networks: Networks,
    num_latents: int,
    *,
    num_values: int = 64,
    kl_weight: Schedulable = 5e-3,
    kl_reduction: Literal["sum", "mean"] = "sum",
    temperature: Schedulable | None = None,
    learning_rate: Any = None,
    **training: Any,
) -> LatentModel:
    """dVAE: the encoder gives the logits of a learned scalar codebook.

    Args:
        networks: Makes encoder and decoder.
        num_latents: Number of latents.
        num_values: Size of the codebook.
        kl_weight: Weight of the divergence to the uniform prior.
        kl_reduction: `"sum"` over latents (paper) or `"mean"` (public code).
        temperature: Temperature of the relaxed samples; by default `exp(-1e-5 * step)`.
        learning_rate: By default the cosine schedule over 50,000 steps.
        **training: Arguments of `models.methods.common.model_from`.
    """
    quantizer = _categorical(num_values, kl_weight, kl_reduction, temperature)
    parts = assemble(networks, num_latents, quantizer=quantizer)
    return _model(parts, "dvae", learning_rate, training)


def qvae(
    networks: Networks,
    num_latents: int,
    *,
    num_values: int = 64,
    code_dim: int = 1,
    kl_weight: Schedulable = 1e-3,
    kl_reduction: Literal["sum", "mean"] = "sum",
    distance: Distance = "l1",
    temperature: Schedulable | None = None,
    learning_rate: Any = None,
    **training: Any,
) -> LatentModel:
    """QVAE: distances to a learned global codebook are the logits.

    Args:
        networks: Makes encoder and decoder.
        num_latents: Number of latents.
        num_values: Size of the codebook.
        code_dim: 1 for scalars; more is the paper's vector variant.
        kl_weight: Weight of the divergence to the uniform prior.
        kl_reduction: `"sum"` over latents (paper) or `"mean"` (public code).
        distance: `"l1"` (paper, scalars), `"l2"` (paper, vectors) or `"squared_l2"`
            (public code).
        temperature: Temperature of the relaxed samples; by default `exp(-1e-5 * step)`.
        learning_rate: By default the cosine schedule over 50,000 steps.
        **training: Arguments of `models.methods.common.model_from`.
    """
    quantizer = _gumbel(
        num_values, code_dim, kl_weight, kl_reduction, distance, temperature
    )
    parts = assemble(networks, num_latents, quantizer=quantizer)
    return _model(parts, "qvae", learning_rate, training)


def factor_dvae_learned(
    networks: Networks,
    num_latents: int,
    *,
    num_values: int = 64,
    kl_weight: Schedulable = 5e-3,
    tc_weight: Schedulable = 5e-4,
    kl_reduction: Literal["sum", "mean"] = "sum",
    temperature: Schedulable | None = None,
    **training: Any,
) -> FactorModel:
    """FactordVAE: dVAE with a total-correlation discriminator on its one-hots.

    Args:
        networks: Makes encoder and decoder.
        num_latents: Number of latents.
        num_values: Size of the codebook.
        kl_weight: Weight of the divergence to the uniform prior.
        tc_weight: Weight of the total correlation.
        kl_reduction: `"sum"` over latents (paper) or `"mean"` (public code).
        temperature: Temperature of the relaxed samples; by default `exp(-1e-5 * step)`.
        **training: As in `factor_qvae`.
    """
    quantizer = _categorical(num_values, kl_weight, kl_reduction, temperature)
    make_parts = functools.partial(assemble, networks, num_latents, quantizer=quantizer)
    return factorized_model(make_parts, tc_weight, "factor_dvae_learned", **training)


def factor_qvae(
    networks: Networks,
    num_latents: int,
    *,
    num_values: int = 64,
    code_dim: int = 1,
    kl_weight: Schedulable = 1e-3,
    tc_weight: Schedulable = 1e-4,
    kl_reduction: Literal["sum", "mean"] = "sum",
    distance: Distance = "l1",
    temperature: Schedulable | None = None,
    **training: Any,
) -> FactorModel:
    """FactorQVAE, Algorithm 1: QVAE with a discriminator on its one-hots.

    A given batch is two halves, one for each of the algorithm's two batches.

    Args:
        networks: Makes encoder and decoder.
        num_latents: Number of latents.
        num_values: Size of the codebook.
        code_dim: 1 for scalars; more is the paper's vector variant.
        kl_weight: Weight of the divergence to the uniform prior.
        tc_weight: Weight of the total correlation.
        kl_reduction: `"sum"` over latents (paper) or `"mean"` (public code).
        distance: `"l1"` (paper, scalars), `"l2"` (paper, vectors) or `"squared_l2"`
            (public code).
        temperature: Temperature of the relaxed samples; by default `exp(-1e-5 * step)`.
        **training: `learning_rate`, `discriminator_learning_rate`, `hidden_units`,
            `seed`, and arguments of `models.methods.common.factor_model_from`.
    """
    quantizer = _gumbel(
        num_values, code_dim, kl_weight, kl_reduction, distance, temperature
    )
    make_parts = functools.partial(assemble, networks, num_latents, quantizer=quantizer)
    return factorized_model(make_parts, tc_weight, "factor_qvae", **training)


def factorized_model(
    make_parts: Callable[..., Assembly],
    tc_weight: Schedulable,
    name: str,
    *,
    hidden_units: Any = (1000,) * 5,
    learning_rate: Any = None,
    discriminator_learning_rate: Any = 1e-3,
    two_batches: bool = True,
    seed: int | None = None,
    **training: Any,
) -> FactorModel:
    """What both methods with a discriminator share: they differ in their quantizer."""
    parts = with_discriminator(
        make_parts,
        tc_weight,
        hidden_units=hidden_units,
        one_hot=True,
        kernel_initializer=keras.initializers.RandomNormal(stddev=0.02),
        seed=seed,
    )
    return factor_model_from(
        parts,
        name,
        two_batches=two_batches,
        learning_rate=learning_rate or cosine_learning_rate(),
        discriminator_optimizer={"learning_rate": discriminator_learning_rate},
        **{**_LOSS, **training},
    )


def _categorical(
    num_values: int,
    kl_weight: Any,
    kl_reduction: Literal["sum", "mean"],
    temperature: Any,
) -> qlayers.CategoricalQuantizer:
    return qlayers.CategoricalQuantizer(
        num_values,
        temperature=temperature or exponential_temperature(),
        kl_weight=kl_weight,
        kl_reduction=kl_reduction,
        name="quantizer",
    )


def _gumbel(
    num_values: int,
    code_dim: int,
    kl_weight: Any,
    kl_reduction: Literal["sum", "mean"],
    distance: Distance,
    temperature: Any,
) -> qlayers.GumbelQuantizer:
    return qlayers.GumbelQuantizer(
        num_values,
        code_dim=code_dim,
        temperature=temperature or exponential_temperature(),
        kl_weight=kl_weight,
        kl_reduction=kl_reduction,
        distance=distance,
        name="quantizer",
    )


def _model(
    parts: Assembly, name: str, learning_rate: Any, training: dict[str, Any]
) -> LatentModel:
    rate = learning_rate or cosine_learning_rate()
    return model_from(parts, name, learning_rate=rate, **{**_LOSS, **training})


_FACTOR: dict[str, Any] = {
    "hands_on": (factorized_model, factor_model_from, make_adam),
    "fixed": {"two_batches": True},
    "pieces": halves,
}
METHODS = tuple(
    Method(build.__name__, build, PAPER, "dalle", quantized=True, **facts)
    for build, facts in (
        (qvae, {}),
        (dvae, {}),
        (factor_qvae, _FACTOR),
        (factor_dvae_learned, _FACTOR),
    )
)
