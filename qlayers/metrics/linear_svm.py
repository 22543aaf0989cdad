"""Linear support-vector machines on a single feature, solved exactly by sorting."""

from dataclasses import dataclass

import numpy as np

from qlayers.metrics._checks import FloatArray, IntArray


def fit_linear_svm(
    feature: FloatArray, labels: IntArray, penalty: float = 0.01
) -> list[tuple[FloatArray, FloatArray]]:
    """One-against-rest machines of one feature for several sources at once.

    Each class minimises ½(w² + b²) + Σ C_i max(0, 1 - y_i (w x_i + b))². The samples
    inside the margin are a run of the sorted feature on each side, so running sums of
    1, x and x² give the objective and its Newton step for any w and b in a few binary
    searches, whatever the number of samples. One Newton iteration serves all classes
    of all sources.

    Class weights are balanced. As in liblinear, the intercept is penalised, and with
    more than two classes the balanced weight applies to the class itself while the
    rest has weight 1.

    Args:
        feature: (samples,) numbers.
        labels: (samples, n_s) symbols from 0, each present.
        penalty: C.

    Returns:
        For each source `(w, b)`, both (classes,); `argmax(w x + b)` is its prediction.

    Reference:
        Kumar et al. 2018, Variational Inference of Disentangled Latent Concepts
        (SAP); Locatello et al. 2019 for C = 0.01.
    """
    problem = _Machines.of(feature, labels, penalty)
    w, b = _newton(problem)
    ends = np.cumsum(labels.max(axis=0) + 1)
    return list(zip(np.split(w, ends[:-1]), np.split(b, ends[:-1]), strict=True))


def _newton(problem: "_Machines") -> tuple[FloatArray, FloatArray]:
    w, b = np.zeros_like(problem.own), np.zeros_like(problem.own)
    sums = problem.sums(w, b)
    value = problem.value(sums, w, b)
    for _ in range(100):
        goal_w, goal_b = problem.newton_goal(sums)
        step = np.ones_like(w)
        while True:
            new_w, new_b = w + step * (goal_w - w), b + step * (goal_b - b)
            new_sums = problem.sums(new_w, new_b)
            reached = problem.value(new_sums, new_w, new_b)
            worse = (reached > value) & (step > 1e-10)
            if not worse.any():
                break
            step[worse] /= 2
        # The objective is a chain of parabolas: once no machine improves by more
        # than rounding, its samples inside the margin no longer change.
        done = value - reached <= 1e-15 * value
        if done.all():
            break
        w, b = np.where(done, w, new_w), np.where(done, b, new_b)
        sums = (
            np.where(done, sums[0], new_sums[0]),
            np.where(done, sums[1], new_sums[1]),
        )
        value = np.where(done, value, reached)
    return w, b


@dataclass(frozen=True)
class _Machines:
    """The problems of all classes of all sources over one sorted feature.

    Attributes:
        ascending: The sorted feature.
        all_sums: (3, samples + 1) running sums of 1, x, x² over all samples.
        class_sums: (3, samples * n_s + 1) the same, classes laid end to end.
        keys: Class * (samples + 1) + position in `ascending`, ascending.
        own, rest: (classes,) C of the class and of the others.
    """

    ascending: FloatArray
    all_sums: FloatArray
    class_sums: FloatArray
    keys: IntArray
    own: FloatArray
    rest: FloatArray

    @classmethod
    def of(cls, feature: FloatArray, labels: IntArray, penalty: float) -> "_Machines":
        samples = len(feature)
        order = np.argsort(feature, kind="stable")
        positions, keys, own, rest = [], [], [], []
        classes = 0
        for column in labels[order].T:
            counts = np.bincount(column)
            # NumPy sorts 16-bit integers by radix, in linear time.
            by_class = np.argsort(column.astype(np.uint16), kind="stable")
            positions.append(by_class)
            keys.append((classes + column[by_class]) * (samples + 1) + by_class)
            classes += len(counts)
            balanced = penalty * samples / (len(counts) * counts)
            own.append(balanced)
            plain = np.full(len(counts), penalty)
            rest.append(balanced[::-1] if len(counts) == 2 else plain)
        ascending = feature[order]
        return cls(
            ascending=ascending,
            all_sums=_running_sums(ascending),
            class_sums=_running_sums(ascending[np.concatenate(positions)]),
            keys=np.concatenate(keys),
            own=np.concatenate(own),
            rest=np.concatenate(rest),
        )

    def sums(self, w: FloatArray, b: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(3, classes) sums of 1, x, x² inside the margin: own class, others."""
        inside_own = self._half_line(w, b, 1.0, below=True)
        inside_all = self._half_line(w, b, -1.0, below=False)
        own = self._class_total(*inside_own)
        others = self.all_sums[:, inside_all[1]] - self.all_sums[:, inside_all[0]]
        return own, others - self._class_total(*inside_all)

    def value(
        self, sums: tuple[FloatArray, FloatArray], w: FloatArray, b: FloatArray
    ) -> FloatArray:
        total = (w * w + b * b) / 2
        for weight, sign, (one, x, xx) in (
            (self.own, 1.0, sums[0]),
            (self.rest, -1.0, sums[1]),
        ):
            squares = w * w * xx + 2 * w * b * x + b * b * one
            total = total + weight * (one - 2 * sign * (w * x + b * one) + squares)
        return total

    def newton_goal(
        self, sums: tuple[FloatArray, FloatArray]
    ) -> tuple[FloatArray, FloatArray]:
        """The minimum if the samples inside the margins stayed the same."""
        own, rest = 2 * self.own * sums[0], 2 * self.rest * sums[1]
        one, x, xx = own + rest
        one, xx = one + 1, xx + 1
        right_b, right_w = own[0] - rest[0], own[1] - rest[1]
        determinant = one * xx - x * x
        w = (one * right_w - x * right_b) / determinant
        b = (xx * right_b - x * right_w) / determinant
        return w, b

    def _half_line(
        self, w: FloatArray, b: FloatArray, level: float, below: bool
    ) -> tuple[IntArray, IntArray]:
        """Positions [first, last) with w x + b below (or above) `level`."""
        samples = len(self.ascending)
        flat = w == 0
        threshold = (level - b) / np.where(flat, 1.0, w)
        position = np.searchsorted(self.ascending, threshold)
        left = (w > 0) == below
        first = np.where(left, 0, position)
        last = np.where(left, position, samples)
        everything = (b < level) == below
        first = np.where(flat, 0, first)
        last = np.where(flat, np.where(everything, samples, 0), last)
        return first, last

    def _class_total(self, first: IntArray, last: IntArray) -> FloatArray:
        offset = np.arange(len(self.own)) * (len(self.ascending) + 1)
        low = np.searchsorted(self.keys, offset + first)
        high = np.searchsorted(self.keys, offset + last)
        return self.class_sums[:, high] - self.class_sums[:, low]


def _running_sums(values: FloatArray) -> FloatArray:
    powers = np.stack([np.ones_like(values), values, values * values])
    return np.hstack([np.zeros((3, 1)), np.cumsum(powers, axis=1)])
