"""Multinomial logistic regression that reaches its infimum quickly."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from qlayers.metrics._checks import FloatArray, IntArray

# Iterations at which the class blocks of the Hessian are computed anew. Early on they
# change quickly; later each refresh costs more than it saves.
_REFRESH = (10, 30, 80, 200, 400, 800)
_MEMORY = 20
# Scores worked on at a time, and rows the metric is built from. A class is seen in its
# share of the rows only; with fewer of them than columns its curvature would vanish in
# some directions, and steps along those would be far too long.
_PIECE_VALUES = 2**15
_METRIC_ROWS = 2_000
_METRIC_ROWS_PER_WEIGHT = 10
# Of a block's mean curvature; keeps steps bounded where a direction has next to none.
_DAMPING = 3e-5
# When classes are nearly separable few samples have any curvature left, and steps are
# cut short again and again. After so many of them in a row the damping grows.
_SHORT_STEP = 0.1
_SHORT_STEPS = 3
_DAMPING_GROWTH = 10.0
_MOST_DAMPING = 3e-2
# Exponents below this are as good as this, and much faster than subnormal numbers.
_LOWEST_SCORE = -50.0
# Of a sample's loss: below log 2 its class has more than half of the probability.
_CLEARLY_RIGHT = 0.6
# Where single precision hands over to double.
_SINGLE_GAP = 1e-7


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


@dataclass(frozen=True, eq=False)
class PreparedFeatures:
    """Features in the form the solver works on; fits to them may share it.

    Attributes:
        matrix: (samples, width) a column of ones, then the transformed features.
        single: The same in single precision, for the way to the minimum.
        mean, transform: What turned the features into `matrix`.
    """

    matrix: FloatArray
    single: npt.NDArray[np.float32]
    mean: FloatArray
    transform: FloatArray

    @classmethod
    def of(cls, features: FloatArray, *, penalised: bool = False) -> "PreparedFeatures":
        """Uncorrelates features, or leaves them as they are for penalised fits."""
        samples, width = features.shape
        # A penalty is on the weights of the features as given.
        mean, transform = np.zeros(width), np.eye(width)
        if not penalised:
            mean, transform = _uncorrelating(features)
        ones = np.ones((samples, 1))
        matrix = np.hstack([ones, (features - mean) @ transform])
        return cls(
            matrix=matrix,
            single=matrix.astype(np.float32),
            mean=mean,
            transform=transform,
        )

    def undo(self, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Slopes and intercepts for the features as they were given."""
        slopes = weights[:, 1:] @ self.transform.T
        return slopes, weights[:, 0] - slopes @ self.mean


