"""Agreement of models with each other, for choosing one without labels (UDR)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from qlayers.metrics._checks import (
    BoolArray,
    FloatArray,
    IntArray,
    check_choice,
    check_latents,
)
from qlayers.metrics._sample import standardize
from qlayers.metrics.bootstrap import Bootstrap, add_intervals
from qlayers.metrics.mcc import correlation_matrix, ranks
from qlayers.metrics.metric_result import MetricResult

_SIMILARITIES = ("spearman", "lasso")
_COPY = 0.98


@dataclass(frozen=True, eq=False, kw_only=True)
class ModelAgreementResult(MetricResult):
    """How well each model agrees with the others.

    Attributes:
        model_scores: (models,) median of the model's pairwise agreements.
        pairwise: (models, models) agreements; the diagonal is NaN.
        best: Index of the model with the highest score.
        active: For each model, (n_z,) latents that took part.
    """

    title = "Model agreement"

    model_scores: FloatArray
    pairwise: FloatArray
    best: int
    active: tuple[BoolArray, ...]

    def scores(self) -> dict[str, float]:
        return {
            f"model_{index}": float(score)
            for index, score in enumerate(self.model_scores)
        }

    def _details(self) -> list[str]:
        return [f"best model: {self.best}"]


def model_agreement(
    latents_of_models: Sequence[npt.ArrayLike],
    *,
    similarity: str = "spearman",
    active: Sequence[npt.ArrayLike] | None = None,
    bootstrap: Bootstrap | int | None = None,
) -> ModelAgreementResult:
    """Scores models by how far others of the same kind found the same latents.

    Disentangled models that differ only in their seed agree up to order, sign and
    unused latents; entangled ones do not. For a pair with similarities R (latents of
    one x latents of the other) the agreement is the mean, over the latents of both,
    of (max R)² / ΣR along the latent's row or column.

    Args:
        latents_of_models: For each model (samples, n_z) latents of the same images.
        similarity: `"spearman"`, absolute rank correlation, or `"lasso"`, absolute
            weights of an L1 regression (alpha 0.1) of one model's standardised latents
            on the other's.
        active: For each model (n_z,) booleans: latents that carry information (for a
            VAE, KL above 0.01). By default those whose range is at least 1/8 of the
            model's largest, QLAE's rule.
        bootstrap: Number of resamples, or a `Bootstrap`, for confidence intervals.

    Returns:
        A `ModelAgreementResult`.

    Example:
        >>> model_agreement([seed_0, seed_1, seed_2]).best

    Reference:
        Duan et al. 2020, Unsupervised Model Selection for Variational Disentangled
        Representation Learning, section 4.
    """
    check_choice(similarity, _SIMILARITIES, "similarity")
    if len(latents_of_models) < 2:
        raise ValueError(
            "`latents_of_models` must hold at least two models; received "
            f"{len(latents_of_models)}."
        )
    models = [
        check_latents(latents, f"latents_of_models[{index}]").astype(np.float64)
        for index, latents in enumerate(latents_of_models)
    ]
    lengths = [len(latents) for latents in models]
    if len(set(lengths)) > 1:
        raise ValueError(
            "`latents_of_models` must encode the same images; received "
            f"{lengths} samples."
        )
    masks = _masks(models, active)

    def score(rows: IntArray | slice) -> ModelAgreementResult:
        return _score([latents[rows] for latents in models], masks, similarity)

    return add_intervals(score(slice(None)), score, lengths[0], bootstrap)


def _masks(
    models: list[FloatArray], active: Sequence[npt.ArrayLike] | None
) -> tuple[BoolArray, ...]:
    if active is None:
        ranges = [np.ptp(latents, axis=0) for latents in models]
        return tuple((size >= size.max() / 8) & (size > 0) for size in ranges)
    masks = tuple(np.asarray(mask, bool) for mask in active)
    shapes = [mask.shape for mask in masks]
    expected = [(latents.shape[1],) for latents in models]
    if shapes != expected:
        raise ValueError(f"`active` must have shapes {expected}; received {shapes}.")
    return masks


def _score(
    models: list[FloatArray], masks: tuple[BoolArray, ...], similarity: str
) -> ModelAgreementResult:
    used = [latents[:, mask] for latents, mask in zip(models, masks, strict=True)]
    if similarity == "spearman":
        used = [ranks(latents) for latents in used]
    else:
        used = [standardize(latents) for latents in used]
    count = len(models)
    pairwise = np.full((count, count), np.nan)
    for i in range(count):
        for j in range(count):
            if i != j:
                pairwise[i, j] = _agreement(used[i], used[j], similarity)
    scores = np.nanmedian(pairwise, axis=0)
    return ModelAgreementResult(
        model_scores=scores,
        pairwise=pairwise,
        best=int(np.argmax(scores)),
        active=masks,
        settings={
            "similarity": similarity,
            "models": count,
            "samples": len(models[0]),
        },
        notes=_copy_notes(used),
    )


def _copy_notes(used: list[FloatArray]) -> tuple[str, ...]:
    """Models that found the very same latents agree, whatever they found."""
    for i, first in enumerate(used):
        for j in range(i + 1, len(used)):
            if _are_copies(first, used[j]):
                return (
                    f"models {i} and {j} found the same latents: a method that makes "
                    "the same mistake each time, such as one rotation, agrees with "
                    "itself as well as one that finds the sources",
                )
    return ()


def _are_copies(first: FloatArray, second: FloatArray) -> bool:
    if not (first.shape[1] and second.shape[1]):
        return False
    alike = correlation_matrix(first, second)
    return bool(min(alike.max(axis=0).min(), alike.max(axis=1).min()) > _COPY)


def _agreement(first: FloatArray, second: FloatArray, similarity: str) -> float:
    if first.shape[1] == 0 or second.shape[1] == 0:
        return 0.0
    if similarity == "spearman":
        matrix = correlation_matrix(first, second)
    else:
        matrix = _lasso_weights(first, second)
    total = sum(_relative_strength(part).sum() for part in (matrix, matrix.T))
    return float(total / sum(matrix.shape))


def _relative_strength(rows: FloatArray) -> FloatArray:
    total = rows.sum(axis=1)
    strength = np.zeros(len(rows))
    np.divide(rows.max(axis=1) ** 2, total, out=strength, where=total > 0)
    return strength


def _lasso_weights(first: FloatArray, second: FloatArray) -> FloatArray:
    from sklearn.linear_model import Lasso

    coefficients = Lasso(alpha=0.1).fit(first, second).coef_
    return np.abs(coefficients).reshape(second.shape[1], first.shape[1]).T
