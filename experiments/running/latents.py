"""The latents of images, in the form in which a method's paper scores them."""

from typing import Any

import numpy as np
from keras import ops

import qlayers
from experiments.settings.config import CODES, VALUES
from models import LatentModel
from qlayers.metrics import StraightThroughGapResult, straight_through_gap
from qlayers.quantizers.logits import LogitsQuantizer

_BATCH = 64


def latents_of(
    method: str, model: LatentModel, images: np.ndarray
) -> tuple[np.ndarray, bool]:
    """Latents of images, and whether they are discrete.

    - Methods with ordered values (QLAE, Tripod): the values of the codes.
    - Methods with unordered codes (VQ-VAE, FactorQVAE's): the codes.
    - All others: means. D-VAE's are the expected values of its categories.

    Args:
        method: Name of the method.
        model: Its model.
        images: uint8 or float images.
    """
    if method in CODES:
        return model.codes(images), True
    if method in VALUES:
        codes = model.codes(images)
        return ops.convert_to_numpy(model.quantizer.lookup(codes)), True
    return model.encode(images), False


def measure_gap(model: LatentModel, images: np.ndarray) -> StraightThroughGapResult:
    """The straight-through gap: what rounding the latents costs in reconstruction.

    Friede et al. compare ELBOs; their divergence is the same on both sides. For
    quantizers without categories, the soft latents are those before rounding.

    Args:
        model: A model with a quantizer and a decoder.
        images: uint8 or float images.
    """
    batches = [images[i : i + _BATCH] for i in range(0, len(images), _BATCH)]

    def loss(batch: np.ndarray, hard: bool) -> float:
        pixels = _as_float(batch)
        features = model.quantizer_inputs(pixels)
        z = _hard(model, features) if hard else _soft(model, features)
        outputs = model.decoder(z, training=False)
        return float(model.reconstruction(pixels, outputs))

    return straight_through_gap(
        lambda batch: loss(batch, False), lambda batch: loss(batch, True), batches
    )


def _as_float(images: np.ndarray) -> Any:
    if images.dtype == np.uint8:
        images = images.astype("float32") / 255.0
    return ops.convert_to_tensor(images)


def _hard(model: LatentModel, features: Any) -> Any:
    return model.quantizer.lookup(model.quantizer.codes(features))


def _soft(model: LatentModel, features: Any) -> Any:
    quantizer = model.quantizer
    if isinstance(quantizer, (LogitsQuantizer, qlayers.GumbelQuantizer)):
        return quantizer.expected_values(features)
    if isinstance(quantizer, qlayers.FiniteScalarQuantizer):
        return ops.tanh(features)
    return features
