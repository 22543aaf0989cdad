"""Relaxed one-hot samples."""

import numbers

import keras
from keras import ops

from qlayers.backend import Tensor, as_float32

# Smallest uniform draw; log(-log(0)) would be infinite.
_TINY = 1e-30


def gumbel_softmax(
    logits: Tensor,
    temperature: Tensor | float = 1.0,
    noise_scale: Tensor | float = 1.0,
    seed: "int | keras.random.SeedGenerator | None" = None,
) -> Tensor:
    """Samples the relaxed one-hot `softmax((logits + noise_scale * g) / temperature)`.

    `g` is standard Gumbel noise, independent for every entry. With `noise_scale=s`
    this is the Gumbel-softmax distribution of logits `logits / s` and temperature
    `temperature / s`; with `noise_scale=0` it is a plain softmax.

    Args:
        logits: Unnormalised log-probabilities of shape `(..., num_values)`.
        temperature: Positive; low values approach one-hot samples.
        noise_scale: Scale of the Gumbel noise.
        seed: Integer or `keras.random.SeedGenerator`.

    Returns:
        float32 tensor of the shape of `logits` whose last axis sums to 1.

    Example:

    ```python
    weights = gumbel_softmax(logits, temperature=0.5, seed=generator)
    ```

    Reference:
        Jang et al. 2017, eq. 2; Friede et al. 2023, eq. 2 (scaled noise).
    """
    logits = as_float32(ops.convert_to_tensor(logits))
    if not (isinstance(noise_scale, numbers.Real) and noise_scale == 0):
        uniform = keras.random.uniform(
            ops.shape(logits), minval=_TINY, maxval=1.0, dtype="float32", seed=seed
        )
        logits = logits - noise_scale * ops.log(-ops.log(uniform))
    return ops.softmax(logits / temperature, axis=-1)
