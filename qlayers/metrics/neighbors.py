"""Nearest-neighbour mutual information of discrete and continuous columns."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from qlayers.metrics._checks import BoolArray, FloatArray, IntArray
from qlayers.metrics._parallel import map_threads


def neighbor_information(
    sources: IntArray,
    latents: FloatArray,
    n_neighbors: int = 3,
    noise: float = 1e-10,
    seed: int = 0,
) -> FloatArray:
    """Mutual information of every (discrete source, continuous latent) pair.

    Ross's variant of the KSG estimator: for each sample, the distance to its k-th
    neighbour among samples of the same class, and the number m of samples of any
    class nearer than that, give

        I = ψ(N) + <ψ(k)> - <ψ(N_class)> - <ψ(m)>,  negative values set to 0.

    The values are those of scikit-learn's `mutual_info_classif`, seed by seed. In one
    dimension neighbours are neighbours in sorted order, so one sort per latent and
    one stable sort per pair replace two trees per class.

    Args:
        sources: (samples, n_s) symbols from 0.
        latents: (samples, n_z) numbers.
        n_neighbors: K; fewer are used in classes with k samples or less, and classes
            of one sample are left out.
        noise: Standard deviation, relative to each latent's spread, of the Gaussian
            noise that separates equal values; the estimator presumes there are none.
            0 switches it off.
        seed: Seed of that noise.

    Returns:
        (n_s, n_z) array in nats.

    Reference:
        Ross 2014, Mutual Information between Discrete and Continuous Data Sets.
        Hsu et al. 2023, Disentanglement via Latent Quantization, section 4.1.
    """
    scaled = _scaled(latents, noise, seed)
    groups = [_Groups.of(column, n_neighbors) for column in sources.T]
    digamma = _digamma_table(len(latents))

    def column(latent: FloatArray) -> list[float]:
        order = np.argsort(latent, kind="stable")
        ascending = latent[order]
        return [_pair(group, order, ascending, digamma) for group in groups]

    return np.array(map_threads(column, scaled.T)).T


def _scaled(latents: FloatArray, noise: float, seed: int) -> FloatArray:
    spread = latents.std(axis=0)
    scaled = latents / np.where(spread > 0, spread, 1.0)
    if noise == 0:
        return scaled
    # The legacy generator, so that scikit-learn's own noise is met exactly.
    draws = np.random.RandomState(seed).standard_normal(scaled.shape)
    return scaled + noise * np.maximum(1.0, np.abs(scaled).mean(axis=0)) * draws


@dataclass(frozen=True)
class _Groups:
    """A source's classes laid end to end; the same for every latent.

    Attributes:
        labels: The class of each sample, in the smallest integer type: NumPy sorts
            16-bit integers by radix, in linear time.
        kept: Which samples belong to a class of two or more; None if all do.
        first, last: For each kept sample in class order, the ends of its class.
        forbidden: (k + 1, kept) windows that would cross the ends of a class.
        small: Kept samples whose class has k samples or fewer.
        constant: ψ(N) + <ψ(k)> - <ψ(N_class)>.
    """

    labels: npt.NDArray[np.generic]
    kept: BoolArray | None
    first: IntArray
    last: IntArray
    forbidden: BoolArray
    small: BoolArray
    n_neighbors: int
    constant: float

    @classmethod
    def of(cls, source: IntArray, n_neighbors: int) -> "_Groups":
        from scipy.special import digamma

        counts = np.bincount(source)
        kept = counts[source] > 1
        counts = np.where(counts > 1, counts, 0)
        sizes = np.repeat(counts, counts)
        starts = np.repeat(np.cumsum(counts) - counts, counts)
        position = np.arange(len(sizes)) - starts
        shifts = np.arange(n_neighbors + 1)[:, None]
        forbidden = (position < shifts) | (position - shifts + n_neighbors >= sizes)
        neighbors = np.minimum(n_neighbors, sizes - 1)
        constant = 0.0
        if len(sizes):
            constant = float(
                digamma(len(sizes)) + digamma(neighbors).mean() - digamma(sizes).mean()
            )
        dtype = np.uint16 if len(counts) < 2**16 else np.int64
        return cls(
            labels=source.astype(dtype),
            kept=None if kept.all() else kept,
            first=starts,
            last=starts + sizes - 1,
            forbidden=forbidden,
            small=sizes <= n_neighbors,
            n_neighbors=n_neighbors,
            constant=constant,
        )


def _pair(
    group: _Groups, order: IntArray, ascending: FloatArray, digamma: FloatArray
) -> float:
    if group.kept is not None:
        inside = group.kept[order]
        order, ascending = order[inside], ascending[inside]
    if len(order) == 0:
        return 0.0
    values = ascending[np.argsort(group.labels[order], kind="stable")]
    distances = _kth_distances(values, group)
    counts = _nearer(values, distances, ascending)
    return max(0.0, group.constant - float(digamma[counts].mean()))


def _kth_distances(values: FloatArray, group: _Groups) -> FloatArray:
    """Distance of each value to its k-th neighbour within its class.

    The k nearest of a sorted list lie in one of the k + 1 windows of k + 1
    consecutive values that contain the sample; the tightest window has them.
    """
    k, size = group.n_neighbors, len(values)
    padded = np.pad(values, k)
    best = np.full(size, np.inf)
    for shift in range(k + 1):
        left = padded[k - shift : k - shift + size]
        right = padded[2 * k - shift : 2 * k - shift + size]
        reach = np.maximum(values - left, right - values)
        reach[group.forbidden[shift]] = np.inf
        np.minimum(best, reach, out=best)
    if group.small.any():
        low, high = values[group.first], values[group.last]
        farthest = np.maximum(values - low, high - values)
        best[group.small] = farthest[group.small]
    return best


def _nearer(
    values: FloatArray, distances: FloatArray, ascending: FloatArray
) -> IntArray:
    """How many of `ascending` are nearer than the distance, the sample included.

    At distance 0 (equal values, no noise) the equal values count.
    """
    zero = distances == 0
    low = np.searchsorted(ascending, values - distances, side="right")
    high = np.searchsorted(ascending, values + distances, side="left")
    if zero.any():
        low[zero] = np.searchsorted(ascending, values[zero], side="left")
        high[zero] = np.searchsorted(ascending, values[zero], side="right")
    _correct_low(low, values, distances, ascending, ~zero)
    # The upper end is the lower end of the mirrored problem.
    mirrored = len(ascending) - high
    _correct_low(mirrored, -values, distances, -ascending[::-1], ~zero)
    return len(ascending) - mirrored - low


def _correct_low(
    low: IntArray,
    values: FloatArray,
    distances: FloatArray,
    ascending: FloatArray,
    check: BoolArray,
) -> None:
    """Repairs, in place, ends that rounding of `values - distances` misplaced.

    The k-th neighbour sits exactly at that end, so this decides its membership. Only
    the last digit can be wrong: each pass moves the misplaced ends past one distinct
    value, and two passes are the rule.
    """
    suspects = np.flatnonzero(check)
    while len(suspects):
        start = low[suspects]
        at, distance = values[suspects], distances[suspects]
        first = ascending[np.minimum(start, len(ascending) - 1)]
        below = ascending[np.maximum(start - 1, 0)]
        too_far = at - first >= distance
        missed = (start > 0) & (at - below < distance)
        up = np.searchsorted(ascending, first[too_far], side="right")
        down = np.searchsorted(ascending, below[missed], side="left")
        low[suspects[too_far]] = up
        low[suspects[missed]] = down
        suspects = suspects[too_far | missed]


def _digamma_table(size: int) -> FloatArray:
    from scipy.special import digamma

    table = digamma(np.arange(size + 1, dtype=np.float64).clip(1))
    return table
