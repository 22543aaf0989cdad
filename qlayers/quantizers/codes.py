"""From latents to integer codes, as a layer."""

from typing import Any

import keras

from qlayers.quantizers.quantizer_view import QuantizerView


@keras.saving.register_keras_serializable(package="qlayers")
class Codes(QuantizerView):
    """Gives the integer codes of a quantizer's inputs.

    The layer shares the quantizer: a model made with it before training gives the
    right codes after it, and a `.keras` file holds one codebook. The codes are those
    of `quantizer.codes(inputs)`, deterministic also in training.
    `quantizer.codes(h)` with a symbolic `h` makes such a layer.

    `keras.models.clone_model` copies layers one by one: in a clone the quantizer and
    this layer have a codebook each.

    Args:
        quantizer: The quantizer, built or not.
        **kwargs: Keyword arguments of `keras.layers.Layer`.

    Input shape: that of the quantizer. Output shape: `(..., n)`, int32.

    Example:

    ```python
    inputs = keras.Input((64,))
    quantizer = qlayers.VectorQuantizer(num_codes=512, code_dim=4)
    hidden = keras.layers.Dense(12)(inputs)
    autoencoder = keras.Model(inputs, keras.layers.Dense(64)(quantizer(hidden)))
    tokenizer = keras.Model(inputs, qlayers.Codes(quantizer)(hidden))
    ```
    """

    method = "codes"

    def compute_output_spec(self, inputs: Any) -> keras.KerasTensor:
        leading = self.quantizer._shape_with_axis_last(inputs.shape)[:-1]
        shape = (*leading, self.quantizer.num_latents)
        return keras.KerasTensor(shape, dtype="int32")
