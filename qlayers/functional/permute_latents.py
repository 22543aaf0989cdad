"""Samples from the product of the latents' marginals."""

import keras
from keras import ops

from qlayers.backend import Tensor
from qlayers.masks import valid_first


def permute_latents(
    z: Tensor,
    seed: "int | keras.random.SeedGenerator | None" = None,
    weights: Tensor | None = None,
) -> Tensor:
    """Shuffles each latent over the batch, independently of the others.

    Args:
        z: Latents of shape `(samples, n)`, or `(samples, n, group)` for latents that
            are vectors (such as one-hot codes): a vector moves as a whole.
        seed: Integer or `keras.random.SeedGenerator`.
        weights: Weights of the samples, `(samples,)`. Those of weight 0 get and give
            nothing: the others are shuffled among themselves. Default: all alike.

    Returns:
        Tensor of the shape of `z`; every latent holds the values it held before.

    Example:

    ```python
    permute_latents([[1, 10], [2, 20], [3, 30]], seed=0)  # e.g. [[2, 30], ...]
    ```

    Reference:
        Kim and Mnih 2018, Algorithm 1; Baykal et al., section 4 (one-hot vectors).
    """
    z = ops.convert_to_tensor(z)
    if len(z.shape) not in (2, 3):
        raise ValueError(
            "`permute_latents` expects latents of shape (samples, n) or "
            f"(samples, n, group). Received shape {tuple(z.shape)}."
        )
    num_samples, n = ops.shape(z)[0], z.shape[1]
    keys = keras.random.uniform((num_samples, n), dtype="float32", seed=seed)
    if weights is not None:
        # Samples to leave out come last, and after the ranks of all others.
        keys = ops.where(ops.expand_dims(weights, -1) > 0, keys, 2.0)
    order = ops.argsort(keys, axis=0)
    if weights is not None:
        rank = ops.argsort(valid_first(weights))
        order = ops.take(order, rank, axis=0)
    # Cell (row, j) of the batch laid out flat is number row * n + j.
    cells = ops.cast(order, "int32") * n + ops.arange(n, dtype="int32")
    flat = ops.reshape(z, (-1, *z.shape[2:]))
    return ops.take(flat, cells, axis=0)
