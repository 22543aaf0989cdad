"""The networks of a model, chosen by name."""

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import keras

from models.networks.additive import additive_decoder
from models.networks.dalle import dalle_decoder, dalle_encoder
from models.networks.locatello import locatello_decoder, locatello_encoder
from models.networks.mlp import mlp_encoder
from models.networks.residual import residual_decoder, residual_encoder
from models.networks.resnet import balls_decoder, resnet_encoder
from models.networks.spatial_broadcast import spatial_broadcast_decoder
from models.networks.style import style_decoder, style_encoder
from qlayers.checks import check_choice

NetworkName = Literal[
    "style",
    "residual",
    "dalle",
    "locatello",
    "resnet",
    "resnet_additive",
    "locatello_additive",
    "spatial_broadcast",
    "mlp",
]


class Family(NamedTuple):
    """The functions that make an encoder and its decoder, if it has one."""

    encoder: Callable[..., keras.Model]
    decoder: Callable[..., keras.Model] | None


FAMILIES: dict[str, Family] = {
    "style": Family(style_encoder, style_decoder),
    "residual": Family(residual_encoder, residual_decoder),
    "dalle": Family(dalle_encoder, dalle_decoder),
    "locatello": Family(locatello_encoder, locatello_decoder),
    "resnet": Family(resnet_encoder, balls_decoder),
    "resnet_additive": Family(resnet_encoder, additive_decoder),
    "locatello_additive": Family(
        locatello_encoder,
        functools.partial(additive_decoder, decoder=locatello_decoder),
    ),
    "spatial_broadcast": Family(locatello_encoder, spatial_broadcast_decoder),
    "mlp": Family(mlp_encoder, None),
}


@dataclass(frozen=True)
class Networks:
    """Makes the encoder and the decoder of a family for one image shape.

    Attributes:
        family: Name of the family: `"style"` (QLAE), `"residual"` (Tripod), `"dalle"`
            (FactorQVAE), `"locatello"`, `"resnet"` and `"resnet_additive"` (balls),
            `"locatello_additive"` (a small additive decoder), `"spatial_broadcast"`
            (circles) or `"mlp"` (vectors; encodes only).
        image_shape: `(height, width, channels)`, or `(size,)` for `"mlp"`.
        width: Multiplies every number of channels and units.
        encoder_options: Further arguments of the encoder's function.
        decoder_options: Further arguments of the decoder's function.

    Example:

    ```python
    networks = Networks("style", (32, 32, 3), width=0.5)
    encoder, decoder = networks.encoder(12), networks.decoder(12)
    ```
    """

    family: NetworkName
    image_shape: tuple[int, ...]
    width: float = 1.0
    encoder_options: dict[str, Any] = field(default_factory=dict)
    decoder_options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_choice("family", self.family, tuple(FAMILIES))
        object.__setattr__(self, "image_shape", tuple(self.image_shape))
        wanted = 1 if self.family == "mlp" else 3
        if len(self.image_shape) != wanted:
            raise ValueError(
                f"The networks {self.family!r} take inputs with {wanted} axes. "
                f"Received `image_shape` {self.image_shape}."
            )

    def encoder(self, num_outputs: int) -> keras.Model:
        """A new encoder with `num_outputs` outputs."""
        make = FAMILIES[self.family].encoder
        shape = self.image_shape[0] if self.family == "mlp" else self.image_shape
        options = {"width": self.width, **self.encoder_options}
        return make(shape, num_outputs, name="encoder_network", **options)

    def decoder(self, num_latents: int) -> keras.Model:
        """A new decoder of `num_latents` numbers."""
        make = FAMILIES[self.family].decoder
        if make is None:
            raise ValueError(f"The networks {self.family!r} have no decoder.")
        options = {"width": self.width, **self.decoder_options}
        return make(num_latents, self.image_shape, name="decoder", **options)
