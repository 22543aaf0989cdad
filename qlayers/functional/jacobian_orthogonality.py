"""How far the columns of a function's Jacobian are from orthogonal."""

import math
from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from qlayers.backend import Tensor, as_float32
from qlayers.checks import check_count, check_number
from qlayers.functional.standardize import standard_deviation

_TINY = 1e-30


def jacobian_orthogonality(
    fn: Callable[[Tensor], Any],
    z: Tensor,
    scale: Tensor | None = None,
    num_perturbations: int = 1,
    epsilon: float = 0.1,
    normalized: bool = True,
    seed: "int | keras.random.SeedGenerator | None" = None,
) -> Tensor:
    r"""Products of different columns of the Jacobian, mean over samples.

    With `J` the Jacobian of all outputs at a sample and `G = S J' J S`, `S` being the
    diagonal of `scale`, each perturbation cuts the latents into two random halves and
    gives them random signs: `s` has ±scale in one half, `t` in the other, and zeros
    elsewhere. Not normalised, the value is

        n (n - 1) / (h (n - h)) * (Js · Jt)^2,       h = n // 2,

    whose expectation is exactly `sum_{i != j} G[i, j]^2`, the squares of all entries
    off the diagonal. Normalised, it is the squared cosine between `Js` and `Jt`,

        (Js · Jt)^2 / (|Js|^2 |Jt|^2),

    between 0, if all columns are orthogonal, and 1; rescaling the outputs, or all
    latents, does not change it. One latent alone has the value 0.

    The products come from central differences, `Js = (f(z + e s) - f(z - e s)) / 2 e`,
    exact for a linear `fn`, all in one call of `fn`: four rows for each perturbation of
    a sample. Differences need nothing of a backend, and the squared product of two of
    them subtracts no large numbers, which an estimate by the variance of `|Jv|^2` does.

    Args:
        fn: Maps `(rows, n)` to a tensor `(rows, ...)`, or a structure of several.
        z: Latents of shape `(samples, n)`.
        scale: Size of the perturbations of each latent, `(n,)`. Default: the standard
            deviations of `z` if normalised, else 1.
        num_perturbations: Number of random halves for each sample.
        epsilon: Step of the differences, in units of `scale`.
        normalized: Whether the value is a cosine.
        seed: Integer or `keras.random.SeedGenerator`.

    Returns:
        Scalar.

    Example:

    ```python
    value = jacobian_orthogonality(decoder, z)
    ```

    Reference:
        Wei et al. 2021, Orthogonal Jacobian Regularization for Unsupervised
        Disentanglement in Image Generation (the sum off the diagonal);
        random Jacobian-vector products for identifiability: arXiv 2606.21385. The
        estimate by halves is this package's.
    """
    check_count("num_perturbations", num_perturbations)
    check_number("epsilon", epsilon, exclusive=True)
    z = as_float32(ops.convert_to_tensor(z))
    if scale is None and normalized:
        scale = standard_deviation(z)
    halves = draw_halves(ops.shape(z)[0], z.shape[-1], num_perturbations, seed)
    if scale is not None:
        halves = halves * as_float32(scale)
    return ops.mean(orthogonality_of_samples(fn, z, halves, epsilon, normalized))


def draw_halves(
    num_samples: Tensor | int,
    n: int,
    num_perturbations: int,
    seed: "int | keras.random.SeedGenerator | None" = None,
) -> Tensor:
    """Random signs on random halves, `(2 * num_perturbations, num_samples, n)`.

    First one half of each perturbation, then the other halves.
    """
    # The sample axis is drawn first so that one part of a batch gets what it would get
    # in the whole batch.
    shape = (num_samples, 2, num_perturbations, n)
    uniform = keras.random.uniform(shape, dtype="float32", seed=seed)
    uniform = ops.transpose(uniform, (1, 2, 0, 3))
    sign = as_float32(ops.where(uniform[0] < 0.5, -1.0, 1.0))
    rank = ops.argsort(ops.argsort(uniform[1], axis=-1), axis=-1)
    is_first = ops.cast(rank < n // 2, "float32")
    return ops.concatenate([sign * is_first, sign * (1.0 - is_first)], axis=0)


def orthogonality_of_samples(
    fn: Callable[[Tensor], Any],
    z: Tensor,
    halves: Tensor,
    epsilon: float,
    normalized: bool,
) -> Tensor:
    """The value of each perturbation and sample, `(num_perturbations, samples)`.

    Args:
        fn: As in `jacobian_orthogonality`.
        z: Latents of shape `(samples, n)`.
        halves: Scaled perturbations, as `draw_halves` makes them.
        epsilon: Step of the differences.
        normalized: Whether the value is a cosine.
    """
    n, count = halves.shape[-1], halves.shape[0] // 2
    if n < 2:
        return ops.zeros((count, 1), dtype="float32")
    steps = epsilon * ops.stack([halves, -halves])
    points = ops.reshape(ops.add(z, steps), (-1, n))
    product = first = second = 0.0
    for output in keras.tree.flatten(fn(points)):
        size = math.prod(output.shape[1:])
        # The signs of the step and the halves, perturbations, samples, numbers. Unlike
        # that of slices, the gradient of `unstack` fills no tensor with zeros.
        values = ops.reshape(as_float32(output), (4, count, -1, size))
        first_up, second_up, first_down, second_down = ops.unstack(values, 4)
        first_change = (first_up - first_down) / (2.0 * epsilon)
        second_change = (second_up - second_down) / (2.0 * epsilon)
        product = product + ops.sum(first_change * second_change, axis=-1)
        first = first + ops.sum(ops.square(first_change), axis=-1)
        second = second + ops.sum(ops.square(second_change), axis=-1)
    if normalized:
        return ops.square(product) / ops.maximum(first * second, _TINY)
    half = n // 2
    return ops.square(product) * (n * (n - 1) / (half * (n - half)))
