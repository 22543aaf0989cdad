"""Confidence intervals for scores of one evaluation sample."""

import dataclasses
from collections.abc import Callable
from typing import TypeAlias, TypeVar

import numpy as np

from qlayers.metrics._checks import FloatArray, IntArray, check_at_least, check_choice
from qlayers.metrics._progress import Progress
from qlayers.metrics.metric_result import MetricResult

AnyResult = TypeVar("AnyResult", bound=MetricResult)
PartsOf: TypeAlias = Callable[[int], tuple[IntArray, ...]]
_METHODS = ("half_sample", "with_replacement")


@dataclasses.dataclass(frozen=True)
class Bootstrap:
    """How to resample for a confidence interval.

    The interval covers the evaluation sample's randomness: the model is fixed. For
    the spread over training runs, repeat the training.

    Args:
        num_resamples: How often the score is computed anew. With fewer than 40 (for a
            confidence of 0.95) no resample lies in the tails; half samples then give a
            t-interval from their standard deviation. Eight suit scores that take long.
        confidence: Coverage of the interval.
        method: `"half_sample"` draws half of the samples without replacement; the
            scores' spread around their mean then equals that of the whole sample.
            `"with_replacement"` is the classic percentile bootstrap. Repeated samples
            put neighbours at distance zero and add bias to histograms, so most scores
            here need the former. Either way a sample that trained trains again, and
            one that tested tests again.
        seed: Seed of the draws.
        verbose: Show progress if it takes longer than a second.

    Example:
        >>> result = mig(sources, latents, bootstrap=Bootstrap(500))
        >>> result.intervals["mig"]

    Reference:
        Efron and Tibshirani 1993; Wu 1990, On the Asymptotic Properties of the
        Jackknife Histogram (half samples).
    """

    num_resamples: int = 200
    confidence: float = 0.95
    method: str = "half_sample"
    seed: int = 0
    verbose: bool = True

    def __post_init__(self) -> None:
        check_at_least(self.num_resamples, 2, "num_resamples")
        check_choice(self.method, _METHODS, "method")
        if not 0 < self.confidence < 1:
            raise ValueError(
                f"`confidence` must lie between 0 and 1; received {self.confidence!r}."
            )

    def draw(self, samples: int, parts_of: PartsOf | None = None) -> list[IntArray]:
        """The rows of every resample.

        Args:
            samples: Size of the sample.
            parts_of: Rows of each part (training, test, ...) of a sample of some size.
                A row stays in its part.
        """
        generator = np.random.default_rng(self.seed)
        replace = self.method == "with_replacement"
        size = samples if replace else samples // 2
        if parts_of is None:
            parts_of = _one_part
        parts, places = parts_of(samples), parts_of(size)
        unused = np.setdiff1d(np.arange(size), np.concatenate(places))
        resamples = []
        for _ in range(self.num_resamples):
            rows = np.full(size, -1)
            for place, part in zip(places, parts, strict=True):
                rows[place] = generator.choice(part, len(place), replace=replace)
            left = np.setdiff1d(np.arange(samples), rows)
            rows[unused] = generator.choice(left, len(unused), replace=replace)
            resamples.append(rows)
        return resamples

    def interval(
        self, estimate: float, scores: FloatArray, samples: int
    ) -> tuple[float, float]:
        """The interval around `estimate` from the scores of the resamples."""
        tails = [(1 - self.confidence) / 2, (1 + self.confidence) / 2]
        if self.method == "with_replacement":
            low, high = np.quantile(scores, tails)
            return float(low), float(high)
        half = samples // 2
        # Centring removes the bias of smaller samples; the factor is 1 for even sizes.
        spread = (scores - scores.mean()) * np.sqrt(half / (samples - half))
        if len(scores) < 2 / (1 - self.confidence) and np.isfinite(spread).all():
            width = _t_quantile(tails[1], len(scores) - 1) * spread.std(ddof=1)
            return float(estimate - width), float(estimate + width)
        low, high = estimate - np.quantile(spread, tails[::-1])
        return float(low), float(high)


def _one_part(samples: int) -> tuple[IntArray, ...]:
    return (np.arange(samples),)


def _t_quantile(level: float, freedom: int) -> float:
    from scipy import stats

    return float(stats.t.ppf(level, freedom))


def add_intervals(
    result: AnyResult,
    rescore: Callable[[IntArray], MetricResult],
    samples: int,
    bootstrap: Bootstrap | int | None,
    bounds: tuple[float, float] = (0.0, 1.0),
    parts_of: PartsOf | None = None,
) -> AnyResult:
    """Returns `result` with confidence intervals, if `bootstrap` asks for them.

    Args:
        result: The score of the whole sample.
        rescore: Computes the score for some rows of the sample.
        samples: Number of rows.
        bootstrap: A number of resamples, a `Bootstrap`, or None for no intervals.
        bounds: The range of the scores; intervals are cut there.
        parts_of: For a score that trains on some rows and tests on others: the rows of
            each part, by the number of rows.
    """
    if bootstrap is None or (isinstance(bootstrap, int) and bootstrap == 0):
        return result
    plan = Bootstrap(bootstrap) if isinstance(bootstrap, int) else bootstrap
    if plan.method == "half_sample" and samples < 4:
        raise ValueError(
            f"`bootstrap` by half samples needs at least 4 samples; received {samples}."
        )
    scores: dict[str, list[float]] = {name: [] for name in result.scores()}
    with Progress(plan.num_resamples, "bootstrap", plan.verbose) as progress:
        for rows in plan.draw(samples, parts_of):
            for name, value in rescore(rows).scores().items():
                scores[name].append(value)
            progress.advance()
    intervals = {}
    for name, estimate in result.scores().items():
        low, high = plan.interval(estimate, np.array(scores[name]), samples)
        intervals[name] = (max(low, bounds[0]), min(high, bounds[1]))
    settings = {**result.settings, "bootstrap": _describe(plan)}
    return dataclasses.replace(result, intervals=intervals, settings=settings)


def _describe(plan: Bootstrap) -> str:
    return f"{plan.num_resamples} x {plan.method}, {plan.confidence:.0%}"
