"""DCI: disentanglement, completeness and informativeness of trees' importances."""

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from qlayers.metrics._boosted_trees import compiled_trees
from qlayers.metrics._checks import BoolArray, FloatArray, IntArray, check_choice
from qlayers.metrics._counted_forest import CountedForest, ForestSample
from qlayers.metrics._domain import domain_notes
from qlayers.metrics._estimators import (
    BACKENDS,
    ESTIMATORS,
    importances,
    make_classifier,
)
from qlayers.metrics._parallel import map_threads
from qlayers.metrics._progress import Progress
from qlayers.metrics._sample import Sample, split
from qlayers.metrics.bootstrap import Bootstrap, add_intervals
from qlayers.metrics.metric_result import MetricResult

# Tripod trained on 9,000 and tested on 1,000; Locatello et al. on 10,000 and 5,000.
_TEST_SIZE = {"random_forest": 0.1, "gradient_boosting": 1 / 3, "lightgbm": 1 / 3}


@dataclass(frozen=True, eq=False, kw_only=True)
class DCIResult(MetricResult):
    """DCI with the importances behind it.

    Attributes:
        disentanglement: Mean over latents, weighted by their importance.
        completeness: Mean over sources, weighted by their importance.
        informativeness: Mean test accuracy.
        informativeness_train: Mean training accuracy.
        importance: (n_z, n_s); columns of constant sources are 0.
        disentanglement_per_latent: (n_z,).
        completeness_per_source: (n_s,); NaN for constant sources.
        accuracy_per_source: (n_s,) test accuracies; NaN for constant sources.
        active: (n_z,) latents that any tree used.
    """

    title = "DCI"
    score_names = ("disentanglement", "completeness", "informativeness")

    disentanglement: float
    completeness: float
    informativeness: float
    informativeness_train: float
    importance: FloatArray
    disentanglement_per_latent: FloatArray
    completeness_per_source: FloatArray
    accuracy_per_source: FloatArray
    active: BoolArray


def dci(
    sources: npt.ArrayLike,
    latents: npt.ArrayLike,
    *,
    estimator: str = "random_forest",
    test_size: float | int | None = None,
    train_size: int | None = None,
    backend: str = "auto",
    seed: int = 0,
    bootstrap: Bootstrap | int | None = None,
    verbose: bool = True,
) -> DCIResult:
    """Scores latents by how trees predict each source from all of them.

    The importance matrix R (latents x sources) of one classifier per source gives
    disentanglement, 1 - H(row of R) / log n_s, and completeness,
    1 - H(column of R) / log n_z, as means weighted by total importance.

    Forests and boosting give different numbers for the same latents: name the
    estimator when reporting. Trees follow the order of values, so for latents from an
    unsorted codebook pass values (`lookup(codes)`) rather than indices.

    Args:
        sources: (samples, n_s) integers.
        latents: (samples, n_z) numbers.
        estimator: `"random_forest"` (Tripod: 100 trees, entropy, depth 10, latents
            standardised), `"gradient_boosting"` (Locatello et al., FactorQVAE, Cliff:
            scikit-learn's defaults) or `"lightgbm"` (a histogram booster with gain
            importances: Another estimator, needs the package lightgbm).
        test_size: Fraction (below 1) or number of samples that measure accuracy; by
            default 0.1 for forests (Tripod) and 1/3 for boosting (10,000 to 5,000).
        train_size: Number of samples to train on; by default all others. The papers'
            boosting has `train_size=10_000, test_size=5_000`.
        backend: `"auto"` takes this package's loops over trees where they are faster:
            they give scikit-learn's numbers, compiled if numba is installed
            (`pip install keras-qlayers[fast]`). `"scikit_learn"` takes its classes,
            for checks.
        seed: Seed of the split and of the trees; Tripod's split has 42.
        bootstrap: Number of resamples, or a `Bootstrap`, for confidence intervals.
        verbose: Show progress if it takes longer than a second.

    Returns:
        A `DCIResult`.

    Example:
        >>> result = dci(sources, latents)
        >>> result.disentanglement, result.importance.shape

    Reference:
        Eastwood and Williams 2018, A Framework for the Quantitative Evaluation of
        Disentangled Representations; Hsu et al. 2024, Tripod, section 2.1.
    """
    check_choice(estimator, ESTIMATORS, "estimator")
    check_choice(backend, BACKENDS, "backend")
    plan = _Plan(estimator, test_size, train_size, backend, seed)
    return dci_by(Sample(sources, latents), plan, bootstrap, verbose)


@dataclass(frozen=True)
class _Plan:
    """Every choice made; counts of samples shrink with the sample."""

    estimator: str
    test_size: float | int | None = None
    train_size: int | None = None
    backend: str = "auto"
    seed: int = 0

    @property
    def tested(self) -> float | int:
        default = _TEST_SIZE[self.estimator]
        return default if self.test_size is None else self.test_size

    def parts(self, samples: int) -> tuple[IntArray, IntArray]:
        """Rows to train on and rows to test."""
        return split(samples, self.tested, self.seed, self.train_size)

    def shrunk(self, share: float) -> "_Plan":
        sizes = {
            name: max(1, int(size * share))
            for name, size in (
                ("test_size", self.tested),
                ("train_size", self.train_size),
            )
            if size is not None and size >= 1
        }
        return dataclasses.replace(self, **sizes)  # type: ignore[arg-type]


def dci_of(
    sample: Sample,
    estimator: str = "random_forest",
    test_size: float | None = None,
    seed: int = 0,
    bootstrap: Bootstrap | int | None = None,
    verbose: bool = True,
) -> DCIResult:
    """`dci` for a checked sample."""
    return dci_by(sample, _Plan(estimator, test_size, seed=seed), bootstrap, verbose)


