"""Sample efficiency: how much accuracy is left when labels are few?"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from qlayers.metrics import information
from qlayers.metrics._checks import (
    FloatArray,
    IntArray,
    check_at_least,
    check_choice,
)
from qlayers.metrics._estimators import ESTIMATORS as TREES
from qlayers.metrics._estimators import make_classifier
from qlayers.metrics._parallel import map_threads
from qlayers.metrics._sample import Sample
from qlayers.metrics.bootstrap import Bootstrap, add_intervals
from qlayers.metrics.logistic import fit_logistic
from qlayers.metrics.metric_result import MetricResult

_ESTIMATORS = ("logistic_regression", "logistic_regression_cv", *TREES)


@dataclass(frozen=True, eq=False, kw_only=True)
class SampleEfficiencyResult(MetricResult):
    """Downstream accuracy at two training sizes.

    Attributes:
        accuracy: By estimator, then by training size: mean test accuracy.
        efficiency: By estimator: accuracy at the small size over that at the large.
        accuracy_per_source: By estimator, then by training size: (n_s,).
    """

    title = "Sample efficiency"

    accuracy: Mapping[str, Mapping[int, float]]
    efficiency: Mapping[str, float]
    accuracy_per_source: Mapping[str, Mapping[int, FloatArray]]

    def scores(self) -> dict[str, float]:
        scores = {}
        for name, by_size in self.accuracy.items():
            scores[f"{name}_efficiency"] = self.efficiency[name]
            for rank, value in zip(("small", "large"), by_size.values(), strict=True):
                scores[f"{name}_accuracy_{rank}"] = value
        return scores


def sample_efficiency(
    sources: npt.ArrayLike,
    latents: npt.ArrayLike,
    *,
    estimators: Sequence[str] = ("logistic_regression", "gradient_boosting"),
    train_sizes: tuple[int, int] = (100, 10_000),
    test_samples: int = 5_000,
    seed: int = 0,
    bootstrap: Bootstrap | int | None = None,
    verbose: bool = True,
) -> SampleEfficiencyResult:
    """Compares downstream accuracy from few labels with that from many.

    Each source is predicted from all latents, once from `train_sizes[0]` samples and
    once from `train_sizes[1]`, on the same test samples; accuracies are averaged over
    sources before their ratio is taken.

    Args:
        sources: (samples, n_s) integers.
        latents: (samples, n_z) numbers.
        estimators: Any of `"logistic_regression"` (multinomial, C = 1),
            `"logistic_regression_cv"` (C chosen from 10 by 10-fold cross-validation,
            as disentanglement_lib does; slow), `"gradient_boosting"`,
            `"random_forest"`, `"lightgbm"`.
        train_sizes: The small and the large number of training samples; the numbers
            are Locatello et al.'s, whom the paper follows.
        test_samples: Samples that measure accuracy; never trained on.
        seed: Seed of the split and of the trees.
        bootstrap: Number of resamples, or a `Bootstrap`, for confidence intervals. A
            resample keeps the proportions of the sizes.
        verbose: Show progress if it takes longer than a second.

    Returns:
        A `SampleEfficiencyResult`.

    Example:
        >>> result = sample_efficiency(sources, latents)
        >>> result.efficiency["logistic_regression"]

    Reference:
        Friede et al. 2023, Learning Disentangled Discrete Representations, appendix
        4; Locatello et al. 2019, section 5.5.
    """
    if not estimators:
        raise ValueError("`estimators` must name at least one estimator.")
    for name in estimators:
        check_choice(name, _ESTIMATORS, "estimators")
    small, large = (check_at_least(size, 2, "train_sizes") for size in train_sizes)
    check_at_least(test_samples, 1, "test_samples")
    if small >= large:
        raise ValueError(f"`train_sizes` must ascend; received {train_sizes}.")
    sample = Sample(sources, latents)
    if large + test_samples > sample.size:
        raise ValueError(
            f"{large} training and {test_samples} test samples were asked for, but "
            f"`sources` has {sample.size}. Pass more samples or lower `train_sizes` "
            "and `test_samples`."
        )
    plan = _Plan(tuple(estimators), (small, large), test_samples, seed)
    return sample_efficiency_of(sample, plan, bootstrap, verbose)


@dataclass(frozen=True)
class _Plan:
    """Every choice made; sizes shrink with the sample."""

    estimators: tuple[str, ...]
    train_sizes: tuple[int, int]
    test_samples: int
    seed: int

    def shrunk(self, share: float) -> "_Plan":
        small, large = (max(2, int(size * share)) for size in self.train_sizes)
        tests = max(1, int(self.test_samples * share))
        return _Plan(self.estimators, (small, large), tests, self.seed)

    def parts(self, samples: int) -> tuple[IntArray, IntArray, IntArray]:
        """Rows to test, rows of the small training set, and what the large one adds."""
        order = np.random.RandomState(self.seed).permutation(samples)
        test, rest = order[: self.test_samples], order[self.test_samples :]
        small, large = self.train_sizes
        return test, rest[:small], rest[small:large]


def default_plan(
    estimators: Sequence[str], samples: int, seed: int, test_samples: int = 0
) -> _Plan:
    """The paper's sizes if there are enough samples, else their like.

    Args:
        estimators: Names of estimators.
        samples: How many samples there are.
        seed: Seed of the split.
        test_samples: How many of them measure accuracy; 0 takes the paper's number.
    """
    tests = test_samples or min(5_000, samples // 3)
    large = min(10_000, samples - tests)
    small = min(100, max(2, large // 10))
    return _Plan(tuple(estimators), (small, large), tests, seed)


def sample_efficiency_of(
    sample: Sample,
    plan: _Plan,
    bootstrap: Bootstrap | int | None = None,
    verbose: bool = True,
) -> SampleEfficiencyResult:
    """`sample_efficiency` for a checked sample."""

    def plan_for(size: int) -> _Plan:
        return plan.shrunk(size / sample.size)

    return add_intervals(
        _score(sample, plan, verbose),
        lambda rows: _score(sample.rows(rows), plan_for(len(rows)), False),
        sample.size,
        bootstrap,
        bounds=(0.0, np.inf),
        parts_of=lambda size: plan_for(size).parts(size),
    )


def _score(sample: Sample, plan: _Plan, verbose: bool) -> SampleEfficiencyResult:
    test, first, more = plan.parts(sample.size)
    trained = (first, np.concatenate([first, more]))
    columns = np.flatnonzero(sample.varying).tolist()
    per_source: dict[str, dict[int, FloatArray]] = {}
    for name in plan.estimators:
        per_source[name] = {}
        for size, train in zip(plan.train_sizes, trained, strict=True):
            values = np.full(sample.num_sources, np.nan)

            def accuracy(
                column: int, name: str = name, train: IntArray = train
            ) -> float:
                labels = sample.source_symbols[:, column]
                guess = _predict(
                    name, sample.real_latents, labels, train, test, plan.seed
                )
                return float(np.mean(guess == labels[test]))

            label = f"sample efficiency, {name}, {size} samples"
            values[columns] = map_threads(
                accuracy, columns, label=label, verbose=verbose
            )
            per_source[name][size] = values
    return _result(sample, plan, per_source)


def _result(
    sample: Sample, plan: _Plan, per_source: dict[str, dict[int, FloatArray]]
) -> SampleEfficiencyResult:
    accuracy = {
        name: {
            size: float(np.nanmean(values)) if sample.varying.any() else 0.0
            for size, values in by_size.items()
        }
        for name, by_size in per_source.items()
    }
    efficiency = {}
    for name, by_size in accuracy.items():
        small, large = by_size.values()
        efficiency[name] = small / large if large > 0 else 0.0
    settings = {
        "train_sizes": plan.train_sizes,
        "test_samples": plan.test_samples,
        "seed": plan.seed,
        **sample.shape_settings,
    }
    return SampleEfficiencyResult(
        accuracy=accuracy,
        efficiency=efficiency,
        accuracy_per_source=per_source,
        settings=settings,
        notes=sample.constant_notes(),
    )


def _predict(
    name: str,
    latents: FloatArray,
    labels: IntArray,
    train: IntArray,
    test: IntArray,
    seed: int,
) -> IntArray:
    names = np.unique(labels[train])
    if len(names) == 1:
        return np.full(len(test), names[0])
    known = information.symbols(labels[train])
    if name == "logistic_regression":
        fit = fit_logistic(latents[train], known, l2=1 / len(train), tolerance=1e-9)
        return names[fit.predict(latents[test])]
    model = _model(name, seed)
    model.fit(latents[train], known)
    return names[model.predict(latents[test])]


def _model(name: str, seed: int) -> Any:
    if name != "logistic_regression_cv":
        return make_classifier(name, seed, n_jobs=1)
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV, KFold

    strengths = {"C": np.logspace(-4, 4, 10)}
    model = LogisticRegression(max_iter=1000)
    return GridSearchCV(model, strengths, cv=KFold(n_splits=10))
