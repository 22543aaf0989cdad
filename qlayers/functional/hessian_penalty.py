"""Penalties on the mixed second derivatives of a function, by finite differences."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops

from qlayers.backend import Tensor, as_float32
from qlayers.checks import check_choice, check_count, check_number
from qlayers.functional.standardize import standard_deviation

NORMALIZED_AGGREGATES = ("joint", "per_output")
PLAIN_AGGREGATES = ("max", "mean")
# Differences of function values below this many units of rounding are noise.
_NOISE_UNITS = 4.0


def hessian_penalty(
    fn: Callable[[Tensor], Any],
    z: Tensor,
    scale: Tensor | None = None,
    num_perturbations: int = 2,
    epsilon: float = 0.1,
    normalized: bool = True,
    aggregate: str | None = None,
    seed: "int | keras.random.SeedGenerator | None" = None,
) -> Tensor:
    r"""How much the effect of one latent depends on the others, mean over samples.

    For each output `k` of `fn`, with the Hessian `H_k` at a sample,

        Var[v' H_k v] = 2 sum_{i != j} (H_k[i, j] scale_i scale_j)^2

    if the entries of `v` are `±scale_j` at random, and the same sum over all `i, j` if
    they are normal with the standard deviations `scale_j`. The variances are estimated
    from `num_perturbations` second differences with the step `epsilon`. Not normalised,
    the value is the first variance (divisor `num_perturbations - 1`); normalised, it is
    the ratio of the two, between 0 (additive) and 1 in the limit of many perturbations,
    which rescaling a latent or the outputs does not change. With two, the ratio is
    noisy and on average too large.

    All evaluations go to `fn` in one call. The value at `z` itself is the same for all
    perturbations, drops out of every variance and is not computed. Where outputs vary
    by no more than rounding (a linear `fn`), the ratio is 0, not noise over noise.

    Args:
        fn: Maps `(rows, n)` to a tensor `(rows, ...)`, or a structure of several.
        z: Latents of shape `(samples, n)`.
        scale: Size of the perturbations of each latent, `(n,)`. Default: the standard
            deviations of `z` if normalised, else 1.
        num_perturbations: Number of random directions of each kind, at least 2.
        epsilon: Step of the differences, in units of `scale`.
        normalized: Whether to divide by the variance over normal perturbations.
        aggregate: Normalised: `"joint"` (default) sums numerators and denominators
            over all outputs before the division; `"per_output"` divides for each
            tensor that `fn` returns and adds up the ratios. Not normalised: `"max"`
            (default) or `"mean"` over the entries of each tensor, then the sum over
            tensors.
        seed: Integer or `keras.random.SeedGenerator`.

    Returns:
        Scalar.

    Example:

    ```python
    decoder_penalty = hessian_penalty(decoder, z, standard_deviation(continuous))
    ```

    Reference:
        Hsu et al. 2024, Tripod, equations 8, 9, 16, 17 and Algorithm 1 (`"per_output"`
        is its public code); Peebles et al. 2020, The Hessian Penalty, section 3.
    """
    check_count("num_perturbations", num_perturbations, minimum=2)
    check_number("epsilon", epsilon, exclusive=True)
    aggregate = check_aggregate(aggregate, normalized)
    z = as_float32(ops.convert_to_tensor(z))
    if scale is None and normalized:
        scale = standard_deviation(z)
    directions = draw_directions(
        ops.shape(z)[0], z.shape[-1], num_perturbations, normalized, seed
    )
    if scale is not None:
        directions = directions * as_float32(scale)
    return ops.mean(
        penalty_of_samples(fn, z, directions, epsilon, normalized, aggregate)
    )


def check_aggregate(aggregate: str | None, normalized: bool) -> str:
    """Returns the aggregate, by default the first of those that apply."""
    choices = NORMALIZED_AGGREGATES if normalized else PLAIN_AGGREGATES
    if aggregate is None:
        return choices[0]
    return check_choice("aggregate", aggregate, choices)


def draw_directions(
    num_samples: Tensor | int,
    n: int,
    num_perturbations: int,
    normalized: bool,
    seed: "int | keras.random.SeedGenerator | None" = None,
) -> Tensor:
    """Random directions of unit scale, `(directions, num_samples, n)`.

    First those with entries ±1; if `normalized`, then as many with normal entries.
    """
    # The sample axis is drawn first so that one part of a batch gets what it would get
    # in the whole batch.
    shape = (num_samples, num_perturbations, n)
    signs = ops.sign(keras.random.uniform(shape, seed=seed) - 0.5)
    drawn = ops.where(signs == 0, ops.ones_like(signs), signs)
    if normalized:
        # An integer gives the same bits again; these draws must be independent.
        seed = seed + 1 if isinstance(seed, int) else seed
        drawn = ops.concatenate([drawn, keras.random.normal(shape, seed=seed)], axis=1)
    return ops.transpose(drawn, (1, 0, 2))


def penalty_of_samples(
    fn: Callable[[Tensor], Any],
    z: Tensor,
    directions: Tensor,
    epsilon: float,
    normalized: bool,
    aggregate: str,
) -> Tensor:
    """The penalty of every sample, `(samples,)`, for given scaled directions."""
    pair_sums, rounding = _symmetric_sums(fn, z, epsilon * directions)
    if not normalized:
        reduce = ops.max if aggregate == "max" else ops.mean
        per_output = [reduce(_variance(sums), axis=-1) for sums in pair_sums]
        return sum(per_output) / epsilon**4
    if aggregate == "joint":
        return _ratio(pair_sums, rounding)
    ratios = [_ratio([s], [r]) for s, r in zip(pair_sums, rounding, strict=True)]
    return sum(ratios)


def _symmetric_sums(
    fn: Callable[[Tensor], Any], z: Tensor, steps: Tensor
) -> tuple[list[Tensor], list[float]]:
    """`fn(z + step) + fn(z - step)` of every output, and its relative rounding error.

    Sums have the shape `(steps, samples, entries)`.
    """
    num_steps, n = steps.shape[0], z.shape[-1]
    points = ops.concatenate([z + steps, z - steps], axis=0)
    outputs = keras.tree.flatten(fn(ops.reshape(points, (-1, n))))
    sums, rounding = [], []
    for output in outputs:
        num_entries = int(np.prod(output.shape[1:]))
        values = ops.reshape(as_float32(output), (2 * num_steps, -1, num_entries))
        sums.append(values[:num_steps] + values[num_steps:])
        rounding.append(_rounding_of(output))
    return sums, rounding


def _rounding_of(output: Tensor) -> float:
    dtype = keras.backend.standardize_dtype(output.dtype)
    return {"float16": 2.0**-11, "bfloat16": 2.0**-8}.get(dtype, 2.0**-24)


def _variance(sums: Tensor) -> Tensor:
    """Unbiased variance over the first axis."""
    num_draws = sums.shape[0]
    if num_draws == 2:
        return 0.5 * ops.square(sums[0] - sums[1])
    return ops.var(sums, axis=0) * (num_draws / (num_draws - 1))


def _ratio(pair_sums: list[Tensor], rounding: list[float]) -> Tensor:
    """Variance over ± directions by that over normal ones, for every sample."""
    num_draws = pair_sums[0].shape[0] // 2
    magnitudes = [
        ops.stop_gradient(ops.max(ops.abs(sums), axis=(0, 2))) for sums in pair_sums
    ]
    largest = magnitudes[0]
    for magnitude in magnitudes[1:]:
        largest = ops.maximum(largest, magnitude)
    # The ratio does not depend on the unit of the outputs; this one lets no square
    # overflow or vanish.
    unit = ops.where(largest > 0, largest, ops.ones_like(largest))
    numerator = denominator = noise = 0.0
    for sums, magnitude, error in zip(pair_sums, magnitudes, rounding, strict=True):
        sums = sums / ops.expand_dims(unit, -1)
        numerator += ops.sum(_variance(sums[:num_draws]), axis=-1)
        denominator += ops.sum(_variance(sums[num_draws:]), axis=-1)
        smallest_signal = 2.0 * _NOISE_UNITS * error * magnitude / unit
        noise += sums.shape[-1] * ops.square(smallest_signal)
    # The square of the last term, which a gradient divides by, must not vanish.
    return numerator / (denominator + noise + 1e-18)
