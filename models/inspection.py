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
    ranges: np.ndarray | None = None,
) -> np.ndarray:
    """Decodes an image's latents with one of them moved through its range.

    A quantized latent takes the values of its codebook, in increasing order (at most
    `num_steps` of them, evenly chosen). A continuous one takes `num_steps` values from
    the smallest to the largest of the data, where `ranges` tells them; otherwise
    quantiles of its prior, or values from -2 to 2 if it has none.

    Args:
        model: A trained model.
        image: One image.
        latents: Which latents to move; by default all.
        num_steps: Largest number of values.
        ranges: Smallest and largest value of each latent, see `latent_ranges`.

    Returns:
        Images in [0, 1] of shape `(latents, steps, height, width, channels)`; a latent
        with fewer values than `num_steps` repeats its last one.

    Example:

    ```python
    ranges = latent_ranges(model, images)
    rows = traverse(model, images[0], num_steps=10, ranges=ranges)
    ```
    """
    base = model.encode(np.asarray(image)[None])[0]
    chosen = range(num_slots(model, base)) if latents is None else latents
    rows = [_row(model, base, j, num_steps, ranges) for j in chosen]
    flat = np.concatenate(rows)
    images = model.decode(flat)
    return images.reshape(len(rows), num_steps, *images.shape[1:])


def latent_ranges(model: LatentModel, images: Any) -> np.ndarray:
    """Smallest and largest value of each latent over images.

    Args:
        model: A trained model, whose latents are one number each.
        images: Images that stand for the data.

    Returns:
        Shape `(2, latents)`.

    Example:

    ```python
    low, high = latent_ranges(model, images)
    ```
    """
    z = model.encode(images)
    if num_slots(model, z[0]) != z.shape[1]:
        raise ValueError(
            f"The latents of {model.name} are vectors, which have no range: received "
            f"{num_slots(model, z[0])} latents of {z.shape[1]} numbers in all."
        )
    return np.stack([z.min(axis=0), z.max(axis=0)])


def intervene(
    model: LatentModel,
    images: Any,
    ranges: np.ndarray,
    *,
    latents: Sequence[int] | None = None,
    num_steps: int = 8,
) -> np.ndarray:
    """Decodes images with one latent at a time set to values from its empirical range.

    The values go linearly from the smallest to the largest that the latent has in the
    data, whether it is quantized or not; the other latents stay as they are.

    Args:
        model: A trained model.
        images: Images to start from.
        ranges: Smallest and largest value of each latent, see `latent_ranges`.
        latents: Which latents to set; by default all. Tripod's figures leave out the
            inactive ones (`infomec(...).active`).
        num_steps: Number of values.

    Returns:
        Images in [0, 1] of shape `(images, latents, steps, height, width, channels)`.

    Example:

    ```python
    ranges = latent_ranges(model, images)
    rows = intervene(model, images[:5], ranges, latents=[3])[:, 0]  # figure 4 of QLAE
    ```

    Reference:
        Hsu et al. 2023, figure 4; Hsu et al. 2024, Tripod, appendix C.
    """
    z = model.encode(images)
    chosen = list(range(z.shape[1])) if latents is None else list(latents)
    rows = np.broadcast_to(
        z[:, None, None], (len(z), len(chosen), num_steps, z.shape[1])
    ).copy()
    for place, j in enumerate(chosen):
        rows[:, place, :, j] = np.linspace(ranges[0, j], ranges[1, j], num_steps)
    decoded = model.decode(rows.reshape(-1, z.shape[1]))
    return decoded.reshape(*rows.shape[:3], *decoded.shape[1:])


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


def _row(
    model: LatentModel,
    base: np.ndarray,
    j: int,
    num_steps: int,
    ranges: np.ndarray | None,
) -> np.ndarray:
    size = len(base) // num_slots(model, base)
    values = traversal_values(model, j, num_steps, ranges)
    row = np.repeat(base[None], num_steps, axis=0)
    row[:, j * size : (j + 1) * size] = values.reshape(num_steps, size)
    return row


def traversal_values(
    model: LatentModel, j: int, num_steps: int, ranges: np.ndarray | None = None
) -> np.ndarray:
    """The values that `traverse` gives to a latent.

    Args:
        model: A trained model.
        j: Number of the latent.
        num_steps: Number of values; a codebook with fewer repeats its last one.
        ranges: Smallest and largest value of each latent, for continuous ones.

    Returns:
        Shape `(num_steps,)`, or `(num_steps, code_dim)` if a code is a vector.

    Example:

    ```python
    values = traversal_values(model, 0, num_steps=10)
    ```
    """
    continuous = model.quantizer is None or not model.quantizer.is_discrete
    if continuous and ranges is not None:
        return np.linspace(ranges[0, j], ranges[1, j], num_steps, dtype="float32")
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
