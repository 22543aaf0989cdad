"""SAP: the gap between the two latents that predict a source best."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from qlayers.metrics import information
from qlayers.metrics._checks import (
    BoolArray,
    FloatArray,
    check_latents,
    check_real_sources,
    check_same_length,
)
from qlayers.metrics._domain import domain_notes
from qlayers.metrics._parallel import map_threads
from qlayers.metrics._sample import Sample, constant_notes, split, varying_columns
from qlayers.metrics.bootstrap import Bootstrap, add_intervals
from qlayers.metrics.linear_svm import fit_linear_svm
from qlayers.metrics.mcc import correlation_matrix
from qlayers.metrics.metric_result import MainScore, MetricResult


@dataclass(frozen=True, eq=False, kw_only=True)
class SAPResult(MainScore, MetricResult):
    """The separated attribute predictability.

    Attributes:
        sap: Mean over sources of the gap between the two largest scores.
        score_matrix: (n_s, n_z) test accuracies, or R² for continuous sources.
        gap_per_source: (n_s,); NaN for constant sources.
    """

    title = "SAP"
    score_names = ("sap",)

    sap: float
    score_matrix: FloatArray
    gap_per_source: FloatArray


def sap(
    sources: npt.ArrayLike,
    latents: npt.ArrayLike,
    *,
    test_size: float = 1 / 3,
    penalty: float = 0.01,
    continuous_sources: bool = False,
    seed: int = 0,
    bootstrap: Bootstrap | int | None = None,
) -> SAPResult:
    """Scores how much better one latent predicts a source than the next best.

    A linear support-vector machine predicts each source from each latent alone; the
    score of a source is the gap between its two best test accuracies. With a single
    latent the second best is taken as 0.

    Args:
        sources: (samples, n_s) integers.
        latents: (samples, n_z) numbers.
        test_size: Fraction of samples that measures accuracy; 1/3 is the usual
            10,000 to 5,000.
        penalty: C of the machine.
        continuous_sources: Score by squared correlation instead, over all samples;
            sources may then be any numbers.
        seed: Seed of the split.
        bootstrap: Number of resamples, or a `Bootstrap`, for confidence intervals.

    Returns:
        A `SAPResult`.

    Example:
        >>> print(sap(sources, latents, seed=1))

    Reference:
        Kumar et al. 2018, Variational Inference of Disentangled Latent Concepts;
        settings of Locatello et al. 2019, as used by Friede et al. 2023.
    """
    if not isinstance(continuous_sources, bool | np.bool_):
        raise ValueError(
            "`continuous_sources` of `sap` is True or False, for all sources together; "
            f"received {continuous_sources!r}."
        )
    if continuous_sources:
        return _continuous(sources, latents, bootstrap)
    if not penalty > 0:
        raise ValueError(f"`penalty` must be positive; received {penalty!r}.")
    sample = Sample(sources, latents)
    return sap_of(sample, test_size, penalty, seed, bootstrap)


def sap_of(
    sample: Sample,
    test_size: float = 1 / 3,
    penalty: float = 0.01,
    seed: int = 0,
    bootstrap: Bootstrap | int | None = None,
) -> SAPResult:
    """`sap` for a checked sample."""

    def score(part: Sample) -> SAPResult:
        matrix = _accuracies(part, test_size, penalty, seed)
        gaps, value = _gaps(matrix, part.varying)
        settings = {
            "test_size": round(test_size, 4),
            "penalty": penalty,
            "seed": seed,
            **part.shape_settings,
        }
        return SAPResult(
            sap=value,
            score_matrix=matrix,
            gap_per_source=gaps,
            settings=settings,
            notes=(*part.constant_notes(), *domain_notes(part, "accuracy")),
        )

    return add_intervals(
        score(sample),
        lambda rows: score(sample.rows(rows)),
        sample.size,
        bootstrap,
        parts_of=lambda size: split(size, test_size, seed),
    )


def _accuracies(
    sample: Sample, test_size: float, penalty: float, seed: int
) -> FloatArray:
    train, test = split(sample.size, test_size, seed)
    truth = sample.source_symbols[test]
    latents = sample.real_latents
    # Classes that only the test part has cannot be predicted; number those seen.
    seen = [np.unique(column) for column in sample.source_symbols[train].T]
    labels = information.symbol_table(sample.source_symbols[train])

    def column(index: int) -> list[float]:
        known, unknown = latents[train, index], latents[test, index]
        accuracies = []
        machines = fit_linear_svm(known, labels, penalty)
        for source, (w, b) in enumerate(machines):
            best = np.argmax(w[:, None] * unknown + b[:, None], axis=0)
            accuracies.append(float(np.mean(seen[source][best] == truth[:, source])))
        return accuracies

    return np.array(map_threads(column, range(sample.num_latents))).T


def _gaps(matrix: FloatArray, varying: BoolArray) -> tuple[FloatArray, float]:
    """Gap of each source, NaN for constant ones, and the mean of the others."""
    ordered = np.sort(matrix, axis=1)
    second = ordered[:, -2] if ordered.shape[1] > 1 else 0.0
    gaps = np.where(varying, ordered[:, -1] - second, np.nan)
    return gaps, float(np.nanmean(gaps)) if varying.any() else 0.0


def _continuous(
    sources: npt.ArrayLike,
    latents: npt.ArrayLike,
    bootstrap: Bootstrap | int | None,
) -> SAPResult:
    known = check_real_sources(sources)
    codes = check_latents(latents).astype(np.float64)
    check_same_length(known, codes)

    def score(s: FloatArray, z: FloatArray) -> SAPResult:
        matrix = correlation_matrix(s, z) ** 2
        varying = varying_columns(s)
        gaps, value = _gaps(matrix, varying)
        return SAPResult(
            sap=value,
            score_matrix=matrix,
            gap_per_source=gaps,
            settings={"continuous_sources": True, "samples": len(s)},
            notes=constant_notes(varying),
        )

    return add_intervals(
        score(known, codes),
        lambda rows: score(known[rows], codes[rows]),
        len(known),
        bootstrap,
    )
