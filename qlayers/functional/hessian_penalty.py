"""Penalties on the mixed second derivatives of a function, by finite differences."""

from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from qlayers.backend import Tensor, as_float32
from qlayers.checks import check_choice, check_count, check_number
from qlayers.functional.standardize import standard_deviation

NORMALIZED_AGGREGATES = ("joint", "per_output")
PLAIN_AGGREGATES = ("max", "mean")
DIRECTIONS = ("random", "coordinates")
# Largest relative rounding error of float32.
_UNIT = 2.0**-24
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
    directions: str = "random",
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
    by no more than rounding (a linear `fn`), the ratio is 0, not noise over noise. The
    rounding of half-precision outputs is taken off both variances.

    With `directions="coordinates"` second derivatives are taken one by one. Every
    sample steps along `m` of its latents by `d_i = ±epsilon scale_i` and gives

        H_k[i, j] d_i d_j = f_k(z + d_i + d_j) - f_k(z + d_i) - f_k(z + d_j) + f_k(z),
        H_k[i, i] d_i^2   = f_k(z + d_i) + f_k(z - d_i) - 2 f_k(z)

    for its pairs and for one or more of the latents, with as many evaluations of `fn`
    as the random directions make or fewer. All latents are drawn equally often, all
    pairs with equal chance, so that the means over the batch are unbiased for the sums
    over all pairs and all latents (up to the differences' error of order `epsilon^2`).
    Normalised, the value is the ratio of these means,

        mean sum_{i != j} (H_k[i, j] s_i s_j)^2 / mean sum_{i, j} (H_k[i, j] s_i s_j)^2,

    always between 0 and 1. It is one ratio for the batch, which weighs samples by their
    curvature, where the random directions average a ratio for each sample. Numerator
    and denominator are unbiased for any batch; their ratio has the bias that a ratio of
    means implies, which falls as one over the batch size. Its gradient has far less
    noise: the mixed derivatives of the numerator are those of the denominator, so that
    their errors partly cancel, and no sample divides by draws of its own. A `fn` with
    kinks (ReLU) has no second derivatives where it is linear: the differences, of
    either kind, then depend on the length of the step, which is `epsilon` along
    coordinates and `epsilon sqrt(n)` along random directions.

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
        directions: `"random"` (the papers') or `"coordinates"`, see above.

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
    check_choice("directions", directions, DIRECTIONS)
    draw = draw_coordinates if directions == "coordinates" else draw_directions
    steps = draw(ops.shape(z)[0], z.shape[-1], num_perturbations, normalized, seed)
    if scale is not None:
        steps = steps * as_float32(scale)
    if directions == "random":
        values = penalty_of_samples(fn, z, steps, epsilon, normalized, aggregate)
        return ops.mean(values)
    num_points = num_evaluations(num_perturbations, normalized)
    return penalty_of_moments(
        coordinate_moments(fn, z, steps, epsilon, normalized, aggregate, num_points)
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
    uniform = keras.random.uniform(shape, dtype="float32", seed=seed)
    signs = ops.sign(uniform - 0.5)
    drawn = ops.where(signs == 0, ops.ones_like(signs), signs)
    if normalized:
        # An integer gives the same bits again; these draws must be independent.
        seed = seed + 1 if isinstance(seed, int) else seed
        normal = keras.random.normal(shape, dtype="float32", seed=seed)
        drawn = ops.concatenate([drawn, normal], axis=1)
    return ops.transpose(drawn, (1, 0, 2))


def num_evaluations(num_perturbations: int, normalized: bool) -> int:
    """How often random directions evaluate the function for each sample."""
    return (4 if normalized else 2) * num_perturbations


def draw_coordinates(
    num_samples: Tensor | int,
    n: int,
    num_perturbations: int,
    normalized: bool,
    seed: "int | keras.random.SeedGenerator | None" = None,
) -> Tensor:
    """Steps `±1` along some latents of each sample, `(steps, num_samples, n)`.

    In every `n` samples in a row each latent is drawn equally often: the samples take
    latents at the same random distances from each other, in a random order of all,
    and start one further each.
    """
    if n < 2:
        raise ValueError(
            '`directions="coordinates"` compares pairs of latents and needs at least '
            f"two. Received latents with n={n}."
        )
    num_points = num_evaluations(num_perturbations, normalized)
    num_steps = _num_steps(n, num_points, normalized)
    # An integer gives the same bits again; these draws must be independent.
    seeds = [seed + i if isinstance(seed, int) else seed for i in range(3)]
    keys = keras.random.uniform((n,), dtype="float32", seed=seeds[0])
    order = ops.cast(ops.argsort(keys), "int32")
    sample = ops.arange(num_samples, dtype="int32")
    rounds = (num_samples + n - 1) // n
    keys = keras.random.uniform((rounds, n), dtype="float32", seed=seeds[1])
    distances = ops.cast(ops.argsort(keys, axis=-1)[:, :num_steps], "int32")
    distances = ops.take(distances, sample // n, axis=0)
    latents = ops.take(order, (ops.expand_dims(sample, 1) + distances) % n)
    shape = (num_samples, num_steps)
    uniform = keras.random.uniform(shape, dtype="float32", seed=seeds[2])
    signs = as_float32(ops.where(uniform < 0.5, -1.0, 1.0))
    steps = ops.one_hot(latents, n, dtype="float32") * ops.expand_dims(signs, -1)
    return ops.transpose(steps, (1, 0, 2))


def _num_steps(n: int, num_points: int, normalized: bool) -> int:
    """Latents of a sample whose centre, steps and pairs are at most `num_points`.

    One more point, if `normalized`, makes a second derivative along a latent.
    """
    num_steps = 2
    free = num_points - (1 if normalized else 0)
    while num_steps < n and 1 + (num_steps + 1) * (num_steps + 2) // 2 <= free:
        num_steps += 1
    return num_steps


def coordinate_moments(
    fn: Callable[[Tensor], Any],
    z: Tensor,
    steps: Tensor,
    epsilon: float,
    normalized: bool,
    aggregate: str,
    num_points: int,
) -> Tensor:
    """Means over samples of numerators and denominators, `(ratios, 2)`.

    They are in the outputs' own unit, so that the means of several parts of a batch can
    be averaged. Not normalised, the denominator is 1.
    """
    num_steps, n = steps.shape[0], z.shape[-1]
    first, second = np.triu_indices(num_steps, 1)
    num_left = num_points - 1 - num_steps - len(first)
    num_opposite = min(num_steps, num_left) if normalized else 0
    steps = epsilon * steps
    pairs = ops.take(steps, first, axis=0) + ops.take(steps, second, axis=0)
    centre = ops.zeros_like(steps[:1])
    moves = ops.concatenate([centre, steps, pairs, -steps[:num_opposite]], axis=0)
    values, rounding = _values(fn, z + moves)
    differences = [_differences(value, num_steps, num_opposite) for value in values]
    mixed, own = zip(*differences, strict=True)
    num_mixed = n * (n - 1) / len(first)
    if not normalized:
        reduce = ops.max if aggregate == "max" else ops.mean
        squares = [sum(ops.square(pair) for pair in m) for m in mixed]
        value = sum(ops.mean(reduce(s, axis=-1)) for s in squares)
        value = value * (2.0 * num_mixed / epsilon**4)
        return ops.reshape(ops.stack([value, ops.ones_like(value)]), (1, 2))
    moments = []
    for m, o, v, error in zip(mixed, own, values, rounding, strict=True):
        off = num_mixed * _mean_square(m)
        diagonal = n / num_opposite * _mean_square(o)
        # A mixed difference has four values, one along a latent has weights 1, 1, 2.
        size = ops.stop_gradient(_mean_square([v[0]]))
        noise = n * _relative_variance(error) * size
        off, every = _without_rounding(
            off, off + diagonal, 4.0 * (n - 1) * noise, (4.0 * (n - 1) + 6.0) * noise
        )
        moments.append(ops.stack([off, every]))
    table = ops.stack(moments)
    if aggregate == "joint":
        table = ops.sum(table, axis=0, keepdims=True)
    return table


def _differences(
    value: Tensor, num_steps: int, num_opposite: int
) -> tuple[list[Tensor], list[Tensor]]:
    """Mixed differences of all pairs of steps, then those along the first steps.

    Args:
        value: Values at the centre, the steps, their pairs and the opposites of the
            first `num_opposite` steps, `(points, samples, entries)`.
        num_steps: Number of steps.
        num_opposite: Number of opposite steps.
    """
    # Point by point: the gradients of slices and of gathered points fill whole tensors
    # with zeros and cost as much as a decoding.
    centre, *points = ops.unstack(value, value.shape[0], axis=0)
    first, second = np.triu_indices(num_steps, 1)
    along, of_pairs = points[:num_steps], points[num_steps : num_steps + len(first)]
    mixed = [
        both - along[i] - along[j] + centre
        for both, i, j in zip(of_pairs, first, second, strict=True)
    ]
    opposite = points[num_steps + len(first) :]
    own = [along[i] + opposite[i] - 2.0 * centre for i in range(num_opposite)]
    return mixed, own


def _mean_square(parts: Sequence[Tensor]) -> Tensor:
    """Sum of squares of tensors `(samples, entries)`, mean over samples."""
    return sum(ops.mean(ops.sum(ops.square(part), axis=-1)) for part in parts)


def penalty_of_moments(moments: Tensor) -> Tensor:
    """Sum of the ratios of `coordinate_moments`; 0 / 0 counts as 0."""
    denominator = moments[:, 1]
    is_zero = denominator <= 0.0
    safe = ops.where(is_zero, ops.ones_like(denominator), denominator)
    return ops.sum(moments[:, 0] / safe)


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
    values, errors = _values(fn, ops.concatenate([z + steps, z - steps], axis=0))
    # Split, not sliced: the gradient of a slice fills a whole tensor with zeros.
    halves = [ops.split(value, 2, axis=0) for value in values]
    return [plus + minus for plus, minus in halves], errors


def _values(
    fn: Callable[[Tensor], Any], points: Tensor
) -> tuple[list[Tensor], list[float]]:
    """Every output at points `(points, samples, n)`, and its rounding.

    Values have the shape `(points, samples, entries)`; the rounding is the largest
    relative error of one.
    """
    num_points, n = points.shape[0], points.shape[-1]
    outputs = keras.tree.flatten(fn(ops.reshape(points, (-1, n))))
    values, rounding = [], []
    for output in outputs:
        num_entries = int(np.prod(output.shape[1:]))
        values.append(ops.reshape(as_float32(output), (num_points, -1, num_entries)))
        rounding.append(_rounding_of(output))
    return values, rounding


def _rounding_of(output: Tensor) -> float:
    dtype = keras.backend.standardize_dtype(output.dtype)
    return {"float16": 2.0**-11, "bfloat16": 2.0**-8}.get(dtype, _UNIT)


def _variance(sums: Tensor) -> Tensor:
    """Unbiased variance over the first axis."""
    num_draws = sums.shape[0]
    if num_draws == 2:
        first, second = ops.unstack(sums, 2, axis=0)
        return 0.5 * ops.square(first - second)
    return ops.var(sums, axis=0) * (num_draws / (num_draws - 1))


def _ratio(pair_sums: list[Tensor], rounding: list[float]) -> Tensor:
    """Variance over ± directions by that over normal ones, for every sample."""
    magnitudes = [
        ops.stop_gradient(ops.max(ops.abs(sums), axis=(0, 2))) for sums in pair_sums
    ]
    largest = magnitudes[0]
    for magnitude in magnitudes[1:]:
        largest = ops.maximum(largest, magnitude)
    # The ratio does not depend on the unit of the outputs; this one lets no square
    # overflow or vanish.
    unit = ops.where(largest > 0, largest, ops.ones_like(largest))
    numerator = denominator = noise = half = 0.0
    for sums, magnitude, error in zip(pair_sums, magnitudes, rounding, strict=True):
        sums = sums / ops.expand_dims(unit, -1)
        of_signs, of_normal = ops.split(sums, 2, axis=0)
        numerator += ops.sum(_variance(of_signs), axis=-1)
        denominator += ops.sum(_variance(of_normal), axis=-1)
        if error > _UNIT:
            # Each of the two values of a sum has half its size.
            of_sums = ops.sum(ops.mean(ops.square(sums), axis=0), axis=-1)
            half += 0.5 * _relative_variance(error) * ops.stop_gradient(of_sums)
        else:
            smallest_signal = 2.0 * _NOISE_UNITS * error * magnitude / unit
            noise += sums.shape[-1] * ops.square(smallest_signal)
    if any(error > _UNIT for error in rounding):
        numerator, denominator = _without_rounding(numerator, denominator, half, half)
    # The square of the last term, which a gradient divides by, must not vanish.
    return numerator / (denominator + noise + 1e-18)


def _relative_variance(error: float) -> float:
    """Mean square of a value's relative error, whose largest is `error`.

    Rounding once, over all leading digits, in half precision. In float32, whose
    rounding is far below every signal, a bound that also holds after many layers.
    """
    return error**2 / 6.0 if error > _UNIT else (_NOISE_UNITS * error) ** 2


def _without_rounding(
    numerator: Tensor, denominator: Tensor, of_numerator: Tensor, of_denominator: Tensor
) -> tuple[Tensor, Tensor]:
    """Both less what rounding adds to them on average.

    Half of it more is taken from the numerator, and the denominator stays four times
    above it: what rounding alone makes gives 0.
    """
    return (
        ops.relu(numerator - 1.5 * of_numerator),
        ops.maximum(denominator - of_denominator, 4.0 * of_denominator),
    )
