"""Entropy and mutual information of discrete columns, all pairs at once."""

import functools

import numpy as np
import numpy.typing as npt

from qlayers.metrics._checks import FloatArray, IntArray

# Tables with more cells than this many times the samples are mostly empty: counting
# the occupied cells by sorting is then cheaper than allocating all of them.
_DENSE_CELLS_PER_SAMPLE = 64


def symbols(column: npt.NDArray[np.generic]) -> IntArray:
    """Numbers the distinct values of a column 0, 1, 2, ... in ascending order."""
    if column.dtype.kind in "iu" and len(column):
        low, high = int(column.min()), int(column.max())
        if high - low < 4 * len(column):
            shifted = column.astype(np.int64) - low
            ranks = np.cumsum(np.bincount(shifted) > 0) - 1
            return ranks[shifted]
    return np.unique(column, return_inverse=True)[1].reshape(-1).astype(np.int64)


def symbol_table(columns: npt.NDArray[np.generic]) -> IntArray:
    """Applies `symbols` to every column of a (samples, columns) array."""
    return np.stack([symbols(column) for column in columns.T], axis=1)


def equal_width_bins(latents: npt.NDArray[np.generic], num_bins: int) -> IntArray:
    """Cuts each column into equal-width bins between its minimum and maximum.

    The binning of Locatello et al. (2019): the edges are those of `np.histogram`, and
    a value on an inner edge belongs to the bin on its right.
    """
    binned = np.empty(latents.shape, np.int64)
    for index, column in enumerate(np.asarray(latents, np.float64).T):
        edges = np.histogram_bin_edges(column, num_bins)
        binned[:, index] = np.searchsorted(edges[:-1], column, side="right") - 1
    return binned


def entropy(columns: IntArray) -> FloatArray:
    """Entropy in nats of each column of symbols; exactly 0 of a constant one."""
    table = _count_times_log(len(columns))
    counts = [np.bincount(column) for column in columns.T]
    sums = np.array([table[count].sum() for count in counts])
    found = np.maximum(np.log(len(columns)) - sums / len(columns), 0.0)
    # Rounding leaves 1e-16 of a constant column at one size of the sample in ten.
    is_constant = np.array([count.max() == len(columns) for count in counts], bool)
    return np.where(is_constant, 0.0, found)


def mutual_information(sources: IntArray, latents: IntArray) -> FloatArray:
    """Plug-in mutual information in nats of every (source, latent) pair.

    I(s; z) = log N + (Σ f(n_sz) - Σ f(n_s) - Σ f(n_z)) / N with f(n) = n log n over
    the counts n of the joint histogram and of its margins. As counts are integers, f
    is a table, and one `bincount` per source counts all latents at once.

    Args:
        sources: (samples, n_s) symbols, see `symbol_table`.
        latents: (samples, n_z) symbols.

    Returns:
        (n_s, n_z) array.

    Example:
        >>> bits = np.array([[0], [1], [0], [1]])
        >>> float(mutual_information(bits, bits)[0, 0]) == float(np.log(2))
        True

    Reference:
        Hsu et al. 2023, Disentanglement via Latent Quantization, eq. 6.
    """
    return _all_pairs(sources, latents)


def shared_information(columns: IntArray) -> FloatArray:
    """Plug-in mutual information in nats of every pair of one table's columns."""
    return _all_pairs(columns, columns)


def _all_pairs(sources: IntArray, latents: IntArray) -> FloatArray:
    samples = len(sources)
    table = _count_times_log(samples)
    margin_s = np.array([table[np.bincount(column)].sum() for column in sources.T])
    margin_z = np.array([table[np.bincount(column)].sum() for column in latents.T])
    joint = np.stack([_joint_sums(column, latents, table) for column in sources.T])
    information = np.log(samples) + (joint - margin_s[:, None] - margin_z) / samples
    # Independent columns can come out as ±1e-15, and ratios of such remainders would
    # look like structure.
    return np.where(information < 1e-12, 0.0, information)


def _joint_sums(source: IntArray, latents: IntArray, table: FloatArray) -> FloatArray:
    """Σ f(n) over the joint histogram of one source with each latent."""
    rows, columns = int(source.max()) + 1, int(latents.max()) + 1
    num_latents = latents.shape[1]
    if rows * columns > _DENSE_CELLS_PER_SAMPLE * len(source):
        return np.array(
            [
                table[np.unique(source * columns + latent, return_counts=True)[1]].sum()
                for latent in latents.T
            ]
        )
    offsets = np.arange(num_latents) * (rows * columns)
    cells = (source * columns)[:, None] + latents + offsets
    counts = np.bincount(cells.ravel(), minlength=num_latents * rows * columns)
    return table[counts].reshape(num_latents, -1).sum(axis=1)


@functools.lru_cache(maxsize=4)
def _count_times_log(samples: int) -> FloatArray:
    counts = np.arange(samples + 1, dtype=np.float64)
    counts[1:] *= np.log(counts[1:])
    return counts
