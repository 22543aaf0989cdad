"""The Cliff criterion by loops over latents, pairs and conditioning values."""

import numpy as np
from scipy import stats


def standardize(z):
    z = np.asarray(z, "float64")
    return (z - z.mean(0)) / z.std(0)


def entropy(density, step):
    positive = density[density > 0]
    return -step * float((positive * np.log(positive)).sum())


def normalized(magnitude, step):
    return magnitude / (magnitude.sum() * step)


def slope(points, samples, bandwidth):
    """Equation 13's summands: the derivative of each sample's kernel at each point."""
    offset = points[:, None] - samples[None, :]
    return -offset / bandwidth**2 * stats.norm.pdf(offset, scale=bandwidth)


def reference_terms(
    z, conditions, uniform_points, bandwidth=0.1, num_grid=100, grid_limit=5.0
):
    """Equations 1 to 7 with appendix B's integrals, in float64."""
    u = standardize(z)
    n = u.shape[1]
    grid = np.linspace(-grid_limit, grid_limit, num_grid)
    step = 2 * grid_limit / num_grid
    univariate = uniform = bivariate = 0.0
    for i in range(n):
        derivative = slope(grid, u[:, i], bandwidth).mean(1)
        univariate += entropy(normalized(np.abs(derivative), step), step)
        density = stats.norm.pdf(
            uniform_points[:, None] - u[None, :, i], scale=bandwidth
        ).mean(1)
        uniform += -np.log(2 * np.sqrt(3)) - np.log(density).mean()
        for j in range(n):
            if i != j:
                bivariate += divergence(u[:, i], u[:, j], conditions, grid, bandwidth)
    return {"univariate": univariate, "bivariate": bivariate, "uniform": uniform}


def divergence(first, second, conditions, grid, bandwidth):
    """Equation 6 for one ordered pair, with p(z_j) divided out as in equation 3."""
    step = (grid[-1] - grid[0]) / len(grid)
    densities = []
    for zeta in second[conditions]:
        kernel = stats.norm.pdf(zeta - second, scale=bandwidth)
        joint = (slope(grid, first, bandwidth) * kernel).mean(1)
        densities.append(normalized(np.abs(joint / kernel.mean()), step))
    mixture = np.mean(densities, axis=0)
    return entropy(mixture, step) - np.mean([entropy(d, step) for d in densities])


def reference_uniform_of_pairs(z, points, bandwidth=0.1):
    """Appendix F.5: KL(U || p(z_i, z_j)) of every pair, by two-dimensional normal
    densities, with the expectation over the given points of the square."""
    u = standardize(z)
    kernel = stats.multivariate_normal([0.0, 0.0], bandwidth**2)
    total = 0.0
    for i in range(u.shape[1]):
        for j in range(i + 1, u.shape[1]):
            offsets = points[:, None] - u[None][..., [i, j]]
            # The square has an area of 12.
            total += np.log(1 / 12) - np.log(kernel.pdf(offsets).mean(1)).mean()
    return total
