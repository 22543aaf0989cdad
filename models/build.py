"""Models by name."""

from collections.abc import Sequence
from typing import Any

import keras

from models.latent_model import LatentModel
from models.method import Method
from models.networks.choice import NetworkName, Networks
from models.registry import METHODS
from qlayers.schedules import LearningRateSchedule


def build(
    method: str,
    image_shape: Sequence[int],
    num_latents: int,
    *,
    network: NetworkName | None = None,
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
        **hyperparameters: Arguments of the method's function, which documents them;
            `METHODS[method].hyperparameters()` lists them.

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
    record = METHODS[method]
    record.check_network(network or record.network)
    hyperparameters = {k: _restored(v) for k, v in hyperparameters.items()}
    networks = Networks(
        network or record.network,
        tuple(image_shape),
        width,
        encoder_options or {},
        decoder_options or {},
    )
    try:
        model = record.build(networks, num_latents, **record.fixed, **hyperparameters)
    except TypeError as error:
        raise _explained(record, hyperparameters, error) from error
    model.build_arguments = {
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


def _plain(value: Any) -> Any:
    if isinstance(value, LearningRateSchedule):
        return keras.optimizers.schedules.serialize(value)
    return list(value) if isinstance(value, tuple) else value


def _restored(value: Any) -> Any:
    """A schedule, if the value is a serialized one."""
    if isinstance(value, dict) and "class_name" in value:
        return keras.optimizers.schedules.deserialize(value)
    return value


def _explained(method: Method, given: dict[str, Any], error: TypeError) -> TypeError:
    """The same error, with the arguments that the method does take."""
    return TypeError(
        f"Method {method.name!r} could not be built with {sorted(given)}: {error}. Its "
        f"hyperparameters: {', '.join(method.hyperparameters())}."
    )
