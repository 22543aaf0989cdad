"""Multinomial logistic regression that reaches its infimum quickly."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from qlayers.metrics._checks import FloatArray, IntArray

# Iterations at which the class blocks of the Hessian are computed anew. Early on they
# change quickly; later each refresh costs more than it saves.
_REFRESH = (10, 30, 80, 200, 400, 800)
_MEMORY = 20


@dataclass(frozen=True, eq=False)
class LogisticFit:
    """A fitted model.

    Attributes:
        weights: (classes, features).
        intercept: (classes,).
        loss: Mean cross-entropy of the fitted samples in nats, without weights.
        gap: Estimate of how far the objective still is above its infimum.
        iterations: Steps taken.
    """

    weights: FloatArray
    intercept: FloatArray
    loss: float
    gap: float
    iterations: int

    def predict(self, features: FloatArray) -> IntArray:
        """The most probable class of each row."""
        return np.argmax(features @ self.weights.T + self.intercept, axis=1)


def fit_logistic(
    features: FloatArray,
    labels: IntArray,
    *,
    balanced: bool = False,
    l2: float = 0.0,
    tolerance: float = 1e-7,
    max_iterations: int = 1500,
) -> LogisticFit:
    """Minimises mean cross-entropy + l2/2 ‖weights‖² over weights and intercept.

    Limited-memory BFGS over features that are first made uncorrelated, with the
    inverses of the Hessian's diagonal class blocks as its starting metric. Unpenalised
    fits of separable classes have their infimum, 0, at infinity; the steps then
    grow until `tolerance` says that nothing is left to gain.

    Args:
        features: (samples, features).
        labels: (samples,) symbols from 0, each present.
        balanced: Weigh samples so that every class counts alike. The reported loss is
            unweighted all the same.
        l2: Penalty; 1 / (C samples) matches scikit-learn's C.
        tolerance: Stop when the estimated distance to the infimum is below this.
        max_iterations: Stop at the latest then.

    Reference:
        Hsu et al. 2023, Disentanglement via Latent Quantization, eq. 11 and 12.
    """
    basis = _Basis.of(features, keep=l2 > 0)
    problem = _Problem(basis.apply(features), labels, balanced, l2)
    weights, gap, iterations = _minimise(problem, tolerance, max_iterations)
    slopes, intercept = basis.undo(weights)
    return LogisticFit(slopes, intercept, problem.plain_loss, gap, iterations)


@dataclass(frozen=True, eq=False)
class _Basis:
    """An invertible change of features; a column of ones comes first."""

    mean: FloatArray
    matrix: FloatArray

    @classmethod
    def of(cls, features: FloatArray, keep: bool) -> "_Basis":
        width = features.shape[1]
        if keep:
            # A penalty is on the weights of the features as given.
            return cls(np.zeros(width), np.eye(width))
        mean = features.mean(axis=0)
        centred = features - mean
        spread = centred.std(axis=0)
        used = spread > 0
        scale = np.where(used, 1 / np.where(used, spread, 1.0), 0.0)
        scaled = centred * scale
        values, vectors = np.linalg.eigh(scaled.T @ scaled / len(features))
        # One-hot columns sum to one: such directions carry nothing and are dropped.
        full = values > 1e-10 * max(values[-1], 1e-300)
        return cls(mean, scale[:, None] * vectors[:, full] / np.sqrt(values[full]))

    def apply(self, features: FloatArray) -> FloatArray:
        ones = np.ones((len(features), 1))
        return np.hstack([ones, (features - self.mean) @ self.matrix])

    def undo(self, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
        slopes = weights[:, 1:] @ self.matrix.T
        return slopes, weights[:, 0] - slopes @ self.mean


class _Problem:
    """Objective, gradient and Hessian blocks; arrays are (classes, samples)."""

    def __init__(
        self, features: FloatArray, labels: IntArray, balanced: bool, l2: float
    ) -> None:
        self.features = features
        self.transposed = np.ascontiguousarray(features.T)
        # Only the metric is built from these, and it need not be exact.
        self.single = features.astype(np.float32)
        self.labels = labels
        self.samples = np.arange(len(labels))
        self.num_classes = int(labels.max()) + 1
        counts = np.bincount(labels, minlength=self.num_classes)
        self.weight = np.full(len(labels), 1 / len(labels))
        if balanced:
            self.weight = 1 / (np.count_nonzero(counts) * counts[labels])
        self.penalty = np.full(features.shape[1], l2)
        self.penalty[0] = 0.0
        self.plain_loss = float("nan")
        self.probabilities: FloatArray = np.empty(0)

    def value(self, weights: FloatArray) -> float:
        """The objective; keeps the probabilities for `gradient` and `metric`."""
        scores = weights @ self.transposed
        scores -= scores.max(axis=0)
        of_label = scores[self.labels, self.samples]
        np.exp(scores, out=scores)
        total = scores.sum(axis=0)
        losses = np.log(total) - of_label
        scores /= total
        self.probabilities = scores
        self.plain_loss = float(losses.mean())
        penalty = float((self.penalty * weights**2).sum()) / 2
        return float(self.weight @ losses) + penalty

    def gradient(self, weights: FloatArray) -> FloatArray:
        residual = self.probabilities * self.weight
        residual[self.labels, self.samples] -= self.weight
        return residual @ self.features + self.penalty * weights

    def metric(self) -> FloatArray:
        """Inverses of Xᵀ diag(w p (1 - p)) X for each class."""
        width = self.features.shape[1]
        blocks = np.empty((self.num_classes, width, width))
        curvature = self.probabilities * (1 - self.probabilities) * self.weight
        for block, weight in zip(blocks, curvature, strict=True):
            root = self.single * np.sqrt(weight).astype(np.float32)[:, None]
            block[...] = root.T @ root
        diagonal = np.arange(width)
        blocks[:, diagonal, diagonal] *= 1 + 1e-4
        blocks[:, diagonal, diagonal] += self.penalty + 1e-9
        return np.linalg.inv(blocks).astype(np.float64)


def _minimise(
    problem: _Problem, tolerance: float, max_iterations: int
) -> tuple[FloatArray, float, int]:
    shape = (problem.num_classes, problem.features.shape[1])
    weights = np.zeros(shape)
    value = problem.value(weights)
    gradient = problem.gradient(weights)
    memory = _Memory(problem.metric())
    gap = np.inf
    for iteration in range(max_iterations):
        if iteration in _REFRESH:
            memory = _Memory(problem.metric())
        direction = -memory.apply(gradient)
        descent = -float((direction * gradient).sum())
        # At a minimum of a quadratic this is exactly the objective's excess.
        gap = descent / 2
        if gap < tolerance:
            return weights, gap, iteration
        step, value = _line_search(problem, weights, direction, value, descent)
        if step == 0.0:
            break
        weights = weights + step * direction
        previous, gradient = gradient, problem.gradient(weights)
        memory.add(step * direction, gradient - previous)
    return weights, float(gap), iteration + 1


def _line_search(
    problem: _Problem,
    weights: FloatArray,
    direction: FloatArray,
    value: float,
    descent: float,
) -> tuple[float, float]:
    step = 1.0
    while step > 1e-8:
        reached = problem.value(weights + step * direction)
        if reached <= value - 1e-4 * step * descent:
            return step, reached
        step /= 2
    # Rounding hides what is left; leave the stored probabilities consistent.
    return 0.0, problem.value(weights)


class _Memory:
    """The last steps of L-BFGS over a block-diagonal starting metric."""

    def __init__(self, metric: FloatArray) -> None:
        self._metric = metric
        self._pairs: list[tuple[FloatArray, FloatArray, float]] = []

    def add(self, step: FloatArray, change: FloatArray) -> None:
        product = float((step * change).sum())
        if product > 1e-300:
            self._pairs.append((step, change, 1 / product))
            del self._pairs[:-_MEMORY]

    def apply(self, gradient: npt.NDArray[np.float64]) -> FloatArray:
        result = gradient.copy()
        factors = []
        for step, change, inverse in reversed(self._pairs):
            factor = inverse * float((step * result).sum())
            result -= factor * change
            factors.append(factor)
        result = np.matmul(self._metric, result[:, :, None])[:, :, 0]
        for (step, change, inverse), factor in zip(
            self._pairs, reversed(factors), strict=True
        ):
            back = inverse * float((change * result).sum())
            result += (factor - back) * step
        return result
