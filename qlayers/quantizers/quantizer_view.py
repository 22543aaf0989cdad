"""Base of the layers that show one method of a quantizer."""

from typing import Any

import keras

from qlayers.backend import Tensor
from qlayers.quantizers.base import BaseQuantizer


class QuantizerView(keras.layers.Layer):
    """A layer that shares a quantizer: it reads the codebook and owns nothing.

    In a model that holds the quantizer as well, a `.keras` file keeps one codebook,
    and the reloaded model has one. Nothing is counted, added or drawn here.

    Args:
        quantizer: The quantizer, built or not.
        **kwargs: Keyword arguments of `keras.layers.Layer`.

    Attributes:
        method: Name of the quantizer's method that the layer calls.
    """

    method: str

    def __init__(self, quantizer: BaseQuantizer, **kwargs: Any) -> None:
        # Inputs rounded to half precision would get other codes.
        kwargs.setdefault("autocast", False)
        super().__init__(**kwargs)
        if not isinstance(quantizer, BaseQuantizer):
            raise ValueError(
                f"{type(self).__name__} needs a quantizer of qlayers, such as "
                f"`qlayers.LatentQuantizer()`. Received: {quantizer!r}."
            )
        self.quantizer = quantizer
        self.supports_masking = True

    def build(self, input_shape: Any) -> None:
        if not self.quantizer.built:
            self.quantizer.build(input_shape)

    def call(self, inputs: Tensor) -> Tensor:
        return getattr(self.quantizer, self.method)(inputs)

    @property
    def metrics(self) -> list[keras.metrics.Metric]:
        """None: the quantizer's statistics are those of its own calls."""
        return []

    def get_config(self) -> dict[str, Any]:
        quantizer = keras.saving.serialize_keras_object(self.quantizer)
        return {**super().get_config(), "quantizer": quantizer}

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        quantizer = keras.saving.deserialize_keras_object(
            config["quantizer"], custom_objects=custom_objects
        )
        return cls(**{**config, "quantizer": quantizer})
