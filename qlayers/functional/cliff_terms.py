"""The three terms of the Cliff criterion."""

import math
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from qlayers.backend import Tensor, as_float32
from qlayers.checks import check_choice
from qlayers.functional.random_order import random_order
from qlayers.functional.standardize import standardize
from qlayers.masks import log_weights, total_weight, valid_first, weighted_mean

# Densities below this count as 0 in entropies.
_TINY = 1e-30
# The uniform distribution of mean 0 and variance 1 ends here.
_HALF_WIDTH = math.sqrt(3.0)
TERMS = ("univariate", "bivariate", "uniform")


def cliff_terms(
    z: Tensor,
    bandwidth: float | Tensor = 0.1,
    num_grid: int = 100,
    grid_limit: float = 5.0,
    num_conditions: int = 20,
    seed: "int | keras.random.SeedGenerator | None" = None,
    terms: Sequence[str] = TERMS,
    conditions: Tensor | None = None,
    uniform_points: Tensor | None = None,
    weights: Tensor | None = None,
    uniform_dimensions: int = 1,
) -> dict[str, Tensor]:
    r"""Encourages steep, axis-aligned steps in the density of latents.

    The latents are standardised over the batch and their densities `p` estimated by
    Gaussian kernels of one bandwidth. Then

        univariate = sum_i H(s_i),            s_i  = |dp(z_i)/dz_i| / c
        bivariate  = sum_{i != j} JSD_m[s_ij(. | z_j = zeta_m)],
                                              s_ij = |dp(z_i | z_j)/dz_i| / c
        uniform    = sum_i KL(U(-sqrt 3, sqrt 3) || p(z_i))
                   = sum_i (-log(2 sqrt 3) - E_U log p(z_i))

    where `H` is the differential entropy and JSD the generalised Jensen-Shannon
    divergence over values `zeta_m` of the batch. Integrals are sums over `num_grid`
    even points, both ends included, times `2 * grid_limit / num_grid`. The paper
    prints the constant of `uniform` as -2 sqrt(3); a divergence needs the logarithm.
    The factor `1 / p(z_j)` of the conditional density cancels when `s_ij` is
    normalised and is left out.

    With `uniform_dimensions=2` the last term is that of appendix F.5, of pairs of
    latents and a uniform distribution on a square,

        uniform    = sum_{i < j} KL(U(-sqrt 3, sqrt 3)^2 || p(z_i, z_j)),

    which also asks for a factorized support.

    All pairs of `bivariate` are one matrix product, of the kernels' slopes at the grid
    points, `(n * num_grid, samples)`, and their heights at the conditioning values,
    `(samples, n * num_conditions)`.

    Args:
        z: Latents of shape `(samples, n)`.
        bandwidth: Standard deviation of the kernels, in units of the latents' own; a
            number, or a scalar tensor if it changes during training.
        num_grid: Number of points of the integrals, and of the draws that estimate
            the expectation in `uniform`.
        grid_limit: Integrals run from `-grid_limit` to `grid_limit`.
        num_conditions: Number of conditioning values (at most the batch size).
        seed: Integer or `keras.random.SeedGenerator`.
        terms: The terms to compute.
        conditions: Indices of the conditioning samples. Default: random ones.
        uniform_points: Points that estimate the expectation in `uniform`, of shape
            `(num_points,)`, or `(num_points, 2)` for pairs. Default: random draws from
            the uniform distribution.
        weights: Weights of the samples, `(samples,)`, 0 for those to leave out.
            Default: all alike.
        uniform_dimensions: 1: `uniform` compares each latent's density. 2: that of
            each pair of latents, which costs `n (n - 1) / 2` times the kernels.

    Returns:
        One scalar, in nats, for each of `terms`.

    Example:

    ```python
    values = cliff_terms(z, seed=generator)
    loss += 0.5 * values["univariate"] + values["bivariate"] + 0.7 * values["uniform"]
    ```

    Reference:
        Barin-Pacela et al. 2025, Quantized Disentanglement: A Practical Approach,
        equations 1 to 7, appendices B and F.5 (`uniform_dimensions=2`).
    """
    check_choice("uniform_dimensions", uniform_dimensions, (1, 2))
    u = ops.transpose(standardize(z, weights))
    values = {}
    if "univariate" in terms or "bivariate" in terms:
        grid = np.linspace(-grid_limit, grid_limit, num_grid, dtype="float32")
        step = 2.0 * grid_limit / num_grid
        slopes = kernel_slopes(u, grid, bandwidth)
        if weights is not None:
            slopes = slopes * weights
    if "univariate" in terms:
        density = _normalized(ops.abs(ops.sum(slopes, axis=-1)), step)
        values["univariate"] = ops.sum(_entropy(density, step))
    if "bivariate" in terms:
        if conditions is None:
            conditions = _random_conditions(u, num_conditions, seed, weights)
        heights = kernel_heights(u, ops.take(u, conditions, axis=1), bandwidth)
        chosen = None if weights is None else ops.take(weights, conditions, axis=0)
        values["bivariate"] = _bivariate(slopes, heights, step, chosen)
    if "uniform" in terms:
        if uniform_points is None:
            shape = (num_grid,) if uniform_dimensions == 1 else (num_grid, 2)
            uniform_points = keras.random.uniform(
                shape, -_HALF_WIDTH, _HALF_WIDTH, dtype="float32", seed=seed
            )
        points = as_float32(ops.convert_to_tensor(uniform_points))
        divergence = (
            _uniform_divergence if uniform_dimensions == 1 else _uniform_pair_divergence
        )
        values["uniform"] = divergence(u, points, bandwidth, weights)
    return values


