"""DCI-ES: DCI, and how much capacity a probe needs to read the sources."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from qlayers.metrics._checks import (
    FloatArray,
    IntArray,
    check_at_least,
    check_real_sources,
    column_indices,
)
from qlayers.metrics._domain import domain_notes
from qlayers.metrics._parallel import map_threads
from qlayers.metrics._sample import Sample, split, varying_columns
from qlayers.metrics.bootstrap import Bootstrap, add_intervals
from qlayers.metrics.dci import disentanglement_scores
from qlayers.metrics.metric_result import MetricResult

# Depths of the authors' forests.
DEPTHS = (1, 2, 3, 4, 8, 10, 12, 14, 16, 18, 20, 32)
# Classes that stand for the values of a continuous source in the notes.
_CLASSES = 10


@dataclass(frozen=True, eq=False, kw_only=True)
class DCIESResult(MetricResult):
    """DCI-ES with the loss-capacity curves behind it.

    Attributes:
        disentanglement: Of the importances of the most informative probe.
        completeness: Likewise.
        informativeness: Mean test score of the most informative probe: accuracy, or R²
            of continuous sources.
        explicitness: Mean over sources; 1 if the smallest probe reads as much as any.
        size: Number of sources that vary over number of latents.
        explicitness_per_source: (n_s,); NaN for constant sources.
        losses: (depths, n_s) test losses: 1 - accuracy, or 1 - R².
        capacities: (depths,) depths of the probes.
        importance: (n_z, n_s) of the most informative probe.
        best_depth: Its depth.
    """

    title = "DCI-ES"
    score_names = (
        "disentanglement",
        "completeness",
        "informativeness",
        "explicitness",
        "size",
    )

    disentanglement: float
    completeness: float
    informativeness: float
    explicitness: float
    size: float
    explicitness_per_source: FloatArray
    losses: FloatArray
    capacities: IntArray
    importance: FloatArray
    best_depth: int


@dataclass(frozen=True)
class _Plan:
    """Every choice made."""

    depths: tuple[int, ...]
    num_trees: int
    continuous: frozenset[int]
    test_size: float
    seed: int


def dci_es(
    sources: npt.ArrayLike,
    latents: npt.ArrayLike,
    *,
    depths: Sequence[int] = DEPTHS,
    num_trees: int = 100,
    continuous_sources: Sequence[int | str] = (),
    test_size: float = 1 / 3,
    seed: int = 0,
    bootstrap: Bootstrap | int | None = None,
    verbose: bool = True,
) -> DCIESResult:
    """Scores latents by probes of growing capacity: forests of growing depth.

    A probe's loss is 1 minus its test accuracy. The loss-capacity curve of a source is
    the least loss up to each depth. Explicitness compares the area between the curve
    and its end with that under a straight line from the loss of guessing to 0:

        E = 1 - 2 * area / ((deepest - shallowest) * (1 - 1 / values))

    A curve that is flat from the first depth on gives 1, *whatever its height*: a code
    without information is explicit too. Read E beside the informativeness. D, C and I
    are those of the depth with the highest informativeness.

    Args:
        sources: (samples, n_s) integers; in `continuous_sources` any numbers.
        latents: (samples, n_z) numbers.
        depths: Ascending depths of the forests.
        num_trees: Trees in each forest.
        continuous_sources: Columns that are predicted by regression, by position or,
            for a data frame, by name; their score is R², and guessing has the loss 1.
        test_size: Fraction of the samples, below 1, that measure the loss.
        seed: Seed of the split and of the trees.
        bootstrap: Number of resamples, or a `Bootstrap`, for confidence intervals.
        verbose: Show progress if it takes longer than a second.

    Returns:
        A `DCIESResult`.

    Example:
        >>> result = dci_es(sources, latents, depths=(1, 4, 16), num_trees=10)
        >>> result.explicitness, result.size, result.losses.shape

    Reference:
        Eastwood et al. 2023, DCI-ES: An Extended Disentanglement Framework with
        Connections to Identifiability; probes, losses and areas of its public code.
    """
    columns = column_indices(continuous_sources, sources, "continuous_sources")
    sample = _MixedSample(sources, latents, columns)
    plan = _Plan(
        tuple(check_at_least(depth, 1, "depths") for depth in depths),
        check_at_least(num_trees, 1, "num_trees"),
        sample.continuous,
        test_size,
        seed,
    )
    if len(plan.depths) < 2 or sorted(set(plan.depths)) != list(plan.depths):
        raise ValueError(
            f"`depths` must be at least two and ascend; received {tuple(depths)}."
        )
    return add_intervals(
        _score(sample, plan, verbose),
        lambda rows: _score(sample.rows(rows), plan, False),
        sample.size,
        bootstrap,
        bounds=(-np.inf, np.inf),
        parts_of=lambda size: split(size, test_size, seed),
    )


def loss_capacity_explicitness(
    capacities: npt.ArrayLike, losses: npt.ArrayLike, baseline: float
) -> float:
    """Explicitness of one loss-capacity curve.

    Args:
        capacities: (probes,) ascending.
        losses: (probes,) loss of each.
        baseline: Loss of guessing.
    """
    x = np.asarray(capacities, np.float64)
    least = np.minimum.accumulate(np.asarray(losses, np.float64))
    above = least - least[-1]
    area = (np.diff(x) * (above[1:] + above[:-1]) / 2).sum()
    return float(1 - 2 * area / ((x[-1] - x[0]) * baseline))


class _MixedSample(Sample):
    """Sources of which some columns are real numbers.

    In `sources`, which notes are about, classes of neighbouring numbers stand for them.

    Args:
        sources: (samples, n_s) integers; in `continuous` any numbers.
        latents: (samples, n_z) numbers.
        continuous: Columns of real numbers.

    Attributes:
        targets: (samples, n_s) the sources as they were given.
        continuous: The columns of real numbers.
    """

    def __init__(self, sources: Any, latents: Any, continuous: Iterable[int]) -> None:
        self.continuous = frozenset(continuous)
        if not self.continuous:
            super().__init__(sources, latents)
            self.targets = self.sources.astype(np.float64)
            return
        self.targets = check_real_sources(sources)
        count = self.targets.shape[1]
        for column in self.continuous:
            if not 0 <= column < count:
                raise ValueError(
                    f"`continuous_sources` names column {column}; `sources` has "
                    f"{count}."
                )
        columns = sorted(self.continuous)
        classes = self.targets.copy()
        classes[:, columns] = _classes(self.targets[:, columns])
        super().__init__(classes, latents)

    def rows(self, rows: IntArray) -> "_MixedSample":
        return _MixedSample(self.targets[rows], self.latents[rows], self.continuous)


def _classes(columns: FloatArray) -> FloatArray:
    """Values of each column in ascending order, in at most ten groups of equal size."""
    classes = np.zeros(columns.shape)
    for index in np.flatnonzero(varying_columns(columns)):
        values, symbols = np.unique(columns[:, index], return_inverse=True)
        groups = symbols.reshape(-1) * _CLASSES // max(_CLASSES, len(values))
        classes[:, index] = groups
    return classes


def _score(sample: _MixedSample, plan: _Plan, verbose: bool) -> DCIESResult:
    columns = np.flatnonzero(sample.varying)
    losses = np.full((len(plan.depths), sample.num_sources), np.nan)
    importance = np.zeros((len(plan.depths), sample.num_latents, sample.num_sources))
    train, test = split(sample.size, plan.test_size, plan.seed)
    work = [(place, int(c)) for place in range(len(plan.depths)) for c in columns]

    def fit(item: tuple[int, int]) -> tuple[FloatArray, float]:
        place, column = item
        return _probe(sample, column, plan.depths[place], plan, train, test)

    found = map_threads(fit, work, label="DCI-ES", verbose=verbose)
    for (place, column), (weights, score) in zip(work, found, strict=True):
        importance[place, :, column] = weights
        losses[place, column] = 1 - score
    return _result(sample, plan, losses, importance)


def _probe(
    sample: _MixedSample,
    column: int,
    depth: int,
    plan: _Plan,
    train: IntArray,
    test: IntArray,
) -> tuple[FloatArray, float]:
    """Importances and test score of one forest."""
    features = sample.real_latents
    continuous = column in plan.continuous
    target: npt.NDArray[Any] = sample.source_symbols[:, column]
    if continuous:
        target = sample.targets[:, column]
    model = _forest(continuous, depth, plan)
    model.fit(features[train], target[train])
    return model.feature_importances_, float(model.score(features[test], target[test]))


def _forest(continuous: bool, depth: int, plan: _Plan) -> Any:
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    kind = RandomForestRegressor if continuous else RandomForestClassifier
    return kind(
        n_estimators=plan.num_trees, max_depth=depth, random_state=plan.seed, n_jobs=1
    )


def _result(
    sample: Sample, plan: _Plan, losses: FloatArray, importance: FloatArray
) -> DCIESResult:
    explicit = np.full(sample.num_sources, np.nan)
    for column in np.flatnonzero(sample.varying):
        values = int(sample.source_symbols[:, column].max()) + 1
        baseline = 1.0 if column in plan.continuous else 1 - 1 / values
        explicit[column] = loss_capacity_explicitness(
            plan.depths, losses[:, column], baseline
        )
    best, scores = 0, [0.0] * 4
    if sample.varying.any():
        informative = 1 - np.nanmean(losses, axis=1)
        best = int(informative.argmax())
        known = importance[best][:, sample.varying]
        scores = [
            disentanglement_scores(known)[1],
            disentanglement_scores(known.T)[1],
            float(informative[best]),
            float(np.nanmean(explicit)),
        ]
    return DCIESResult(
        disentanglement=scores[0],
        completeness=scores[1],
        informativeness=scores[2],
        explicitness=scores[3],
        size=int(sample.varying.sum()) / sample.num_latents,
        explicitness_per_source=explicit,
        losses=losses,
        capacities=np.array(plan.depths),
        importance=importance[best],
        best_depth=plan.depths[best],
        settings=_settings(sample, plan),
        notes=(
            *sample.constant_notes(),
            *domain_notes(sample, "trees"),
            *_guessing_notes(sample, plan, losses),
        ),
    )


def _settings(sample: Sample, plan: _Plan) -> dict[str, Any]:
    import sklearn

    return {
        "depths": plan.depths,
        "num_trees": plan.num_trees,
        "continuous_sources": tuple(sorted(plan.continuous)) or None,
        "test_size": round(plan.test_size, 4),
        "seed": plan.seed,
        "scikit_learn": sklearn.__version__,
        **sample.shape_settings,
    }


def _guessing_notes(sample: Sample, plan: _Plan, losses: FloatArray) -> list[str]:
    """No probe beats guessing: the curve is flat, and E is near 1 for nothing."""
    flat = []
    for column in np.flatnonzero(sample.varying):
        counts = np.bincount(sample.source_symbols[:, column])
        guess = 1.0 if column in plan.continuous else 1 - counts.max() / sample.size
        # A tenth of the loss: above what a test sample shows by chance.
        if np.nanmin(losses[:, column]) > 0.9 * guess:
            flat.append(str(column))
    if not flat:
        return []
    return [
        f"no probe predicts source {', '.join(flat)} much better than guessing: its "
        "curve is flat, and explicitness near 1 means nothing"
    ]
