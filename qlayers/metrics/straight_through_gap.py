"""Straight-through gap: what rounding the latents to codes costs a model."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from qlayers.metrics._checks import FloatArray, IntArray
from qlayers.metrics.bootstrap import Bootstrap, add_intervals
from qlayers.metrics.metric_result import MainScore, MetricResult

Losses = npt.ArrayLike | Callable[[Any], Any]


@dataclass(frozen=True, eq=False, kw_only=True)
class StraightThroughGapResult(MainScore, MetricResult):
    """The gap between a model's loss with hard and with soft latents.

    Attributes:
        gap: Absolute difference of the two means.
        soft_loss: Mean loss with latents as the relaxation gives them.
        hard_loss: Mean loss with latents rounded to their most probable code.
        soft_losses: (batches,).
        hard_losses: (batches,).
    """

    title = "Straight-through gap"
    score_names = ("gap", "soft_loss", "hard_loss")

    gap: float
    soft_loss: float
    hard_loss: float
    soft_losses: FloatArray
    hard_losses: FloatArray


def straight_through_gap(
    soft: Losses,
    hard: Losses,
    batches: Iterable[Any] | None = None,
    *,
    bootstrap: Bootstrap | int | None = None,
) -> StraightThroughGapResult:
    """Measures how discrete a model's latents are, without labels.

    The absolute value is taken after averaging over batches. A gap of 0 means that
    the relaxed latents already are codes; small gaps go with disentangled models, so
    the model with the smallest one can be chosen. Evaluate without noise. The text
    compares ELBOs; its code compares total training losses, which differ by the total
    correlation term.

    Args:
        soft: Loss per batch (numbers), or a function from a batch to its loss.
        hard: The same with rounded latents.
        batches: The batches, if `soft` and `hard` are functions; each is read once.
            The paper's code uses 1,000 batches of 64.
        bootstrap: Number of resamples, or a `Bootstrap`, for confidence intervals.

    Returns:
        A `StraightThroughGapResult`.

    Example:
        >>> straight_through_gap(
        ...     lambda x: elbo(x, hard=False), lambda x: elbo(x, hard=True), batches)

    Reference:
        Friede et al. 2023, Learning Disentangled Discrete Representations,
        section 3.4.
    """
    if callable(soft) != callable(hard):
        raise ValueError(
            "`soft` and `hard` must both be functions or both be losses per batch."
        )
    if callable(soft) and callable(hard):
        if batches is None:
            raise ValueError("`batches` must be given when `soft` is a function.")
        pairs = [(_number(soft(batch)), _number(hard(batch))) for batch in batches]
        if not pairs:
            raise ValueError("`batches` is empty.")
        soft, hard = np.array(pairs).T
    soft_losses, hard_losses = _losses(soft, "soft"), _losses(hard, "hard")
    if soft_losses.shape != hard_losses.shape:
        raise ValueError(
            "`soft` and `hard` must hold one loss for each of the same batches; "
            f"received {len(soft_losses)} and {len(hard_losses)}."
        )

    def score(rows: IntArray | slice) -> StraightThroughGapResult:
        return _score(soft_losses[rows], hard_losses[rows])

    return add_intervals(
        score(slice(None)),
        score,
        len(soft_losses),
        bootstrap,
        bounds=(-np.inf, np.inf),
    )


def _score(soft: FloatArray, hard: FloatArray) -> StraightThroughGapResult:
    return StraightThroughGapResult(
        gap=float(abs(hard.mean() - soft.mean())),
        soft_loss=float(soft.mean()),
        hard_loss=float(hard.mean()),
        soft_losses=soft,
        hard_losses=hard,
        settings={"batches": len(soft)},
    )


def _number(loss: Any) -> float:
    return float(np.asarray(loss, np.float64).mean())


def _losses(losses: Any, name: str) -> FloatArray:
    array = np.asarray(losses, np.float64)
    if array.ndim != 1 or len(array) == 0:
        raise ValueError(
            f"`{name}` must hold one loss per batch, shape (batches,); received shape "
            f"{array.shape}."
        )
    if not np.isfinite(array).all():
        raise ValueError(f"`{name}` holds losses that are NaN or infinite.")
    return array
