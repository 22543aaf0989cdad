"""MCC: mean correlation of sources with the latents that match them best."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from qlayers.metrics._checks import (
    BoolArray,
    FloatArray,
    IntArray,
    check_at_least,
    check_choice,
    check_latents,
    check_real_sources,
    check_same_length,
)
from qlayers.metrics._sample import constant_notes
from qlayers.metrics.bootstrap import Bootstrap, add_intervals
from qlayers.metrics.metric_result import MainScore, MetricResult

_CORRELATIONS = ("spearman", "pearson")


@dataclass(frozen=True, eq=False, kw_only=True)
class MCCResult(MainScore, MetricResult):
    """The mean correlation coefficient.

    Attributes:
        mcc: Mean absolute correlation of the matched pairs; unmatched sources are 0,
            constant ones are left out.
        correlation: (n_s, n_z) absolute correlations.
        assignment: (n_s,) the latent matched to each source, -1 for none.
    """

    title = "MCC"
    score_names = ("mcc",)

    mcc: float
    correlation: FloatArray
    assignment: IntArray


def mcc(
    sources: npt.ArrayLike,
    latents: npt.ArrayLike,
    correlation: str = "spearman",
    *,
    batch_size: int | None = None,
    bootstrap: Bootstrap | int | None = None,
) -> MCCResult:
    """Matches each source to one latent and averages their absolute correlations.

    The one-to-one matching is the best one (Hungarian algorithm). Constant columns
    correlate with nothing.

    Args:
        sources: (samples, n_s) numbers, discrete or continuous.
        latents: (samples, n_z) numbers.
        correlation: `"spearman"` ignores monotone warps, as quantized identifiability
            asks for; `"pearson"` does not.
        batch_size: Average the score over batches of this size, as the additive
            decoders' code does (1,024); None scores all samples at once. The matrix
            returned is that of all samples.
        bootstrap: Number of resamples, or a `Bootstrap`, for confidence intervals.

    Returns:
        An `MCCResult`.

    Example:
        >>> float(mcc(sources, latents))

    Reference:
        Barin-Pacela et al. 2025, Quantized Disentanglement, section 5.
    """
    check_choice(correlation, _CORRELATIONS, "correlation")
    if batch_size is not None:
        check_at_least(batch_size, 2, "batch_size")
    known = check_real_sources(sources)
    codes = check_latents(latents).astype(np.float64)
    check_same_length(known, codes)

    def rescore(rows: IntArray) -> MCCResult:
        # Half of a sample may be less than a batch.
        size = None if batch_size is None else min(batch_size, len(rows))
        return _score(known[rows], codes[rows], correlation, size)

    result = _score(known, codes, correlation, batch_size)
    return add_intervals(result, rescore, len(known), bootstrap)


def correlation_matrix(first: FloatArray, second: FloatArray) -> FloatArray:
    """Absolute Pearson correlation of every pair of columns; 0 if one is constant."""
    return np.abs(_unit(first).T @ _unit(second)).clip(0.0, 1.0)


def ranks(columns: FloatArray) -> FloatArray:
    """Ranks of each column; equal values share their mean rank."""
    from scipy.stats import rankdata

    return rankdata(columns, axis=0)


def _unit(columns: FloatArray) -> FloatArray:
    centred = columns - columns.mean(axis=0)
    length = np.sqrt((centred**2).sum(axis=0))
    # The mean of equal numbers can be off by a last digit.
    size = np.abs(columns).max(axis=0) * np.sqrt(len(columns))
    constant = length <= 1e-12 * size
    return np.where(constant, 0.0, centred / np.where(constant, 1.0, length))


def _match(correlation: FloatArray, varying: BoolArray) -> tuple[float, IntArray]:
    """Mean correlation of the best matching of the varying sources, and the latents."""
    from scipy.optimize import linear_sum_assignment

    assignment = np.full(len(correlation), -1, np.int64)
    if not varying.any():
        return 0.0, assignment
    of_varying = correlation[varying]
    rows, columns = linear_sum_assignment(of_varying, maximize=True)
    assignment[np.flatnonzero(varying)[rows]] = columns
    return float(of_varying[rows, columns].sum() / len(of_varying)), assignment


def _score(
    sources: FloatArray, latents: FloatArray, correlation: str, batch_size: int | None
) -> MCCResult:
    matrix = _correlate(sources, latents, correlation)
    varying = np.any(sources != sources[:1], axis=0)
    value, assignment = _match(matrix, varying)
    if batch_size is not None:
        starts = range(0, len(sources) - batch_size + 1, batch_size)
        if not len(starts):
            raise ValueError(
                f"`batch_size`={batch_size} is larger than the {len(sources)} samples."
            )
        values = []
        for start in starts:
            rows = slice(start, start + batch_size)
            part = _correlate(sources[rows], latents[rows], correlation)
            values.append(_match(part, varying)[0])
        value = float(np.mean(values))
    settings = {
        "correlation": correlation,
        "batch_size": batch_size,
        "samples": len(sources),
        "sources": sources.shape[1],
        "latents": latents.shape[1],
    }
    return MCCResult(
        mcc=value,
        correlation=matrix,
        assignment=assignment,
        settings=settings,
        notes=constant_notes(varying),
    )


def _correlate(
    sources: FloatArray, latents: FloatArray, correlation: str
) -> FloatArray:
    if correlation == "spearman":
        sources, latents = ranks(sources), ranks(latents)
    return correlation_matrix(sources, latents)
