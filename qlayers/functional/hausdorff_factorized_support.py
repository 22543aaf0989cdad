"""Distance of the latents' support from a factorised one."""

from collections.abc import Callable

import keras
import numpy as np
from keras import ops

from qlayers.backend import Tensor, as_float32, first_argmin
from qlayers.functional.random_order import random_order

# Samples of each latent in a cell of the search. A usual batch is one cell.
_GROUP = 64


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
    recording gradients, by branch and bound: sorted by each coordinate, combinations
    fall into cells of 64 x 64, none of which lies farther from the samples than its
    centre does plus half its diagonal. Cells are searched from the largest bound down
    until no bound exceeds the distance found. Memory is `512 s + s^2 / 64` numbers for
    `s` samples, whatever the number of pairs.

    Args:
        z: Latents of shape `(samples, n)`; the means of a variational autoencoder.
        num_pairs: Number of random pairs of latents (all, if there are no more).
        seed: Integer or `keras.random.SeedGenerator`.
        pairs: Int tensor `(num_pairs, 2)` of pairs to use instead of random ones.

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
    by_latent = ops.transpose(z)
    groups = _groups(by_latent)

    def deciding_rows(pair: Tensor) -> Tensor:
        u, v = by_latent[pair[0]], by_latent[pair[1]]
        of_u, of_v = groups[pair[0]], groups[pair[1]]
        bounds = _bounds_of_cells(u, v, of_u, of_v)
        num_columns = ops.shape(of_v)[0]

        def search_cell(
            bounds: Tensor, farthest: Tensor, rows: Tensor
        ) -> tuple[Tensor, Tensor, Tensor]:
            cell = first_argmin(-bounds)
            first, second = of_u[cell // num_columns], of_v[cell % num_columns]
            distance, found = _farthest_of_cell(u, v, first, second)
            is_farther = distance > farthest
            bounds = ops.where(ops.arange(ops.size(bounds)) == cell, -1.0, bounds)
            return (
                bounds,
                ops.where(is_farther, distance, farthest),
                ops.where(is_farther, found, rows),
            )

        # Samples that are not finite have no distance: they end the search, and the
        # value made of them is not finite either.
        bad = [ops.logical_not(ops.isfinite(x)) for x in (u, v)]
        is_bad = ops.any(ops.stack(bad))
        at = [first_argmin(ops.where(x, 0.0, 1.0)) for x in bad]
        farthest = as_float32(ops.where(is_bad, np.inf, -0.5))
        return ops.while_loop(
            lambda bounds, farthest, rows: ops.max(bounds) > farthest,
            search_cell,
            (bounds, farthest, ops.stack([*at, at[0]])),
        )[2]

    return deciding_rows


def _groups(by_latent: Tensor) -> Tensor:
    """Samples in the order of each latent, `(n, groups, 64)`; the last one repeats."""
    order = ops.cast(ops.argsort(by_latent, axis=-1), "int32")
    num_samples = ops.shape(by_latent)[1]
    num_groups = (num_samples + _GROUP - 1) // _GROUP
    places = ops.minimum(ops.arange(num_groups * _GROUP), num_samples - 1)
    taken = ops.take(order, places, axis=1)
    return ops.reshape(taken, (by_latent.shape[0], num_groups, _GROUP))


def _bounds_of_cells(u: Tensor, v: Tensor, of_u: Tensor, of_v: Tensor) -> Tensor:
    """No combination of two groups has a larger squared distance; flat."""
    centres, halves = [], []
    for values, group in ((u, of_u), (v, of_v)):
        low, high = ops.take(values, group[:, 0]), ops.take(values, group[:, -1])
        centres.append(0.5 * (low + high))
        halves.append(0.5 * (high - low))
    squares = ops.square(ops.expand_dims(centres[1], 1) - v)

    def of_line(centre_and_half: Tensor) -> Tensor:
        centre, half = centre_and_half[0], centre_and_half[1]
        nearest = ops.min(squares + ops.square(centre - u), axis=-1)
        reach = ops.sqrt(ops.square(half) + ops.square(halves[1]))
        return ops.sqrt(nearest) + reach

    bounds = ops.map(of_line, ops.stack([centres[0], halves[0]], axis=1))
    # A bound that rounding made too small would hide a cell.
    return ops.square(ops.reshape(bounds, (-1,)) * 1.00001)


def _farthest_of_cell(
    u: Tensor, v: Tensor, first: Tensor, second: Tensor
) -> tuple[Tensor, Tensor]:
    """The largest distance of a cell and the three samples that decide it."""
    squares = [
        ops.square(ops.expand_dims(ops.take(x, rows), 1) - x)
        for x, rows in ((u, first), (v, second))
    ]
    # Entries (a, b, k) of some samples a at a time, the smallest over k; then the place
    # of the largest. The map also keeps XLA from merging the two searches.
    some = ops.reshape(squares[0], (_GROUP // 8, 8, -1))
    nearest = ops.map(
        lambda lines: ops.min(ops.expand_dims(lines, 1) + squares[1], axis=-1), some
    )
    place = first_argmin(ops.reshape(-nearest, (-1,)))
    a, b = place // _GROUP, place % _GROUP
    distances = squares[0][a] + squares[1][b]
    return ops.min(distances), ops.stack([first[a], second[b], first_argmin(distances)])