def _random_conditions(
    u: Tensor, num_conditions: int, seed: Any, weights: Tensor | None
) -> Tensor:
    order = random_order(ops.shape(u)[1], seed)
    if weights is not None:
        # Of samples to leave out none, as long as there are others.
        shuffled = ops.take(weights, order, axis=0)
        order = ops.take(order, valid_first(shuffled), axis=0)
    return order[:num_conditions]


def kernel_slopes(u: Tensor, grid: Tensor, bandwidth: float | Tensor) -> Tensor:
    """Derivatives of every sample's kernel at the grid points, up to a constant.

    Args:
        u: Standardised latents, `(n, samples)`.
        grid: Points, `(num_grid,)`.
        bandwidth: Standard deviation of the kernels.

    Returns:
        Tensor of shape `(n, num_grid, samples)`.
    """
    offset = _scaled_offsets(u, ops.expand_dims(grid, 0), bandwidth)
    return offset * ops.exp(-ops.square(offset))


def kernel_heights(u: Tensor, points: Tensor, bandwidth: float | Tensor) -> Tensor:
    """Values of every sample's kernel at points of each latent, up to a constant.

    Args:
        u: Standardised latents, `(n, samples)`.
        points: Points, `(n, num_points)`.
        bandwidth: Standard deviation of the kernels.

    Returns:
        Tensor of shape `(n, num_points, samples)`.
    """
    return ops.exp(-ops.square(_scaled_offsets(u, points, bandwidth)))


def _scaled_offsets(u: Tensor, points: Tensor, bandwidth: float | Tensor) -> Tensor:
    """`(u - point) / (sqrt 2 bandwidth)`, whose square is a kernel's exponent.

    The small arrays are scaled, not the large one of all differences: a pass over
    that costs as much as its exponential.
    """
    scale = 1.0 / (math.sqrt(2.0) * bandwidth)
    return ops.expand_dims(u * scale, 1) - ops.expand_dims(points * scale, -1)


def _bivariate(
    slopes: Tensor, heights: Tensor, step: float, weights: Tensor | None
) -> Tensor:
    n, num_grid = slopes.shape[:2]
    num_samples = ops.shape(slopes)[2]
    slopes = ops.reshape(slopes, (n * num_grid, num_samples))
    heights = ops.reshape(heights, (-1, num_samples))
    joint_slopes = ops.matmul(slopes, ops.transpose(heights))
    # Entry (i, k, j, m): dp(z_i, z_j)/dz_i at grid point k, given zeta_m of latent j.
    magnitude = ops.abs(ops.reshape(joint_slopes, (n, num_grid, n, -1)))
    density = _normalized(magnitude, step)
    mean_entropy = weighted_mean(_entropy(density, step), weights, axis=-1)
    mean_density = weighted_mean(density, weights, axis=-1)
    divergence = _entropy(mean_density, step) - mean_entropy
    return ops.sum(divergence) - ops.sum(ops.diagonal(divergence))


def _normalized(magnitude: Tensor, step: float) -> Tensor:
    """Densities over axis 1; a function that vanishes on the grid stays 0."""
    mass = ops.sum(magnitude, axis=1, keepdims=True) * step
    has_mass = mass > _TINY
    safe_mass = ops.where(has_mass, mass, ops.ones_like(mass))
    return ops.where(has_mass, magnitude / safe_mass, ops.zeros_like(magnitude))


def _entropy(density: Tensor, step: float) -> Tensor:
    """Differential entropy over axis 1."""
    log_density = ops.log(ops.maximum(density, _TINY))
    return -step * ops.sum(density * log_density, axis=1)


def _uniform_divergence(
    u: Tensor, points: Tensor, bandwidth: float | Tensor, weights: Tensor | None
) -> Tensor:
    exponents = ops.square(_scaled_offsets(u, ops.expand_dims(points, 0), bandwidth))
    return _divergence_of(exponents, 1, u, bandwidth, weights)


def _uniform_pair_divergence(
    u: Tensor, points: Tensor, bandwidth: float | Tensor, weights: Tensor | None
) -> Tensor:
    if u.shape[0] < 2:
        return ops.sum(u) * 0.0  # there is no pair
    first, second = np.triu_indices(u.shape[0], k=1)
    exponents = [
        ops.square(
            _scaled_offsets(
                ops.take(u, side.astype("int32"), axis=0),
                ops.expand_dims(points[:, axis], 0),
                bandwidth,
            )
        )
        for axis, side in enumerate((first, second))
    ]
    return _divergence_of(exponents[0] + exponents[1], 2, u, bandwidth, weights)


def _divergence_of(
    exponents: Tensor,
    dimensions: int,
    u: Tensor,
    bandwidth: float | Tensor,
    weights: Tensor | None,
) -> Tensor:
    """Sum over densities of the divergence of a uniform from them.

    Args:
        exponents: Of every sample's kernel at every point, without their sign,
            `(densities, num_points, samples)`.
        dimensions: Of the densities.
        u: Standardised latents, `(n, samples)`.
        bandwidth: Standard deviation of the kernels.
        weights: Weights of the samples.
    """
    log_count = ops.log(total_weight(ops.transpose(u), weights))
    log_norm = 0.5 * math.log(2.0 * math.pi) + ops.log(as_float32(bandwidth))
    log_kernels = -exponents
    if weights is not None:
        log_kernels = log_kernels + log_weights(weights)
    log_density = ops.logsumexp(log_kernels, axis=-1)
    cross_entropy = log_count + dimensions * log_norm - ops.mean(log_density, axis=-1)
    return ops.sum(cross_entropy - dimensions * math.log(2.0 * _HALF_WIDTH))
