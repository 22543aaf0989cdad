"""MIG: the gap between the two latents that know most about a source."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from qlayers.metrics import information
from qlayers.metrics._checks import FloatArray, check_at_least, check_real_sources
from qlayers.metrics._domain import domain_notes
from qlayers.metrics._sample import Sample
from qlayers.metrics.bootstrap import Bootstrap, add_intervals
from qlayers.metrics.metric_result import MainScore, MetricResult


@dataclass(frozen=True, eq=False, kw_only=True)
class MIGResult(MainScore, MetricResult):
    """The mutual information gap.

    Attributes:
        mig: Mean over sources of the gap, in units of the source's entropy.
        mutual_information: (n_s, n_z) in nats.
        entropy: (n_s,) of the sources, in nats.
        gap_per_source: (n_s,) normalised gaps; NaN for constant sources.
    """

    title = "MIG"
    score_names = ("mig",)

    mig: float
    mutual_information: FloatArray
    entropy: FloatArray
    gap_per_source: FloatArray


def mig(
    sources: npt.ArrayLike,
    latents: npt.ArrayLike,
    *,
    num_bins: int | None = 20,
    source_bins: int | None = None,
    bootstrap: Bootstrap | int | None = None,
) -> MIGResult:
    """Scores how much more one latent knows about a source than the next.

    With a single latent the second largest information is taken as 0.

    Args:
        sources: (samples, n_s) integers, or any numbers if `source_bins` is given.
        latents: (samples, n_z) numbers.
        num_bins: Equal-width bins per latent. None takes every distinct value as a
            symbol of its own, which suits quantized latents only.
        source_bins: Cut sources into this many equal-width bins too, as the
            factorized-support code behind Cliff's MIG column does (20); None does not.
        bootstrap: Number of resamples, or a `Bootstrap`, for confidence intervals.

    Returns:
        A `MIGResult`.

    Example:
        >>> result = mig(sources, latents)
        >>> result.gap_per_source

    Reference:
        Chen et al. 2018, Isolating Sources of Disentanglement; binning of Locatello
        et al. 2019, as used by Friede et al. 2023.
    """
    if num_bins is not None:
        check_at_least(num_bins, 1, "num_bins")
    if source_bins is not None:
        check_at_least(source_bins, 2, "source_bins")
        sources = information.equal_width_bins(check_real_sources(sources), source_bins)
    sample = Sample(sources, latents)
    return mig_of(sample, num_bins, source_bins, bootstrap)


def mig_of(
    sample: Sample,
    num_bins: int | None = 20,
    source_bins: int | None = None,
    bootstrap: Bootstrap | int | None = None,
) -> MIGResult:
    """`mig` for a sample whose matrices may already be known."""

    def score(part: Sample) -> MIGResult:
        mutual = part.mutual_information(num_bins)
        settings = {
            "num_bins": num_bins,
            "source_bins": source_bins,
            **part.shape_settings,
        }
        gaps = _normalized_gaps(mutual, part.source_entropy)
        return MIGResult(
            mig=float(np.nanmean(gaps)) if part.varying.any() else 0.0,
            mutual_information=mutual,
            entropy=part.source_entropy,
            gap_per_source=gaps,
            settings=settings,
            notes=(
                *part.constant_notes(),
                *domain_notes(part, "gap", num_bins),
            ),
        )

    return add_intervals(
        score(sample), lambda rows: score(sample.rows(rows)), sample.size, bootstrap
    )


def _normalized_gaps(mutual: FloatArray, entropy: FloatArray) -> FloatArray:
    ordered = np.sort(mutual, axis=1)
    second = ordered[:, -2] if ordered.shape[1] > 1 else 0.0
    gaps = np.full(len(entropy), np.nan)
    np.divide(ordered[:, -1] - second, entropy, out=gaps, where=entropy > 0)
    return gaps
