"""IRS: how still latents stand while one source is held."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from qlayers.metrics._checks import BoolArray, FloatArray
from qlayers.metrics._domain import domain_notes
from qlayers.metrics._sample import Sample, varying_columns
from qlayers.metrics.bootstrap import Bootstrap, add_intervals
from qlayers.metrics.metric_result import MainScore, MetricResult

_NOTABLE_CHANCE = 0.1


@dataclass(frozen=True, eq=False, kw_only=True)
class IRSResult(MainScore, MetricResult):
    """The interventional robustness score.

    Attributes:
        irs: Mean over latents, weighted by their largest deviation.
        matrix: (n_z, n_s) how still each latent stands while a source is held; rows of
            constant latents are 0.
        per_latent: (n_z,) the largest entry of each row; NaN for constant latents.
        source_of_latent: (n_z,) the source it belongs to; -1 for constant latents.
        active: (n_z,) latents that vary.
    """

    title = "IRS"
    score_names = ("irs",)

    irs: float
    matrix: FloatArray
    per_latent: FloatArray
    source_of_latent: npt.NDArray[np.int64]
    active: BoolArray


def irs(
    sources: npt.ArrayLike,
    latents: npt.ArrayLike,
    *,
    quantile: float = 0.99,
    bootstrap: Bootstrap | int | None = None,
) -> IRSResult:
    """Scores whether each latent is moved by one source only.

    For a latent and a source: within the samples of each value of the source the
    latent's deviation from their mean, at its 0.99 quantile; the mean over values,
    over the latent's largest deviation from its overall mean, is subtracted from 1. A
    latent's score is that of its best source. The sources need not be independent:
    what moves with the held source does not count against a latent.

    Args:
        sources: (samples, n_s) integers.
        latents: (samples, n_z) numbers.
        quantile: Which deviation stands for the largest; 1 is the paper's supremum,
            0.99 the choice of disentanglement_lib.
        bootstrap: Number of resamples, or a `Bootstrap`, for confidence intervals.

    Returns:
        An `IRSResult`.

    Example:
        >>> irs(sources, latents).source_of_latent

    Reference:
        Suter et al. 2019, Robustly Disentangled Causal Mechanisms, section 3 and
        appendix; settings of Locatello et al. 2019.
    """
    if not 0 < quantile <= 1:
        raise ValueError(
            f"`quantile` must lie above 0 and at most at 1; received {quantile!r}."
        )
    sample = Sample(sources, latents)

    def score(part: Sample) -> IRSResult:
        return _score(part, quantile)

    return add_intervals(
        score(sample), lambda rows: score(sample.rows(rows)), sample.size, bootstrap
    )


def _score(sample: Sample, quantile: float) -> IRSResult:
    active = varying_columns(sample.real_latents)
    value, matrix = _robustness(sample, sample.real_latents, quantile)
    per_latent = np.where(active, matrix.max(axis=1), np.nan)
    return IRSResult(
        irs=value,
        matrix=matrix,
        per_latent=per_latent,
        source_of_latent=np.where(active, matrix.argmax(axis=1), -1),
        active=active,
        settings={"quantile": quantile, **sample.shape_settings},
        notes=(
            *sample.constant_notes(),
            *domain_notes(sample, "robustness"),
            *_chance_notes(sample, quantile),
        ),
    )


def _robustness(
    sample: Sample, latents: FloatArray, quantile: float
) -> tuple[float, FloatArray]:
    largest = np.abs(latents - latents.mean(axis=0)).max(axis=0)
    active = varying_columns(latents)
    matrix = np.zeros((sample.num_latents, sample.num_sources))
    for index in np.flatnonzero(sample.varying):
        held = _deviation(latents[:, active], sample.source_symbols[:, index], quantile)
        matrix[active, index] = 1 - held / largest[active]
    if not active.any():
        return 0.0, matrix
    best = matrix[active].max(axis=1)
    return float(np.average(best, weights=largest[active])), matrix


def _chance_notes(sample: Sample, quantile: float) -> list[str]:
    """Long tails make any latent look still: what those of other samples score."""
    order = np.random.default_rng(0).permutation(sample.size)
    value, _ = _robustness(sample, sample.real_latents[order], quantile)
    if value < _NOTABLE_CHANCE:
        return []
    return [f"shuffled latents, which know nothing, score {value:.2f} and not 0"]


def _deviation(
    latents: FloatArray, source: npt.NDArray[np.int64], quantile: float
) -> FloatArray:
    """Mean over the source's values of the latents' deviations while it is held."""
    deviations = []
    for value in range(int(source.max()) + 1):
        group = latents[source == value]
        apart = np.abs(group - group.mean(axis=0))
        deviations.append(np.quantile(apart, quantile, axis=0))
    return np.mean(deviations, axis=0)
