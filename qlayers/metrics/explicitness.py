"""InfoE: how linearly the latents tell the sources."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from qlayers.metrics import information
from qlayers.metrics._checks import FloatArray, IntArray
from qlayers.metrics._parallel import map_threads
from qlayers.metrics._sample import standardize
from qlayers.metrics.logistic import PreparedFeatures, fit_logistic


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
    continuous_sources: Sequence[int] = (),
) -> FloatArray:
    """Normalised predictive V-information of each source given all latents.

    Args:
        sources: (samples, n_s).
        latents: (samples, n_z).
        features: `"scalars"` standardises the latents, `"one_hot"` expands them.
        balanced: Weigh classes alike when fitting (the reference codes do).
        fit: `"converged"` reaches the infimum of eq. 11; `"scikit_learn"` is the
            reference codes' fit, stopped after 100 steps of L-BFGS.
        continuous_sources: Columns that get linear regression, and so R².

    Returns:
        (n_s,) array; constant sources are NaN.

    Reference:
        Hsu et al. 2023, Disentanglement via Latent Quantization, eq. 10 to 13.
    """
    if features == "one_hot":
        inputs = one_hot(latents)
    else:
        inputs = standardize(latents.astype(np.float64))
    prepared = PreparedFeatures.of(inputs)

    def score(index: int) -> float:
        column = sources[:, index]
        if index in continuous_sources:
            return _coefficient_of_determination(inputs, column)
        labels = information.symbols(column)
        if labels.max() == 0:
            return float("nan")
        if fit == "scikit_learn":
            given = _scikit_learn_loss(inputs, labels, balanced)
        else:
            given = fit_logistic(prepared, labels, balanced=balanced).loss
        nothing = _loss_without_latents(labels, balanced)
        return (nothing - given) / nothing

    return np.array(map_threads(score, range(sources.shape[1])))


def _loss_without_latents(labels: IntArray, balanced: bool) -> float:
    """Cross-entropy of the best constant: the class frequencies, or, with balanced
    weights, the uniform distribution."""
    if balanced:
        return float(np.log(labels.max() + 1))
    return float(information.entropy(labels[:, None])[0])


def _scikit_learn_loss(inputs: FloatArray, labels: IntArray, balanced: bool) -> float:
    import warnings

    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import log_loss

    model = LogisticRegression(
        C=np.inf,
        class_weight="balanced" if balanced else None,
        tol=1e-4,
        max_iter=100,
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
