"""Random forests of quantized latents by exact histograms."""

from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from qlayers.metrics._boosted_trees import single_columns
from qlayers.metrics._checks import IntArray
from qlayers.metrics._counted import CountedFeatures

_TREES, _DEPTH = 100, 10
_LARGEST_SEED = 2**31 - 1


def compiled_forest() -> ModuleType | None:
    """The compiled loops, or None where numba is not installed."""
    try:
        from qlayers.metrics._trees import forest
    except ImportError:
        return None
    return forest


def can_count(features: npt.ArrayLike) -> bool:
    """Whether numba is installed and every feature has few values."""
    if compiled_forest() is None:
        return False
    return CountedFeatures.of(single_columns(features)) is not None


@dataclass(frozen=True)
class ForestSample:
    """What forests of the same samples and seed share, whatever they predict.

    Attributes:
        features: The counted features.
        weights: (trees, samples) how often each tree's bootstrap drew each sample.
        seeds: (trees,) of the order in which nodes try features.
    """

    features: CountedFeatures
    weights: npt.NDArray[np.uint8]
    seeds: npt.NDArray[np.int64]

    @classmethod
    def of(cls, features: npt.ArrayLike, seed: int) -> "ForestSample | None":
        """Counts and draws; None without numba or if a feature has many values."""
        if compiled_forest() is None:
            return None
        counted = CountedFeatures.of(single_columns(features))
        if counted is None:
            return None
        return cls(counted, *_draw(seed, counted.bins.shape[1]))


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
        self._loops: Any = compiled_forest()

    def fit(self, features: npt.ArrayLike, labels: npt.ArrayLike) -> "CountedForest":
        sample = ForestSample.of(features, self._seed)
        if sample is None:
            raise ValueError("`features` have too many values to be counted.")
        return self.fit_sample(sample, labels)

    def fit_sample(
        self, sample: ForestSample, labels: npt.ArrayLike
    ) -> "CountedForest":
        """`fit` for features that are counted already, with the sample's seed."""
        self.classes_, known = np.unique(np.asarray(labels), return_inverse=True)
        bins = sample.features.bins
        *self._trees, importance = self._loops.grow_forest(
            bins,
            sample.features.values,
            _cells(sample.features, known, len(self.classes_)),
            known.astype(np.int32),
            len(self.classes_),
            sample.weights,
            sample.seeds,
            max(1, int(np.sqrt(len(bins)))),
            _DEPTH,
            _log_table(len(known)),
        )
        grown = importance[importance.sum(axis=1) > 0]
        self.feature_importances_ = np.zeros(len(bins))
        if len(grown):
            mean = grown.mean(axis=0)
            self.feature_importances_ = mean / mean.sum()
        return self

    def predict(self, features: npt.ArrayLike) -> npt.NDArray[Any]:
        feature, threshold, frequency = self._trees
        votes = self._loops.predict_forest(
            single_columns(features),
            np.maximum(feature, 0).astype(np.uint32),
            _rounded_down(threshold),
            frequency,
        )
        return self.classes_[votes.argmax(axis=0)]


def _draw(
    seed: int, samples: int
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """How often each tree's bootstrap has each sample, and its seed."""
    stream = np.random.RandomState(seed)
    # Seeding a generator takes 1 % of the time of making one.
    own = np.random.RandomState(0)
    weights = np.empty((_TREES, samples), np.uint8)
    seeds = np.empty(_TREES, np.int64)
    for tree in range(_TREES):
        of_tree = int(stream.randint(_LARGEST_SEED))
        own.seed(of_tree)
        drawn = own.randint(0, samples, samples)
        weights[tree] = np.bincount(drawn, minlength=samples)
        own.seed(of_tree)
        seeds[tree] = own.randint(0, _LARGEST_SEED)
    return weights, seeds


def _cells(
    features: CountedFeatures, labels: IntArray, num_classes: int
) -> npt.NDArray[Any]:
    """(features, samples) bin times classes plus label, in the smallest type."""
    small = features.values.shape[1] * num_classes <= 2**16
    kind: Any = np.uint16 if small else np.int32
    cells: npt.NDArray[Any] = features.bins.astype(kind)
    return cells * kind(num_classes) + labels.astype(kind)


def _log_table(samples: int) -> npt.NDArray[np.float64]:
    """n log n up to the number of samples."""
    numbers = np.arange(samples + 1, dtype=np.float64)
    numbers[1:] *= np.log(numbers[1:])
    return numbers


def _rounded_down(thresholds: npt.NDArray[np.float64]) -> npt.NDArray[np.float32]:
    """The largest single-precision numbers up to the thresholds."""
    single = thresholds.astype(np.float32)
    return np.where(
        single > thresholds, np.nextafter(single, -np.float32(np.inf)), single
    )
