"""Models by name."""

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import keras

from models.latent_model import LatentModel
from models.methods import (
    cliff_paper,
    factor_qvae_paper,
    friede_paper,
    qlae_paper,
    tripod_paper,
)
from models.networks.choice import Networks
from qlayers.schedules import LearningRateSchedule

METHODS: dict[str, Callable[..., LatentModel]] = {
    "ae": qlae_paper.ae,
    "beta_vae": qlae_paper.beta_vae,
    "beta_tcvae": qlae_paper.beta_tcvae,
    "factor_vae": friede_paper.factor_vae,
    "bio_ae": qlae_paper.bio_ae,
    "vq_vae": qlae_paper.vq_vae,
    "qlae": qlae_paper.qlae,
    "qlae_global": qlae_paper.qlae_global,
    "infowgan_gp": qlae_paper.infowgan_gp,
    "ql_infowgan_gp": qlae_paper.ql_infowgan_gp,
    "qvae": factor_qvae_paper.qvae,
    "dvae": factor_qvae_paper.dvae,
    "factor_qvae": factor_qvae_paper.factor_qvae,
    "factor_dvae_learned": factor_qvae_paper.factor_dvae_learned,
    "d_vae": friede_paper.d_vae,
    "factor_d_vae": friede_paper.factor_d_vae,
    "supervised_vae": friede_paper.supervised_vae,
    "tripod": tripod_paper.tripod,
    "tripod_naive": tripod_paper.tripod_naive,
    "cliff": cliff_paper.cliff,
    "hfs": cliff_paper.hfs,
    "ioss": cliff_paper.ioss,
    "additive": cliff_paper.additive,
}

# Module of a paper's methods -> the networks that the paper uses.
_NETWORKS = {
    qlae_paper.__name__: "style",
    tripod_paper.__name__: "residual",
    factor_qvae_paper.__name__: "dalle",
    friede_paper.__name__: "locatello",
    cliff_paper.__name__: "locatello",
}


def build(
    method: str,
    image_shape: Sequence[int],
    num_latents: int,
    *,
    network: str | None = None,
    width: float = 1.0,
    encoder_options: dict[str, Any] | None = None,
    decoder_options: dict[str, Any] | None = None,
    **hyperparameters: Any,
) -> LatentModel:
    """Makes the model of a method, ready for `compile()` and `fit`.

    Args:
        method: Name of the method, one of `METHODS`.
        image_shape: `(height, width, channels)`, or `(size,)` with `network="mlp"`.
        num_latents: Number of latents.
        network: Name of the networks; by default those of the method's paper.
        width: Multiplies the networks' numbers of channels and units.
        encoder_options: Further arguments of the encoder's function.
        decoder_options: Further arguments of the decoder's function.
        **hyperparameters: Arguments of the method's function, which documents them.

    Example:

    ```python
    model = build("qlae", (64, 64, 3), 12, num_values=10, weight_decay=0.1)
    model.compile()
    ```
    """
    if method not in METHODS:
        raise ValueError(
            f"Unknown method {method!r}. Known: {', '.join(sorted(METHODS))}."
        )
    hyperparameters = {k: _restored(v) for k, v in hyperparameters.items()}
    networks = Networks(
        network or paper_network(method),
        tuple(image_shape),
        width,
        encoder_options or {},
        decoder_options or {},
    )
    try:
        model = METHODS[method](networks, num_latents, **hyperparameters)
    except TypeError as error:
        raise _explained(method, hyperparameters, error) from error
    model.recipe = {
        "method": method,
        "image_shape": list(image_shape),
        "num_latents": num_latents,
        "network": networks.family,
        "width": width,
        "encoder_options": dict(networks.encoder_options),
        "decoder_options": dict(networks.decoder_options),
        **{name: _plain(value) for name, value in hyperparameters.items()},
    }
    return model


def paper_network(method: str) -> str:
    """Name of the networks that a method's paper uses; QLAE's for other methods."""
    if method == "additive":
        return "resnet_additive"
    return _NETWORKS.get(METHODS[method].__module__, "style")


def _plain(value: Any) -> Any:
    if isinstance(value, LearningRateSchedule):
        return keras.optimizers.schedules.serialize(value)
    return list(value) if isinstance(value, tuple) else value


def _restored(value: Any) -> Any:
    """A schedule, if the value is a serialized one."""
    if isinstance(value, dict) and "class_name" in value:
        return keras.optimizers.schedules.deserialize(value)
    return value


def _explained(method: str, given: dict[str, Any], error: TypeError) -> TypeError:
    """The same error, with the arguments that the method does take."""
    signature = inspect.signature(METHODS[method])
    names = [n for n in signature.parameters if n not in ("networks", "num_latents")]
    return TypeError(
        f"Method {method!r} could not be built with {sorted(given)}: {error}. Its own "
        f"hyperparameters: {', '.join(names)}."
    )
