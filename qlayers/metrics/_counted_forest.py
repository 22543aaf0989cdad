"""Random forests of quantized latents by exact histograms."""

from typing import Any

import numpy as np
import numpy.typing as npt

from qlayers.metrics._boosted_trees import compiled_trees, single_columns
from qlayers.metrics._counted import CountedFeatures

_TREES, _DEPTH = 100, 10
_LARGEST_SEED = 2**31 - 1


def can_count(features: npt.ArrayLike) -> bool:
    """Whether numba is installed and every feature has few values."""
    if compiled_trees() is None:
        return False
    return CountedFeatures.of(single_columns(features)) is not None


class CountedForest:
    """scikit-learn's `RandomForestClassifier` with Tripod's settings.

    100 trees, entropy, depth 10, bootstrap, √features tried in each node. Trees draw
    what scikit-learn's draw from the same seed; counts are integers, so that only
    gains equal up to rounding may be decided otherwise.

    Args:
        seed: `random_state` of scikit-learn's.
    """

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed
        self._loops: Any = compiled_trees()

    def fit(self, features: npt.ArrayLike, labels: npt.ArrayLike) -> "CountedForest":
        self.classes_, known = np.unique(np.asarray(labels), return_inverse=True)
        counted = CountedFeatures.of(single_columns(features))
        if counted is None:
            raise ValueError("`features` have too many values to be counted.")
        samples = len(known)
        weights, seeds = self._draw(samples)
        numbers = np.arange(samples + 1, dtype=np.float64)
        numbers[1:] *= np.log(numbers[1:])
        *self._trees, importance = self._loops.grow_forest(
            counted.bins,
            counted.values,
            known.astype(np.int32),
            len(self.classes_),
            weights,
            seeds,
            max(1, int(np.sqrt(len(counted.bins)))),
            _DEPTH,
            numbers,
        )
        grown = importance[importance.sum(axis=1) > 0]
        self.feature_importances_ = np.zeros(len(counted.bins))
        if len(grown):
            mean = grown.mean(axis=0)
            self.feature_importances_ = mean / mean.sum()
        return self

    def predict(self, features: npt.ArrayLike) -> npt.NDArray[Any]:
        votes = self._loops.predict_forest(single_columns(features), *self._trees)
        return self.classes_[votes.argmax(axis=1)]

    def _draw(
        self, samples: int
    ) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
        """How often each tree's bootstrap has each sample, and its seed."""
        stream = np.random.RandomState(self._seed)
        weights = np.empty((_TREES, samples), np.int32)
        seeds = np.empty(_TREES, np.int64)
        for tree in range(_TREES):
            own = int(stream.randint(_LARGEST_SEED))
            drawn = np.random.RandomState(own).randint(0, samples, samples)
            weights[tree] = np.bincount(drawn, minlength=samples)
            seeds[tree] = np.random.RandomState(own).randint(0, _LARGEST_SEED)
        return weights, seeds
