"""The tensors between an encoder and a decoder, by name."""

from typing import Literal, TypeAlias

from qlayers.backend import Tensor

Signal: TypeAlias = Literal[
    "latents", "continuous", "assignments", "mean", "scale", "decoder"
]
"""What a quantizer gives and a regularizer reads.

- `latents`: what the decoder reads.
- `continuous`: the latents before quantization, without noise, of the same shape.
- `assignments`: weights of the categories, `(..., n, num_values)`.
- `mean`, `scale`: moments of a Gaussian posterior, of the shape of the latents.
- `decoder`: no tensor, but the layer that decodes the latents.
"""

Signals: TypeAlias = dict[Signal, Tensor]
