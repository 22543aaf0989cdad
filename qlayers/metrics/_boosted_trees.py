"""Gradient boosting with scikit-learn's numbers, many times faster."""

from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from qlayers.metrics._checks import FloatArray, IntArray
from qlayers.metrics._counted import CountedFeatures

_STAGES, _RATE, _DEPTH = 100, 0.1, 3
_SEEDS = 2**31 - 1


def compiled_trees() -> ModuleType | None:
    """The compiled loops, or None where numba is not installed."""
    try:
        from qlayers.metrics import _trees
    except ImportError:
        return None
    return _trees


class BoostedTrees:
    """scikit-learn's `GradientBoostingClassifier` with its default settings.

    100 stages of one tree a class (one in all for two classes), depth 3, learning rate
    0.1; trees fit the gradient of the log-loss, leaves take one Newton step.

    Features of few values are counted: their histograms are exact, and only the order
    of additions differs from scikit-learn's, so that ties may fall otherwise. Others
    are sorted once, and every sum has scikit-learn's order: predictions and
    importances are equal to its own for the same seed.

    Args:
        seed: `random_state` of scikit-learn's: it decides between equal splits.
        compiled: False takes the loops in NumPy though numba is installed.
    """

    def __init__(self, seed: int = 0, compiled: bool = True) -> None:
        self._seed = seed
        loops = compiled_trees() if compiled else None
        if loops is None:
            from qlayers.metrics import _trees_numpy as loops  # type: ignore[no-redef]
        self._loops: Any = loops

    def fit(self, features: npt.ArrayLike, labels: npt.ArrayLike) -> "BoostedTrees":
        self.classes_, known = np.unique(np.asarray(labels), return_inverse=True)
        known = known.astype(np.int64)
        values = single_columns(features)
        self._start = _start(known)
        raw = np.repeat(self._start[:, None], len(known), axis=1)
        shape = (_STAGES, len(raw))
        seeds = np.random.RandomState(self._seed).randint(0, _SEEDS, size=shape)
        grown = self._grow(values, known, raw, seeds.astype(np.int64))
        self._trees = grown[:3]
        self._guess = _winner(raw)
        total = grown[3].sum()
        self.feature_importances_ = grown[3] / total if total > 0 else grown[3]
        return self

    def predict(self, features: npt.ArrayLike) -> npt.NDArray[Any]:
        return self.classes_[_winner(self.decision_function(features))]

    def predict_training(self) -> npt.NDArray[Any]:
        """Predictions of the samples that `fit` saw: known from fitting."""
        return self.classes_[self._guess]

    def decision_function(self, features: npt.ArrayLike) -> FloatArray:
        """(trees a stage, samples) raw predictions."""
        values = single_columns(features)
        raw = np.repeat(self._start[:, None], values.shape[1], axis=1)
        self._loops.predict_boosted(values, *self._trees, raw, _RATE)
        return raw

    def _grow(
        self,
        values: npt.NDArray[np.float32],
        labels: IntArray,
        raw: FloatArray,
        seeds: IntArray,
    ) -> Any:
        counted = CountedFeatures.of(values)
        if counted is not None:
            return self._loops.boost_counted(
                *counted.arrays(), labels, raw, seeds, _RATE, _DEPTH
            )
        orders = np.argsort(values, axis=1, kind="stable").astype(np.int32)
        ordered = np.take_along_axis(values, orders, axis=1)
        ties = (ordered[:, 1:] <= ordered[:, :-1] + np.float32(1e-7)).any(axis=1)
        return self._loops.boost_sorted(
            values, orders, ties, labels, raw, seeds, _RATE, _DEPTH
        )


def single_columns(features: npt.ArrayLike) -> npt.NDArray[np.float32]:
    """(features, samples) in single precision, as scikit-learn's trees see them."""
    return np.ascontiguousarray(np.asarray(features).T, dtype=np.float32)


def _start(labels: IntArray) -> FloatArray:
    """Raw predictions of the class frequencies."""
    from scipy.special import logit
    from scipy.stats import gmean

    tiny = np.finfo(np.float64).eps
    frequency = np.clip(np.bincount(labels) / len(labels), tiny, 1 - tiny)
    if len(frequency) == 2:
        return np.array([logit(frequency[1])])
    return np.log(frequency / gmean(frequency))


def _winner(raw: FloatArray) -> IntArray:
    if len(raw) == 1:
        return (raw[0] >= 0).astype(np.int64)
    return raw.argmax(axis=0)
