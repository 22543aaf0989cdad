"""Distance of the latents' support from a factorised one."""

from collections.abc import Callable

import keras
import numpy as np
from keras import ops

from qlayers.backend import Tensor, as_float32
from qlayers.functional.random_order import random_order


def hausdorff_factorized_support(
    z: Tensor,
    num_pairs: int = 25,
    seed: "int | keras.random.SeedGenerator | None" = None,
    pairs: Tensor | None = None,
) -> Tensor:
    """Sum over pairs of latents of the Hausdorff distance to their product set.

    For latents `(i, j)` the factorised support is the set of all combinations
    `(z_ai, z_bj)` of two samples `a, b`; the distance is

        max_{a, b} min_k (z_ai - z_ki)^2 + (z_bj - z_kj)^2.

    Gradients reach all three samples `a, b, k` that decide it. They are found without
    recording gradients, so that memory does not grow with the number of pairs.

    Args:
        z: Latents of shape `(samples, n)`; the means of a variational autoencoder.
        num_pairs: Number of random pairs of latents (all, if there are no more).
        seed: Integer or `keras.random.SeedGenerator`.
        pairs: int tensor `(num_pairs, 2)` of pairs to use instead of random ones.

    Returns:
        Scalar.

    Example:

    ```python
    loss += 100.0 * hausdorff_factorized_support(z, seed=generator)
    ```

    Reference:
        Roth et al. 2023, Disentanglement of Correlated Factors via Hausdorff
        Factorized Support, section 4.
    """
    z = as_float32(ops.convert_to_tensor(z))
    n = z.shape[-1]
    if n < 2:
        raise ValueError(
            "`hausdorff_factorized_support` compares pairs of latents and needs at "
            f"least two. Received latents of shape {tuple(z.shape)}."
        )
    if pairs is None:
        pairs = _random_pairs(n, num_pairs, seed)
    pairs = ops.cast(pairs, "int32")
    rows = ops.map(_search(ops.stop_gradient(z)), pairs)
    first, second, nearest = rows[:, 0], rows[:, 1], rows[:, 2]
    flat = ops.reshape(z, (-1,))

    def value(row: Tensor, latent: Tensor) -> Tensor:
        return ops.take(flat, row * n + latent, axis=0)

    i, j = pairs[:, 0], pairs[:, 1]
    return ops.sum(
        ops.square(value(first, i) - value(nearest, i))
        + ops.square(value(second, j) - value(nearest, j))
    )


def _random_pairs(
    n: int, num_pairs: int, seed: "int | keras.random.SeedGenerator | None"
) -> Tensor:
    every_pair = np.stack(np.triu_indices(n, 1), axis=1).astype("int32")
    if num_pairs >= len(every_pair):
        return ops.convert_to_tensor(every_pair)
    chosen = random_order(len(every_pair), seed)[:num_pairs]
    return ops.take(every_pair, chosen, axis=0)


def _search(z: Tensor) -> Callable[[Tensor], Tensor]:
    """A function from a pair of latents to the three samples that decide it."""
    num_samples = ops.shape(z)[0]
    by_latent = ops.transpose(z)
    squares = ops.square(ops.expand_dims(by_latent, 2) - ops.expand_dims(by_latent, 1))

    def deciding_rows(pair: Tensor) -> Tensor:
        # Entry (a, b, k), the smallest over k, then the place of the largest.
        distances = ops.expand_dims(squares[pair[0]], 1) + squares[pair[1]]
        nearest = ops.cast(ops.argmin(distances, axis=-1), "int32")
        farthest = ops.argmax(ops.reshape(ops.min(distances, axis=-1), (-1,)))
        farthest = ops.cast(farthest, "int32")
        rows = [farthest // num_samples, farthest % num_samples]
        rows.append(ops.take(ops.reshape(nearest, (-1,)), farthest, axis=0))
        return ops.stack(rows)

    return deciding_rows
