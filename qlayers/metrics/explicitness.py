"""InfoE: how linearly the latents tell the sources."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from qlayers.metrics import information
from qlayers.metrics._checks import FloatArray, IntArray
from qlayers.metrics._parallel import map_threads
from qlayers.metrics._sample import split, standardize
from qlayers.metrics.logistic import (
    PreparedFeatures,
    fit_logistic,
    free_rows,
    interpolation_loss,
)


def one_hot(latents: npt.NDArray[Any]) -> FloatArray:
    """Every distinct value of every latent as a column of zeros and ones."""
    codes = information.symbol_table(latents)
    sizes = codes.max(axis=0) + 1
    columns = codes + (np.cumsum(sizes) - sizes)
    encoded = np.zeros((len(latents), int(sizes.sum())))
    np.put_along_axis(encoded, columns, 1.0, axis=1)
    return encoded


def explicitness_per_source(
    sources: FloatArray,
    latents: npt.NDArray[Any],
    *,
    features: str,
    balanced: bool,
    fit: str = "converged",
    max_steps: int = 100,
    continuous_sources: Sequence[int] = (),
    verbose: bool = False,
) -> FloatArray:
    """Normalised predictive V-information of each source given all latents.

    Args:
        sources: (samples, n_s).
        latents: (samples, n_z).
        features: `"scalars"` standardises the latents, `"one_hot"` expands them.
        balanced: Weigh classes alike when fitting (the reference codes do).
        fit: `"converged"` reaches the infimum of eq. 11; `"scikit_learn"` is the
            reference codes' fit by L-BFGS.
        max_steps: Steps after which `"scikit_learn"` stops.
        continuous_sources: Columns that get linear regression, and so R².
        verbose: Show progress if it takes longer than a second.

    Returns:
        (n_s,) array; constant sources are NaN.

    Reference:
        Hsu et al. 2023, Disentanglement via Latent Quantization, eq. 10 to 13.
    """
    if features == "one_hot":
        inputs = one_hot(latents)
    else:
        inputs = standardize(latents.astype(np.float64))
    rows = free_rows(inputs, latents) if fit == "converged" else None
    # Not needed where rows are free, and slow for many columns.
    prepared = PreparedFeatures.of(inputs if rows is None else inputs[:, :1])

    def score(index: int) -> float:
        column = sources[:, index]
        if index in continuous_sources:
            return _coefficient_of_determination(inputs, column)
        labels = information.symbols(column)
        if labels.max() == 0:
            return float("nan")
        if fit == "scikit_learn":
            given = _scikit_learn_loss(inputs, labels, balanced, max_steps)
        elif rows is not None:
            given = interpolation_loss(rows, labels, balanced=balanced)
        else:
            given = fit_logistic(prepared, labels, balanced=balanced).loss
        nothing = _loss_without_latents(labels, balanced)
        return (nothing - given) / nothing

    return np.array(
        map_threads(
            score, range(sources.shape[1]), label="explicitness", verbose=verbose
        )
    )


def held_out_explicitness(
    sources: FloatArray,
    latents: npt.NDArray[Any],
    *,
    balanced: bool,
    continuous_sources: Sequence[int] = (),
    seed: int = 0,
    verbose: bool = False,
) -> FloatArray:
    """Explicitness of one-hot latents on samples the fit has not seen.

    For more features than samples: the fit of eq. 11 then explains any labels. This one
    has scikit-learn's usual penalty (C = 1; alpha = 1 of a ridge regression), sees two
    thirds of the samples, and its loss is that of the others. A source it does not
    explain has 0.

    Args:
        sources: (samples, n_s).
        latents: (samples, n_z).
        balanced: Weigh classes alike when fitting.
        continuous_sources: Columns that get ridge regression, and so R².
        seed: Seed of the split.
        verbose: Show progress if it takes longer than a second.

    Returns:
        (n_s,) array; constant sources are NaN.
    """
    from scipy.sparse import csr_array

    inputs = csr_array(one_hot(latents))
    train, test = split(len(latents), 1 / 3, seed)

    def score(index: int) -> float:
        column = sources[:, index]
        labels = information.symbols(column)
        if labels.max() == 0:
            return float("nan")
        if index in continuous_sources:
            given = _held_out_error(inputs, column, train, test)
            nothing = float(column.var())
        elif len(np.unique(labels[train])) < 2:
            return 0.0
        else:
            given = _held_out_loss(inputs, labels, train, test, balanced)
            nothing = _loss_without_latents(labels, balanced)
        return max(0.0, (nothing - given) / nothing)

    return np.array(
        map_threads(
            score, range(sources.shape[1]), label="explicitness", verbose=verbose
        )
    )


def _held_out_loss(
    inputs: Any, labels: IntArray, train: IntArray, test: IntArray, balanced: bool
) -> float:
    """Cross-entropy of a logistic regression on the test rows."""
    from sklearn.linear_model import LogisticRegression

    weights = "balanced" if balanced else None
    model = LogisticRegression(max_iter=200, tol=1e-3, class_weight=weights)
    model.fit(inputs[train], labels[train])
    table = np.full((len(test), labels.max() + 1), 1e-12)
    table[:, model.classes_] = np.maximum(model.predict_proba(inputs[test]), 1e-12)
    return float(-np.log(table[np.arange(len(test)), labels[test]]).mean())


def _held_out_error(
    inputs: Any, column: FloatArray, train: IntArray, test: IntArray
) -> float:
    """Mean squared error of a ridge regression on the test rows."""
    from sklearn.linear_model import Ridge

    model = Ridge(solver="sparse_cg", tol=1e-8).fit(inputs[train], column[train])
    return float(np.mean((model.predict(inputs[test]) - column[test]) ** 2))


def _loss_without_latents(labels: IntArray, balanced: bool) -> float:
    """Cross-entropy of the best constant: the class frequencies, or, with balanced
    weights, the uniform distribution."""
    if balanced:
        return float(np.log(labels.max() + 1))
    return float(information.entropy(labels[:, None])[0])


def _scikit_learn_loss(
    inputs: FloatArray, labels: IntArray, balanced: bool, max_steps: int
) -> float:
    import warnings

    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import log_loss

    model = LogisticRegression(
        C=np.inf,
        class_weight="balanced" if balanced else None,
        tol=1e-4,
        max_iter=max_steps,
    )
    with warnings.catch_warnings():
        # Stopping early is the very thing this option reproduces.
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(inputs, labels)
    return float(log_loss(labels, model.predict_proba(inputs)))


def _coefficient_of_determination(inputs: FloatArray, column: FloatArray) -> float:
    centred = column - column.mean()
    total = float(centred @ centred)
    if total == 0:
        return float("nan")
    design = inputs - inputs.mean(axis=0)
    solution = np.linalg.lstsq(design, centred, rcond=None)[0]
    residual = centred - design @ solution
    return 1 - float(residual @ residual) / total
