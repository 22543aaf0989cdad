"""The classifiers behind DCI and sample efficiency, by name."""

from typing import Any

import numpy as np

from qlayers.metrics._checks import FloatArray

ESTIMATORS = ("random_forest", "gradient_boosting", "lightgbm")
BACKENDS = ("auto", "scikit_learn")


def make_classifier(name: str, seed: int, n_jobs: int, backend: str = "auto") -> Any:
    """A fresh classifier.

    `"random_forest"` has Tripod's settings, `"gradient_boosting"` scikit-learn's
    defaults as in Locatello et al. and FactorQVAE. `"lightgbm"` is another estimator
    with the same number of trees and leaves: fast, and not comparable to either.
    `backend="auto"` takes this package's own loops, which give scikit-learn's numbers.
    """
    if name == "gradient_boosting" and backend == "auto":
        from qlayers.metrics._boosted_trees import BoostedTrees

        return BoostedTrees(seed)
    if name == "random_forest":
        from sklearn.ensemble import RandomForestClassifier

        return RandomForestClassifier(
            n_estimators=100,
            criterion="entropy",
            max_depth=10,
            min_samples_split=2,
            random_state=seed,
            n_jobs=n_jobs,
        )
    if name == "gradient_boosting":
        from sklearn.ensemble import GradientBoostingClassifier

        return GradientBoostingClassifier(random_state=seed)
    return _lightgbm(seed, n_jobs)


def importances(model: Any) -> FloatArray:
    """How much each feature contributed to a fitted classifier."""
    if hasattr(model, "booster_"):
        gains = model.booster_.feature_importance(importance_type="gain")
        total = gains.sum()
        return np.asarray(gains / total if total > 0 else gains, np.float64)
    return np.abs(model.feature_importances_)


def _lightgbm(seed: int, n_jobs: int) -> Any:
    try:
        from lightgbm import LGBMClassifier
    except ImportError as error:
        raise ImportError(
            'estimator="lightgbm" needs the package lightgbm: pip install lightgbm. '
            '"random_forest" and "gradient_boosting" need nothing more.'
        ) from error
    return LGBMClassifier(
        n_estimators=100,
        learning_rate=0.1,
        num_leaves=8,
        max_depth=3,
        random_state=seed,
        n_jobs=n_jobs,
        deterministic=True,
        force_row_wise=True,
        verbose=-1,
    )
