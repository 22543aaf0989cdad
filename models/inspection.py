"""Pictures of what the latents mean."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from keras import ops

from models.latent_model import LatentModel


def traverse(
    model: LatentModel,
    image: Any,
    *,
    latents: Sequence[int] | None = None,
    num_steps: int = 8,
) -> np.ndarray:
    """Decodes an image's latents with one of them moved through its range.

    A quantized latent takes the values of its codebook, in increasing order (at most
    `num_steps` of them, evenly chosen); a continuous one `num_steps` values from -2
    to 2.

    Args:
        model: A trained model.
        image: One image.
        latents: Which latents to move; by default all.
        num_steps: Largest number of values.

    Returns:
        Images in [0, 1] of shape `(latents, steps, height, width, channels)`; a latent
        with fewer values than `num_steps` repeats its last one.

    Example:

    ```python
    rows = traverse(model, images[0], num_steps=10)
    ```
    """
    base = model.encode(np.asarray(image)[None])[0]
    chosen = range(num_slots(model, base)) if latents is None else latents
    rows = [_row(model, base, j, num_steps) for j in chosen]
    flat = np.concatenate(rows)
    images = model.decode(flat)
    return images.reshape(len(rows), num_steps, *images.shape[1:])


def swap_latents(
    model: LatentModel, first: Any, second: Any, latents: Sequence[int] | None = None
) -> np.ndarray:
    """Decodes one image with one latent at a time taken from another image.

    Args:
        model: A trained model.
        first: The image that is changed.
        second: The image that latents are taken from.
        latents: Which latents to swap; by default all.

    Returns:
        Images in [0, 1] of shape `(latents, height, width, channels)`.

    Example:

    ```python
    row = swap_latents(model, images[0], images[1])
    ```
    """
    ours, theirs = model.encode(np.stack([np.asarray(first), np.asarray(second)]))
    chosen = range(num_slots(model, ours)) if latents is None else latents
    size = len(ours) // num_slots(model, ours)
    mixed = np.repeat(ours[None], len(list(chosen)), axis=0)
    for row, j in zip(mixed, chosen, strict=True):
        row[j * size : (j + 1) * size] = theirs[j * size : (j + 1) * size]
    return model.decode(mixed)


def num_slots(model: LatentModel, z: np.ndarray) -> int:
    """Number of latents behind a vector; a latent may be more than one number."""
    return len(z) if model.quantizer is None else model.quantizer.num_latents


def _row(model: LatentModel, base: np.ndarray, j: int, num_steps: int) -> np.ndarray:
    size = len(base) // num_slots(model, base)
    values = traversal_values(model, j, num_steps)
    row = np.repeat(base[None], num_steps, axis=0)
    row[:, j * size : (j + 1) * size] = values.reshape(num_steps, size)
    return row


def traversal_values(model: LatentModel, j: int, num_steps: int) -> np.ndarray:
    """The values that `traverse` gives to a latent.

    Args:
        model: A trained model.
        j: Number of the latent.
        num_steps: Number of values; a codebook with fewer repeats its last one.

    Returns:
        Shape `(num_steps,)`, or `(num_steps, code_dim)` if a code is a vector.

    Example:

    ```python
    values = traversal_values(model, 0, num_steps=10)
    ```
    """
    if model.quantizer is None:
        return np.linspace(-2.0, 2.0, num_steps, dtype="float32")
    values = ops.convert_to_numpy(model.quantizer.value_table())[j]
    if values.ndim == 1:
        values = np.sort(values[~np.isnan(values)])
    last = len(values) - 1
    steps = np.minimum(np.arange(num_steps), last)
    if len(values) > num_steps:
        steps = np.rint(np.linspace(0, last, num_steps)).astype(int)
    return values[steps]
