"""Any method of a quantizer, as a layer."""

from typing import Any

import keras

from qlayers.quantizers.base import BaseQuantizer
from qlayers.quantizers.codes import Codes
from qlayers.quantizers.lookup import Lookup
from qlayers.quantizers.quantizer_view import QuantizerView
from qlayers.quantizers.symbolic import is_shared


@keras.saving.register_keras_serializable(package="qlayers")
class QuantizerMethod(QuantizerView):
    """Gives what a method of a quantizer gives, such as `assignments`.

    The layer shares the quantizer, as `Codes` and `Lookup` do. The methods
    `assignments`, `logits` and `soft_values` of a quantizer make such a layer when they
    are called on a symbolic tensor.

    Args:
        quantizer: The quantizer, built or not.
        method: Name of the method.
        **kwargs: Keyword arguments of `keras.layers.Layer`.

    Example:

    ```python
    inputs = keras.Input((64,))
    quantizer = qlayers.GumbelQuantizer(num_values=8)
    hidden = keras.layers.Dense(12)(inputs)
    autoencoder = keras.Model(inputs, keras.layers.Dense(64)(quantizer(hidden)))
    posterior = keras.Model(inputs, quantizer.assignments(hidden))
    ```
    """

    def __init__(self, quantizer: BaseQuantizer, method: str, **kwargs: Any) -> None:
        super().__init__(quantizer, **kwargs)
        if not is_shared(quantizer, method):
            raise ValueError(
                f"{type(quantizer).__name__} has no method {method!r} that can be a "
                "layer."
            )
        self.method = method

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "method": self.method}


def layer_of(quantizer: BaseQuantizer, method: str) -> QuantizerView:
    """The layer that stands for a method of a quantizer in a functional graph."""
    named = {"codes": Codes, "lookup": Lookup}
    if method in named:
        return named[method](quantizer)
    return QuantizerMethod(quantizer, method)
