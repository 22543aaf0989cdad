"""What the methods share: from an assembly to a model with its optimizers."""

from collections.abc import Callable
from typing import Any

import keras

import qlayers
from models.assembly import Assembly
from models.factor_model import FactorModel
from models.latent_model import LatentModel
from models.networks.choice import Networks
from models.optimizers import adam_maker
from models.reconstruction import Reconstruction, ReconstructionKind, Reduction
from models.supervision import Supervision
from qlayers.schedules import Schedulable, is_scheduled

SHAPES3D_SIZE = 480_000


def model_from(
    parts: Assembly,
    name: str,
    *,
    reconstruction: ReconstructionKind | None = "bce",
    reduction: Reduction = "mean",
    supervised_loss: Supervision | None = None,
    l1_weight: float = 0.0,
    **optimizer: Any,
) -> LatentModel:
    """A model that trains `parts` by one Adam optimizer.

    Args:
        parts: Encoder, decoder and what is between them.
        name: Name of the method.
        reconstruction: `"bce"`, `"mse"` or None; see `Reconstruction`.
        reduction: `"mean"` or `"sum"` over pixels.
        supervised_loss: A loss on labelled images.
        l1_weight: Weight of the l1 norm of everything but biases and codebooks, one of
            the negative results of Hsu et al. 2023, appendix B.4.
        **optimizer: `learning_rate`, `weight_decay`, `beta_1`, `beta_2`, `clip_value`;
            see `models.optimizers.make_adam`.
    """
    loss = None
    if reconstruction is not None:
        loss = Reconstruction(reconstruction, reduction)
    return LatentModel(
        parts,
        reconstruction=loss,
        make_optimizer=adam_maker(**optimizer),
        supervision=supervised_loss,
        l1_weight=l1_weight,
        name=name,
    )


def with_discriminator(
    make_parts: Callable[..., Assembly], tc_weight: Schedulable, **options: Any
) -> Assembly:
    """An autoencoder and a total-correlation discriminator with its own optimizer.

    Args:
        make_parts: `assemble` of everything but the regularizers.
        tc_weight: Weight of the total correlation.
        **options: Arguments of `qlayers.TotalCorrelationDiscriminator`.
    """
    discriminator = qlayers.TotalCorrelationDiscriminator(
        tc_weight, trains_itself=False, name="discriminator", **options
    )
    return make_parts(regularizers=[discriminator])


def factor_model_from(
    parts: Assembly,
    name: str,
    *,
    two_batches: bool,
    discriminator_optimizer: dict[str, Any],
    reconstruction: ReconstructionKind = "bce",
    reduction: Reduction = "sum",
    supervised_loss: Supervision | None = None,
    **optimizer: Any,
) -> FactorModel:
    """A model that trains `parts` and their discriminator by an optimizer each.

    Args:
        parts: Parts with a total-correlation discriminator.
        name: Name of the method.
        two_batches: As in `FactorModel`.
        discriminator_optimizer: Arguments of `make_adam` for the discriminator.
        reconstruction: `"bce"` or `"mse"`.
        reduction: `"mean"` or `"sum"` over pixels.
        supervised_loss: A loss on labelled images.
        **optimizer: Arguments of `make_adam` for the autoencoder.
    """
    return FactorModel(
        parts,
        reconstruction=Reconstruction(reconstruction, reduction),
        make_optimizer=adam_maker(**optimizer),
        make_discriminator_optimizer=adam_maker(
            name="discriminator_adam", **discriminator_optimizer
        ),
        two_batches=two_batches,
        supervision=supervised_loss,
        name=name,
    )


def weight_for_reduction(
    weight: Schedulable, networks: Networks, reduction: Reduction
) -> Schedulable:
    """A weight meant beside a *sum* over pixels, for the reduction that is used."""
    if reduction == "sum":
        return weight
    if is_scheduled(weight):
        raise ValueError(
            "A scheduled weight cannot be rescaled to a mean over pixels: use "
            "`reduction='sum'`, or divide the schedule by the number of pixels."
        )
    height, width, channels = networks.image_shape
    return weight / (height * width * channels)


def exponential_temperature(rate: float = 1e-5) -> Any:
    """The schedule `exp(-rate * step)` of FactorQVAE's temperature."""
    decay = 1.0 / rate
    return keras.optimizers.schedules.ExponentialDecay(
        1.0, decay_steps=decay, decay_rate=0.36787944117144233
    )
