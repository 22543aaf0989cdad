"""Aggregates of few runs and their uncertainty, as rliable defines them.

Scores are arrays of shape (runs, tasks): a task is a dataset, a run a seed. Resamples
of them have one axis more, in front; the aggregates then have a value for each.
"""

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
Statistic = Callable[..., npt.ArrayLike]


def interquartile_mean(scores: npt.ArrayLike) -> FloatArray:
    """Mean of the middle half of all runs of all tasks.

    A quarter of the runs is cut at each end, rounded down to whole runs: less sensitive
    to a single run than the mean, less wasteful than the median.

    Args:
        scores: (runs, tasks), or (runs,) for one task; (resamples, runs, tasks).

    Returns:
        The mean, as an array without axes; (resamples,) of resamples.

    Example:

    ```python
    interquartile_mean([0.0, 0.4, 0.6, 5.0])  # 0.5
    ```

    Reference:
        Agarwal et al. 2021, Deep RL at the Edge of the Statistical Precipice.
    """
    array = _by_task(scores)
    ordered = np.sort(array.reshape(*array.shape[:-2], -1), axis=-1)
    count = ordered.shape[-1]
    return np.mean(ordered[..., count // 4 : count - count // 4], axis=-1)


def probability_of_improvement(
    first: npt.ArrayLike, second: npt.ArrayLike
) -> FloatArray:
    """How likely a run of the first scores above a run of the second.

    For each task the share of pairs of runs in which the first is above, ties counting
    half (Mann and Whitney's U over the number of pairs); the mean over tasks.

    Args:
        first: (runs, tasks), or (runs,) for one task; (resamples, runs, tasks).
        second: Likewise; it may have another number of runs.

    Returns:
        The probability, as an array without axes; (resamples,) of resamples.

    Example:

    ```python
    probability_of_improvement([1.0, 2.0], [0.0, 2.0])  # 0.625
    ```

    Reference:
        Agarwal et al. 2021, Deep RL at the Edge of the Statistical Precipice.
    """
    ours, theirs = _by_task(first), _by_task(second)
    if ours.shape[-1] != theirs.shape[-1]:
        raise ValueError("Both need the same tasks.")
    difference = ours[..., :, None, :] - theirs[..., None, :, :]
    above = (difference > 0) + 0.5 * (difference == 0)
    return np.mean(above, axis=(-3, -2, -1))


def stratified_bootstrap(
    statistic: Statistic,
    samples: Sequence[npt.ArrayLike],
    *,
    num_resamples: int = 20_000,
    level: float = 0.95,
    seed: int = 0,
) -> tuple[float, float]:
    """Percentile interval of a statistic; runs are redrawn within each task.

    Args:
        statistic: Takes as many arrays (resamples, runs, tasks) as there are samples;
            returns a value for each resample.
        samples: Score arrays, each (runs, tasks) or (runs,).
        num_resamples: Number of resamples. The probability of improvement of five
            runs each has some 40 values, and with 2,000 resamples the ends of its
            interval were up to two of them off.
        level: Confidence.
        seed: Seed of the resamples.

    Returns:
        The ends of the interval.

    Example:

    ```python
    stratified_bootstrap(interquartile_mean, [[0.7, 0.8, 0.75, 0.9, 0.6]])
    ```

    Reference:
        Agarwal et al. 2021, Deep RL at the Edge of the Statistical Precipice.
    """
    arrays = [_by_task(sample) for sample in samples]
    # A generator for each sample, so that fewer resamples are the first of more.
    generators = np.random.default_rng(seed).spawn(len(arrays))
    drawn = (
        np.take_along_axis(
            array[None],
            rng.integers(len(array), size=(num_resamples, *array.shape)),
            axis=1,
        )
        for array, rng in zip(arrays, generators, strict=True)
    )
    values = np.asarray(statistic(*drawn))
    if values.shape != (num_resamples,):
        raise ValueError(
            f"A statistic of {num_resamples} resamples needs as many values; "
            f"received the shape {values.shape}"
        )
    outside = (1 - level) / 2
    low, high = np.quantile(values, [outside, 1 - outside])
    return float(low), float(high)


def _by_task(scores: npt.ArrayLike) -> FloatArray:
    array = np.asarray(scores, np.float64)
    return array[:, None] if array.ndim == 1 else array
