"""Modularity of Ridgeway and Mozer: does each latent serve one source?"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from qlayers.metrics._checks import FloatArray, check_at_least, check_choice
from qlayers.metrics._domain import domain_notes
from qlayers.metrics._sample import Sample
from qlayers.metrics.bootstrap import Bootstrap, add_intervals
from qlayers.metrics.metric_result import MainScore, MetricResult

_DEAD_LATENTS = ("zero", "ignore")


@dataclass(frozen=True, eq=False, kw_only=True)
class ModularityResult(MainScore, MetricResult):
    """Ridgeway and Mozer's modularity.

    Attributes:
        modularity: Mean over latents.
        per_latent: (n_z,); latents that know nothing are 0 or, if ignored, NaN.
        mutual_information: (n_s, n_z) in nats.
    """

    title = "Modularity"
    score_names = ("modularity",)

    modularity: float
    per_latent: FloatArray
    mutual_information: FloatArray


def modularity(
    sources: npt.ArrayLike,
    latents: npt.ArrayLike,
    *,
    num_bins: int | None = 20,
    dead_latents: str = "zero",
    bootstrap: Bootstrap | int | None = None,
) -> ModularityResult:
    """Scores whether each latent informs about a single source.

    For each latent, 1 minus the squared informations about all but its main source,
    relative to (n_s - 1) times that about the main one. With one source it is 1.
    Beware that latents which know almost nothing weigh as much as the others: MIG
    and InfoMEC differ in this.

    Args:
        sources: (samples, n_s) integers.
        latents: (samples, n_z) numbers.
        num_bins: Equal-width bins per latent; None takes every value as a symbol.
        dead_latents: `"zero"` counts latents without any information as 0, as
            Locatello et al. do; `"ignore"` leaves them out.
        bootstrap: Number of resamples, or a `Bootstrap`, for confidence intervals.

    Returns:
        A `ModularityResult`.

    Example:
        >>> modularity(sources, latents, dead_latents="ignore").per_latent

    Reference:
        Ridgeway and Mozer 2018, Learning Deep Disentangled Embeddings with the
        F-Statistic Loss; settings of Locatello et al. 2019 and Friede et al. 2023.
    """
    if num_bins is not None:
        check_at_least(num_bins, 1, "num_bins")
    check_choice(dead_latents, _DEAD_LATENTS, "dead_latents")
    return modularity_of(Sample(sources, latents), num_bins, dead_latents, bootstrap)


def modularity_of(
    sample: Sample,
    num_bins: int | None = 20,
    dead_latents: str = "zero",
    bootstrap: Bootstrap | int | None = None,
) -> ModularityResult:
    """`modularity` for a sample whose matrices may already be known."""

    def score(part: Sample) -> ModularityResult:
        mutual = part.mutual_information(num_bins)
        per_latent = _per_latent(mutual[part.varying])
        if dead_latents == "zero":
            per_latent = np.nan_to_num(per_latent, nan=0.0)
        known = per_latent[np.isfinite(per_latent)]
        settings = {
            "num_bins": num_bins,
            "dead_latents": dead_latents,
            **part.shape_settings,
        }
        return ModularityResult(
            modularity=float(known.mean()) if len(known) else 0.0,
            per_latent=per_latent,
            mutual_information=mutual,
            settings=settings,
            notes=(
                *part.constant_notes(),
                *domain_notes(part, "information", num_bins),
            ),
        )

    return add_intervals(
        score(sample), lambda rows: score(sample.rows(rows)), sample.size, bootstrap
    )


def _per_latent(mutual: FloatArray) -> FloatArray:
    squared = mutual**2
    if len(squared) == 0:
        return np.full(squared.shape[1], np.nan)
    largest = squared.max(axis=0)
    others = (squared.sum(axis=0) - largest) / max(len(squared) - 1, 1)
    score = np.full(len(largest), np.nan)
    np.divide(others, largest, out=score, where=largest > 0)
    return 1 - score
