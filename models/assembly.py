"""Puts networks, a quantizer and regularizers together into one functional graph."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import keras

import qlayers
from models.networks.choice import Networks
from qlayers.quantizers.base import BaseQuantizer
from qlayers.signals import Signal, Signals


@dataclass(frozen=True)
class Assembly:
    """The parts of a model and the graph that connects them for training.

    Attributes:
        graph: Images to decoder outputs (latents, without a decoder), with all layers
            that add losses.
        encoder: Images to latents, without the regularizers.
        decoder: Latents to outputs, or None.
        quantizer: The quantizer, or None.
        discriminator: The total-correlation discriminator, or None.
    """

    graph: keras.Model
    encoder: keras.Model
    decoder: keras.Model | None
    quantizer: BaseQuantizer | None = None
    discriminator: Any = None


def assemble(
    networks: Networks,
    num_latents: int,
    *,
    quantizer: BaseQuantizer | None = None,
    regularizers: Sequence[Any] = (),
    with_decoder: bool = True,
) -> Assembly:
    """Connects encoder, quantizer, regularizers and decoder.

    Args:
        networks: Makes encoder and decoder.
        num_latents: Number of latents.
        quantizer: A quantizer of qlayers, or None for plain latents.
        regularizers: Regularizers of qlayers, or of yours: each gets the signals that
            it declares in `reads` and `may_read`. One that wraps the decoder is given
            as a function, `lambda decoder: NormalizedHessianPenalty(decoder, ...)`.
        with_decoder: Whether to decode at all.

    Example:

    ```python
    parts = assemble(
        Networks("style", (64, 64, 3)),
        12,
        quantizer=qlayers.FiniteScalarQuantizer(12),
        regularizers=[qlayers.KernelMultiinformation(1e-4)],
    )
    ```
    """
    images = keras.Input(networks.image_shape, name="images")
    encode = networks.encoder(head_size(quantizer, num_latents))
    features = encode(images)
    signals: Signals = {"latents": features, "continuous": features}
    if quantizer is not None:
        signals = quantizer.signals(features)
    latents = signals["latents"]
    if with_decoder:
        signals["decoder"] = networks.decoder(latents.shape[-1])
    layers = [_layer_of(regularizer, signals) for regularizer in regularizers]
    return Assembly(
        graph=keras.Model(images, _outputs(layers, signals), name="graph"),
        encoder=keras.Model(images, latents, name="encoder"),
        decoder=signals.get("decoder"),
        quantizer=quantizer,
        discriminator=_discriminator_of(layers),
    )


def head_size(quantizer: BaseQuantizer | None, num_latents: int) -> int:
    """Number of encoder outputs that a quantizer needs for `num_latents` latents."""
    return num_latents * (1 if quantizer is None else quantizer.inputs_per_latent)


def _layer_of(regularizer: Any, signals: Signals) -> Any:
    """The regularizer; one that is given as a function is made of the decoder."""
    if isinstance(regularizer, keras.layers.Layer):
        return regularizer
    layer = regularizer(_read(regularizer, "decoder", signals))
    if not _wraps(layer):
        raise ValueError(
            "A regularizer given as a function of the decoder must return a layer that "
            f"wraps it, such as a Hessian penalty. Received: {layer!r}."
        )
    return layer


def _outputs(layers: Sequence[Any], signals: Signals) -> Any:
    """Applies the regularizers to the signals that they read, then the decoder."""
    z, decoders = signals["latents"], [layer for layer in layers if _wraps(layer)]
    if len(decoders) > 1:
        raise ValueError(
            "One regularizer can wrap the decoder, because it returns the decoder's "
            f"output. Received: {', '.join(layer.name for layer in decoders)}."
        )
    for layer in layers:
        if not _wraps(layer):
            z = _apply(layer, z, signals)
    if decoders:
        return decoders[0](z, **_others(decoders[0], signals))
    return signals["decoder"](z) if "decoder" in signals else z


def _apply(layer: Any, z: Any, signals: Signals) -> Any:
    """Applies a regularizer; one that reads something else than `z` stays beside it."""
    first = _reads(layer)[0]
    inputs = z if first == "latents" else _read(layer, first, signals)
    outputs = layer(inputs, **_others(layer, signals))
    if inputs is z:
        return outputs
    return qlayers.blocks.FirstInput(name=f"with_{layer.name}")([z, outputs])


def _others(layer: Any, signals: Signals) -> dict[str, Any]:
    """The signals that a regularizer reads after the first, by name."""
    needed = [name for name in _reads(layer)[1:] if name != "decoder"]
    optional = [name for name in getattr(layer, "may_read", ()) if name in signals]
    return {name: _read(layer, name, signals) for name in (*needed, *optional)}


def _reads(layer: Any) -> tuple[Signal, ...]:
    return getattr(layer, "reads", ("latents",))


def _wraps(layer: Any) -> bool:
    return "decoder" in _reads(layer)


def _read(reader: Any, name: Signal, signals: Signals) -> Any:
    if name not in signals:
        who = getattr(reader, "__name__", type(reader).__name__)
        raise ValueError(
            f"{who} reads the signal {name!r}, which this model does not have: its "
            f"quantizer and decoder give {', '.join(signals)}. Choose another "
            "quantizer or another regularizer."
        )
    return signals[name]


def _discriminator_of(layers: Sequence[Any]) -> Any:
    kind = qlayers.TotalCorrelationDiscriminator
    found = [layer for layer in layers if isinstance(layer, kind)]
    if len(found) > 1:
        raise ValueError("A model has one total-correlation discriminator.")
    return found[0] if found else None