def dci_by(
    sample: Sample,
    plan: _Plan,
    bootstrap: Bootstrap | int | None = None,
    verbose: bool = True,
) -> DCIResult:
    """`dci` by a plan, of the sample and of its resamples."""

    def plan_for(size: int) -> _Plan:
        return plan.shrunk(size / sample.size)

    return add_intervals(
        _score(sample, plan, verbose),
        lambda rows: _score(sample.rows(rows), plan_for(len(rows)), False),
        sample.size,
        bootstrap,
        parts_of=lambda size: plan_for(size).parts(size),
    )


def disentanglement_scores(importance: FloatArray) -> tuple[FloatArray, float]:
    """Per row and weighted mean of 1 - H(row) / log(columns)."""
    rows, columns = importance.shape
    weight = importance.sum(axis=1)
    if columns == 1:
        per_row = np.ones(rows)
    else:
        # The constant is disentanglement_lib's; empty rows become uniform by it.
        share = importance + 1e-11
        share = share / share.sum(axis=1, keepdims=True)
        per_row = 1 + (share * np.log(share)).sum(axis=1) / np.log(columns)
    if weight.sum() == 0:
        weight = np.ones(rows)
    return per_row, float(per_row @ weight / weight.sum())


def _score(sample: Sample, plan: _Plan, verbose: bool) -> DCIResult:
    varying = np.flatnonzero(sample.varying)
    importance = np.zeros((sample.num_latents, sample.num_sources))
    accuracy = np.full((2, sample.num_sources), np.nan)
    if len(varying):
        fits = _fit_all(sample, varying, plan, verbose)
        importance[:, varying] = np.stack([fit[0] for fit in fits], axis=1)
        accuracy[:, varying] = np.array([fit[1] for fit in fits]).T
    return _result(sample, importance, accuracy, plan)


def _result(
    sample: Sample,
    importance: FloatArray,
    accuracy: FloatArray,
    plan: _Plan,
) -> DCIResult:
    per_source = np.full(sample.num_sources, np.nan)
    per_latent = np.zeros(sample.num_latents)
    scores = [0.0, 0.0, 0.0, 0.0]
    if sample.varying.any():
        known = importance[:, sample.varying]
        per_latent, scores[0] = disentanglement_scores(known)
        per_source[sample.varying], scores[1] = disentanglement_scores(known.T)
        scores[2:] = np.nanmean(accuracy, axis=1).tolist()
    settings = {
        "estimator": plan.estimator,
        "test_size": round(plan.tested, 4),
        "train_size": plan.train_size,
        "seed": plan.seed,
        **_versions(plan),
        **sample.shape_settings,
    }
    return DCIResult(
        disentanglement=scores[0],
        completeness=scores[1],
        informativeness=scores[2],
        informativeness_train=scores[3],
        importance=importance,
        disentanglement_per_latent=per_latent,
        completeness_per_source=per_source,
        accuracy_per_source=accuracy[0],
        active=importance.sum(axis=1) > 0,
        settings=settings,
        notes=(*sample.constant_notes(), *domain_notes(sample, "trees")),
    )


def _fit_all(
    sample: Sample, columns: IntArray, plan: _Plan, verbose: bool
) -> list[tuple[FloatArray, tuple[float, float]]]:
    train, test = plan.parts(sample.size)
    forest = plan.estimator == "random_forest"
    features = sample.standardized if forest else sample.real_latents
    label = f"DCI, {plan.estimator}"
    # Features and bootstraps are the same for every source.
    counted = None
    if forest and plan.backend == "auto":
        counted = ForestSample.of(features[train], plan.seed)
    threaded = counted is None and plan.estimator != "gradient_boosting"

    def fit(column: int) -> tuple[FloatArray, tuple[float, float]]:
        labels = sample.source_symbols[:, column]
        if len(np.unique(labels[train])) < 2:
            # The split left one class: nothing to learn, everything is predicted so.
            guess = labels[train][0]
            right = float(np.mean(labels[test] == guess))
            return np.zeros(sample.num_latents), (right, 1.0)
        if counted is not None:
            model: Any = CountedForest(plan.seed).fit_sample(counted, labels[train])
        else:
            jobs = -1 if threaded else 1
            model = make_classifier(plan.estimator, plan.seed, jobs, plan.backend)
            model.fit(features[train], labels[train])
        tested = float(np.mean(model.predict(features[test]) == labels[test]))
        trained = float(
            np.mean(_guess_training(model, features, train) == labels[train])
        )
        return importances(model), (tested, trained)

    if not threaded:
        # One core per model: spread the sources over the cores.
        return map_threads(fit, columns.tolist(), label=label, verbose=verbose)
    results = []
    with Progress(len(columns), label, verbose) as progress:
        for column in columns.tolist():
            results.append(fit(column))
            progress.advance()
    return results


def _guess_training(
    model: Any, features: FloatArray, train: IntArray
) -> npt.NDArray[Any]:
    """Predictions of the training samples, which some models know from fitting."""
    if hasattr(model, "predict_training"):
        return model.predict_training()
    return model.predict(features[train])


def _versions(plan: _Plan) -> dict[str, str]:
    """Tree scores drift with the library, so the result names its version."""
    if plan.estimator == "lightgbm":
        import lightgbm

        return {"lightgbm": lightgbm.__version__}
    if plan.estimator == "gradient_boosting" and plan.backend == "auto":
        return {"trees": "numpy" if compiled_trees() is None else "numba"}
    import sklearn

    return {"scikit_learn": sklearn.__version__}
