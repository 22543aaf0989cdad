"""From integer codes to latents, as a layer."""

from typing import Any

import keras

from qlayers.quantizers.quantizer_view import QuantizerView


@keras.saving.register_keras_serializable(package="qlayers")
class Lookup(QuantizerView):
    """Gives the values that belong to integer codes of a quantizer.

    The layer shares the quantizer: a model made with it before training gives the
    right values after it, and a `.keras` file holds one codebook. The values are those
    of `quantizer.lookup(codes)`; gradients reach the codebook.
    `quantizer.lookup(codes)` with symbolic codes makes such a layer.

    `keras.models.clone_model` copies layers one by one: in a clone the quantizer and
    this layer have a codebook each.

    Args:
        quantizer: The quantizer, built or not.
        **kwargs: Keyword arguments of `keras.layers.Layer`.

    Input shape: `(..., n)`, integers. Output shape: that of the quantizer's output.

    Example:

    ```python
    quantizer = qlayers.LatentQuantizer(num_values=10)
    codes = keras.Input((12,), dtype="int32")
    z = qlayers.Lookup(quantizer)(codes)
    image_of_codes = keras.Model(codes, keras.layers.Dense(64)(z))
    ```
    """

    method = "lookup"

    def build(self, input_shape: Any) -> None:
        self.quantizer.build_from_codes(input_shape)
