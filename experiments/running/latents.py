"""The latents of images, in the form in which a method's paper scores them."""

from collections.abc import Callable
from typing import Any

import numpy as np
from keras import ops

from models import LatentModel
from qlayers.backend import Tensor
from qlayers.metrics import StraightThroughGapResult, straight_through_gap
from qlayers.pixels import to_unit_range

_BATCH = 64
_POSTERIOR_SEED = 1


def latents_of(
    model: LatentModel, images: np.ndarray, scored_as: str = "auto"
) -> tuple[np.ndarray, bool]:
    """Latents of images, and whether they are discrete; the quantizer decides.

    - Ordered values (QLAE, Tripod): the values of the codes.
    - Unordered codes (VQ-VAE, FactorQVAE's): the codes.
    - Real numbers: means. D-VAE's are the expected values of its categories.

    Args:
        model: The model.
        images: uint8 or float images.
        scored_as: `"codes"` gives indices instead, `"samples"` a draw from a Gaussian
            posterior, the same for every call with the same images.
    """
    quantizer = model.quantizer
    if scored_as == "codes":
        return model.codes(images), True
    if scored_as == "samples":
        if not hasattr(quantizer, "moments"):
            raise ValueError(
                f"{model.name} has no Gaussian posterior to draw samples from: use "
                "`scored_as=auto`."
            )
        return _posterior_sample(model, images), False
    if quantizer is None or quantizer.scored_as == "reals":
        return model.encode(images), False
    codes = model.codes(images)
    if quantizer.scored_as == "codes":
        return codes, True
    return ops.convert_to_numpy(quantizer.lookup(codes)), True


def _posterior_sample(model: LatentModel, images: np.ndarray) -> np.ndarray:
    quantizer: Any = model.quantizer
    generator = np.random.default_rng(_POSTERIOR_SEED)
    parts = []
    for start in range(0, len(images), _BATCH):
        batch = ops.convert_to_tensor(to_unit_range(images[start : start + _BATCH]))
        moments = quantizer.moments(model.quantizer_inputs(batch))
        mean, scale = map(ops.convert_to_numpy, moments)
        noise = generator.standard_normal(mean.shape).astype("float32")
        parts.append(mean + scale * noise)
    return np.concatenate(parts)


def is_quantized(model: LatentModel) -> bool:
    """Whether the model's latents have codes."""
    return model.quantizer is not None and model.quantizer.is_discrete


def measure_gap(
    model: LatentModel, images: np.ndarray, gap_loss: str = "elbo"
) -> StraightThroughGapResult:
    """The straight-through gap: what rounding the latents costs.

    Friede et al. compare ELBOs; their divergence is the same on both sides, so that
    the reconstruction is left. For quantizers without categories, the soft latents are
    those before rounding.

    Args:
        model: A model with a quantizer and a decoder.
        images: uint8 or float images.
        gap_loss: `"total"` compares the losses that were trained on, as Friede et al.'s
            code does: the weighted total correlation of a discriminator that reads
            latents is part of them.
    """
    quantizer, decoder, compare = model.quantizer, model.decoder, model.reconstruction
    if quantizer is None or decoder is None or compare is None:
        raise ValueError("The straight-through gap needs a quantizer and a decoder.")
    batches = [images[i : i + _BATCH] for i in range(0, len(images), _BATCH)]

    def hard_values(features: Tensor) -> Tensor:
        return quantizer.lookup(quantizer.codes(features))

    def loss(batch: np.ndarray, values_of: Callable[[Tensor], Tensor]) -> float:
        pixels = ops.convert_to_tensor(to_unit_range(batch))
        z = values_of(model.quantizer_inputs(pixels))
        value = compare(pixels, decoder(z, training=False))
        if gap_loss == "total":
            value = value + _total_correlation(model, z)
        return float(value)

    return straight_through_gap(
        lambda batch: loss(batch, quantizer.soft_values),
        lambda batch: loss(batch, hard_values),
        batches,
    )


def _total_correlation(model: LatentModel, z: Tensor) -> Tensor | float:
    """The weighted estimate that a model's loss holds for these latents."""
    discriminator = model.discriminator
    if discriminator is None or discriminator.one_hot or discriminator.is_off("weight"):
        return 0.0
    ratio = discriminator.log_density_ratio(ops.cast(z, "float32"))
    return discriminator.value_of("weight") * ops.mean(ratio)
