"""Puts networks, a quantizer and regularizers together into one functional graph."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import keras

import qlayers
from models.networks.choice import Networks
from qlayers.quantizers.base import BaseQuantizer
from qlayers.quantizers.logits import LogitsQuantizer

_HESSIAN = (qlayers.HessianPenalty, qlayers.NormalizedHessianPenalty)
_SUPPORT = (
    qlayers.Cliff,
    qlayers.HausdorffFactorizedSupport,
    qlayers.IndependentSupport,
)


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


@dataclass(frozen=True)
class Signals:
    """The tensors between encoder and decoder that regularizers may read.

    Attributes:
        latents: What the decoder reads.
        continuous: Noise-free latents before quantization, or None.
        mean: Posterior means, or None.
        scale: Posterior scales, or None.
        assignments: Weights of the categories, `(batch, n, num_values)`, or None.
    """

    latents: Any
    continuous: Any = None
    mean: Any = None
    scale: Any = None
    assignments: Any = None


def assemble(
    networks: Networks,
    num_latents: int,
    *,
    quantizer: BaseQuantizer | None = None,
    regularizers: Sequence[Any] = (),
    discriminator_input: str = "latents",
    with_decoder: bool = True,
) -> Assembly:
    """Connects encoder, quantizer, regularizers and decoder.

    Args:
        networks: Makes encoder and decoder.
        num_latents: Number of latents.
        quantizer: A quantizer of qlayers, or None for plain latents.
        regularizers: Regularizers of qlayers. The Hessian penalties are given as
            functions of the decoder, `lambda decoder: NormalizedHessianPenalty(...)`,
            all others as layers.
        discriminator_input: What a total-correlation discriminator reads: `"latents"`
            or, for categorical quantizers, `"assignments"`.
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
    signals = _signals(encode(images), quantizer)
    decoder = None
    if with_decoder:
        decoder = networks.decoder(signals.latents.shape[-1])
    outputs, discriminator = _regularize(
        signals, decoder, regularizers, discriminator_input
    )
    return Assembly(
        graph=keras.Model(images, outputs, name="graph"),
        encoder=keras.Model(images, signals.latents, name="encoder"),
        decoder=decoder,
        quantizer=quantizer,
        discriminator=discriminator,
    )


def head_size(quantizer: BaseQuantizer | None, num_latents: int) -> int:
    """Number of encoder outputs that a quantizer needs for `num_latents` latents."""
    if isinstance(quantizer, qlayers.GaussianLatent):
        return 2 * num_latents
    if isinstance(quantizer, LogitsQuantizer):
        return num_latents * quantizer.num_values
    return num_latents * getattr(quantizer, "code_dim", 1)


def _signals(features: Any, quantizer: BaseQuantizer | None) -> Signals:
    if quantizer is None:
        return Signals(latents=features, continuous=features)
    if isinstance(quantizer, qlayers.GaussianLatent):
        z, mean, scale = quantizer(features, return_moments=True)
        return Signals(latents=z, continuous=mean, mean=mean, scale=scale)
    if isinstance(quantizer, LogitsQuantizer):
        z, weights = quantizer(features, return_assignments=True)
        return Signals(latents=z, assignments=weights)
    if isinstance(quantizer, qlayers.GumbelQuantizer):
        z, weights = quantizer(features, return_assignments=True)
        return Signals(latents=z, continuous=features, assignments=weights)
    continuous = features
    if isinstance(quantizer, qlayers.FiniteScalarQuantizer):
        squash = keras.layers.Activation("tanh", dtype="float32", name="continuous")
        continuous = squash(features)
    return Signals(latents=quantizer(features), continuous=continuous)


def _regularize(
    signals: Signals,
    decoder: keras.Model | None,
    regularizers: Sequence[Any],
    discriminator_input: str,
) -> tuple[Any, Any]:
    """Applies the regularizers; returns the outputs and the discriminator, if any."""
    z = signals.latents
    decode: Any = decoder
    discriminator = None
    for regularizer in regularizers:
        if not isinstance(regularizer, keras.layers.Layer):
            decode = _wrap_decoder(regularizer, decoder, decode)
        elif isinstance(regularizer, qlayers.TotalCorrelationDiscriminator):
            if discriminator is not None:
                raise ValueError("A model has one total-correlation discriminator.")
            discriminator = regularizer
            z = _apply_discriminator(regularizer, z, signals, discriminator_input)
        else:
            z = _apply(regularizer, z, signals)
    if decode is None:
        return z, discriminator
    if isinstance(decode, qlayers.NormalizedHessianPenalty):
        return decode(z, continuous=signals.continuous), discriminator
    return decode(z), discriminator


def _wrap_decoder(make: Any, decoder: keras.Model | None, decode: Any) -> Any:
    if decoder is None:
        raise ValueError("A Hessian penalty needs a decoder; this model has none.")
    if decode is not decoder:
        raise ValueError(
            "A model has one Hessian penalty: each returns the decoder's output."
        )
    layer = make(decoder)
    if not isinstance(layer, _HESSIAN):
        raise ValueError(
            "A regularizer given as a function of the decoder must return a Hessian "
            f"penalty. Received: {layer!r}."
        )
    return layer


def _apply(regularizer: Any, z: Any, signals: Signals) -> Any:
    name = type(regularizer).__name__
    if isinstance(regularizer, qlayers.MinibatchTotalCorrelation):
        if signals.scale is None:
            raise ValueError(
                f"{name} needs posterior densities, which only GaussianLatent has. "
                "Use TotalCorrelationDiscriminator with this quantizer."
            )
        return regularizer(z, signals.mean, signals.scale)
    if isinstance(regularizer, _SUPPORT):
        if signals.continuous is None:
            raise ValueError(
                f"{name} looks at the density of continuous latents; a categorical "
                "quantizer has none. Use it with GaussianLatent, LatentQuantizer, "
                "FiniteScalarQuantizer or no quantizer."
            )
        return _apply_beside(regularizer, z, signals.continuous)
    if isinstance(regularizer, qlayers.KernelMultiinformation):
        return regularizer(z, continuous=_same_size(signals.continuous, z))
    return regularizer(z)


def _same_size(continuous: Any, z: Any) -> Any:
    if continuous is None or continuous.shape[-1] != z.shape[-1]:
        return None
    return continuous


def _apply_discriminator(layer: Any, z: Any, signals: Signals, reads: str) -> Any:
    if reads == "latents":
        return layer(z)
    if signals.assignments is None:
        raise ValueError(
            "`discriminator_input='assignments'` needs a GumbelQuantizer or a "
            "categorical quantizer; others have no weights of categories."
        )
    return _apply_beside(layer, z, signals.assignments)


def _apply_beside(layer: Any, z: Any, inputs: Any) -> Any:
    """Applies a regularizer to another tensor than `z`, keeping it in the graph."""
    if inputs is z:
        return layer(z)
    return qlayers.blocks.Beside(name=f"with_{layer.name}")([z, layer(inputs)])