def fit_logistic(
    features: FloatArray | PreparedFeatures,
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
    fits of separable classes have their infimum, 0, at infinity. Weights that give
    every sample's class more than half of the probability prove that: growing them
    brings the loss as near to 0 as one likes. The fit then ends, and its loss is 0.

    Args:
        features: (samples, features), or `PreparedFeatures` of them to share the
            preparation between fits.
        labels: (samples,) symbols from 0, each present.
        balanced: Weigh samples so that every class counts alike. The reported loss is
            unweighted all the same.
        l2: Penalty; 1 / (C samples) matches scikit-learn's C.
        tolerance: Stop when the estimated distance to the infimum is below this.
        max_iterations: Stop at the latest then.

    Reference:
        Hsu et al. 2023, Disentanglement via Latent Quantization, eq. 11 and 12.
    """
    if not isinstance(features, PreparedFeatures):
        features = PreparedFeatures.of(features, penalised=l2 > 0)
    problem = _Problem(features, labels, balanced, l2)
    weights, gap, iterations = _minimise(problem, tolerance, max_iterations)
    slopes, intercept = features.undo(weights)
    return LogisticFit(slopes, intercept, problem.plain_loss, gap, iterations)


def free_rows(
    features: FloatArray, latents: npt.NDArray[np.generic]
) -> IntArray | None:
    """Numbers of distinct rows, if each can be given any probabilities at all.

    That is so if the distinct rows, with a one appended, are linearly independent:
    one-hot features of many values and few samples. `interpolation_loss` then knows
    the infimum, and no fit is needed.

    Args:
        features: (samples, features).
        latents: (samples, n_z) what the features were made of.
    """
    if features.shape[1] + 1 < len(features) // 2:
        return None
    first, which = np.unique(latents, axis=0, return_index=True, return_inverse=True)[
        1:
    ]
    if features.shape[1] + 1 < len(first) or not _independent(features[first]):
        return None
    return which.reshape(-1)


def interpolation_loss(
    rows: IntArray, labels: IntArray, *, balanced: bool = False
) -> float:
    """Mean cross-entropy in nats of the class frequencies of each distinct row."""
    counts = np.bincount(labels)
    weight = 1 / counts[labels] if balanced else np.ones(len(labels))
    shape = (int(rows.max()) + 1, len(counts))
    cells = rows * shape[1] + labels
    sums = np.bincount(cells, weights=weight, minlength=shape[0] * shape[1])
    table = sums.reshape(shape) / np.bincount(rows, weights=weight)[:, None]
    return float(-np.log(table[rows, labels]).mean())


def _independent(rows: FloatArray) -> bool:
    products = rows @ rows.T + 1.0
    try:
        diagonal = np.diagonal(np.linalg.cholesky(products))
    except np.linalg.LinAlgError:
        return False
    return bool(diagonal.min() > 1e-5 * diagonal.max())


def _uncorrelating(features: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The mean and the matrix that give the features unit covariance."""
    mean = features.mean(axis=0)
    centred = features - mean
    spread = centred.std(axis=0)
    used = spread > 0
    scale = np.where(used, 1 / np.where(used, spread, 1.0), 0.0)
    centred *= scale
    values, vectors = np.linalg.eigh(centred.T @ centred / len(features))
    # One-hot columns sum to one: such directions carry nothing and are dropped.
    full = values > 1e-10 * max(values[-1], 1e-300)
    return mean, scale[:, None] * vectors[:, full] / np.sqrt(values[full])


class _Problem:
    """Objective, gradient and Hessian blocks.

    Scores are (classes, samples) and are worked through in pieces that stay in the
    processor's cache: whole arrays would travel to memory and back at each of a dozen
    operations, which on a busy machine costs more than the arithmetic.
    """

    def __init__(
        self, features: PreparedFeatures, labels: IntArray, balanced: bool, l2: float
    ) -> None:
        self.features = features
        self.labels = labels
        self.num_classes = int(labels.max()) + 1
        self.width = features.matrix.shape[1]
        counts = np.bincount(labels, minlength=self.num_classes)
        self.weight = np.full(len(labels), 1 / len(labels))
        if balanced:
            self.weight = 1 / (np.count_nonzero(counts) * counts[labels])
        self.penalty = np.full(self.width, l2)
        self.penalty[0] = 0.0
        self.plain_loss = float("nan")
        self.separated = False
        self.damping = _DAMPING
        self._piece = max(256, _PIECE_VALUES // self.num_classes)

    def evaluate(
        self, weights: FloatArray, exact: bool = True
    ) -> tuple[float, FloatArray]:
        """The objective and its gradient at `weights`.

        Single precision is twice as fast and, as sums over pieces are taken in double,
        good to about 1e-8: enough for all but the last steps.
        """
        gradient = self.penalty * weights
        value = float((self.penalty * weights**2).sum()) / 2
        plain, worst = 0.0, 0.0
        matrix: npt.NDArray[Any] = self.features.matrix
        if not exact:
            matrix = self.features.single
        rounded = weights.astype(matrix.dtype)
        for start in range(0, len(self.labels), self._piece):
            rows = slice(start, start + self._piece)
            labels, weight = self.labels[rows], self.weight[rows]
            index = np.arange(len(labels))
            scores = rounded @ matrix[rows].T
            scores -= scores.max(axis=0)
            of_label = scores[labels, index]
            np.maximum(scores, _LOWEST_SCORE, out=scores)
            np.exp(scores, out=scores)
            total = scores.sum(axis=0)
            losses = np.log(total, dtype=np.float64) - of_label
            scores *= (weight / total).astype(matrix.dtype)
            scores[labels, index] -= weight.astype(matrix.dtype)
            gradient += scores @ matrix[rows]
            value += float(weight @ losses)
            plain += float(losses.sum())
            worst = max(worst, float(losses.max()))
        self.plain_loss = plain / len(self.labels)
        self.separated = worst < _CLEARLY_RIGHT and not self.penalty.any()
        return value, gradient

    def metric(self, weights: FloatArray) -> FloatArray:
        """Inverses of Xᵀ diag(w p (1 - p)) X for each class, from some of the rows."""
        size = self.num_classes * self.width
        enough = max(_METRIC_ROWS, _METRIC_ROWS_PER_WEIGHT * size)
        rows = slice(None, None, max(1, len(self.labels) // enough))
        inputs = self.features.single[rows]
        scores = weights.astype(np.float32) @ inputs.T
        scores -= scores.max(axis=0)
        np.maximum(scores, _LOWEST_SCORE, out=scores)
        np.exp(scores, out=scores)
        scores /= scores.sum(axis=0)
        weight = self.weight[rows]
        share = (weight / weight.sum()).astype(np.float32)
        roots = np.sqrt(scores * (1 - scores) * share)
        blocks = np.empty((self.num_classes, self.width, self.width), np.float32)
        for block, root in zip(blocks, roots, strict=True):
            scaled = inputs * root[:, None]
            np.matmul(scaled.T, scaled, out=block)
        inverses = blocks.astype(np.float64)
        diagonal = np.arange(self.width)
        typical = inverses[:, diagonal, diagonal].mean(axis=1, keepdims=True)
        inverses[:, diagonal, diagonal] += self.penalty + self.damping * typical + 1e-12
        return np.linalg.inv(inverses).astype(np.float64)


def _minimise(
    problem: _Problem, tolerance: float, max_iterations: int
) -> tuple[FloatArray, float, int]:
    """Descends in single precision as far as that goes, then in double."""
    weights = np.zeros((problem.num_classes, problem.width))
    memory = _Memory(problem.metric(weights))
    iteration, short, gap = 0, 0, np.inf
    for exact, goal in ((False, max(tolerance, _SINGLE_GAP)), (True, tolerance)):
        value, gradient = problem.evaluate(weights, exact)
        while iteration < max_iterations:
            if problem.separated:
                problem.plain_loss = 0.0
                return weights, 0.0, iteration
            if iteration in _REFRESH:
                memory = _Memory(problem.metric(weights))
            direction = -memory.apply(gradient)
            descent = -float((direction * gradient).sum())
            # At a minimum of a quadratic this is exactly the objective's excess.
            gap = descent / 2
            if gap < goal:
                break
            step, reached, changed = _line_search(
                problem, weights, direction, value, descent, exact
            )
            if reached >= value:
                # Rounding hides what is left; the losses kept must be those here.
                problem.evaluate(weights, exact)
                break
            memory.add(step * direction, changed - gradient)
            weights = weights + step * direction
            value, gradient = reached, changed
            iteration += 1
            short = short + 1 if step < _SHORT_STEP else 0
            if short >= _SHORT_STEPS and problem.damping < _MOST_DAMPING:
                problem.damping *= _DAMPING_GROWTH
                memory, short = _Memory(problem.metric(weights)), 0
    return weights, float(gap), iteration


def _line_search(
    problem: _Problem,
    weights: FloatArray,
    direction: FloatArray,
    value: float,
    descent: float,
    exact: bool,
) -> tuple[float, float, FloatArray]:
    """A step that decreases the objective enough, its value and gradient there."""
    step = 1.0
    reached, changed = problem.evaluate(weights + direction, exact)
    while reached > value - 1e-4 * step * descent and step > 1e-8:
        # The minimum of the parabola through what is known, within bounds.
        excess = reached - value + step * descent
        step *= min(0.5, max(0.05, step * descent / (2 * excess)))
        reached, changed = problem.evaluate(weights + step * direction, exact)
    return step, reached, changed


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
