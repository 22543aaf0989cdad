"""Boosted trees in plain NumPy: the numbers of `_trees`, without numba."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from qlayers.metrics._checks import FloatArray, IntArray

_EPSILON = float(np.finfo(np.float64).eps)
_CLOSE = np.float32(1e-7)
_TIE = 1.0 + 1e-11
_MASK = 0xFFFFFFFF
_c_exp = np.frompyfunc(math.exp, 1, 1)

Trees = tuple[IntArray, FloatArray, FloatArray, FloatArray]


@dataclass
class _Order:
    """The random order in which a tree's nodes try features, as scikit-learn draws it.

    Features that are constant in a node are constant below it: they are drawn, and
    skipped.
    """

    count: int
    state: int
    features: list[int] = field(init=False)
    constants: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.features = list(range(self.count))
        self.constants = list(range(self.count))

    def draw(self, known: int, is_constant: Callable[[int], bool]) -> tuple[Any, int]:
        """Features in their order, and how many are constant.

        Returns:
            The features that vary in the order drawn, with the last feature looked at
            appended (whether it varies or not), and the number of constant ones.
        """
        features, varying, last = self.features, [], -1
        remaining, found, drawn = self.count, 0, 0
        while remaining > known + found:
            j = drawn + self._next() % (remaining - found - drawn)
            if j < known:
                features[drawn], features[j] = features[j], features[drawn]
                drawn += 1
                continue
            j += found
            last = features[j]
            if is_constant(last):
                at = known + found
                features[j], features[at] = features[at], last
                found += 1
                continue
            remaining -= 1
            features[j], features[remaining] = features[remaining], last
            varying.append(last)
        features[:known] = self.constants[:known]
        self.constants[known : known + found] = features[known : known + found]
        return (varying, last), known + found

    def _next(self) -> int:
        state = self.state or 1
        state ^= (state << 13) & _MASK
        state ^= state >> 17
        state ^= (state << 5) & _MASK
        self.state = state
        return state & 0x7FFFFFFF


@dataclass
class _Tree:
    """One tree in heap order while it grows."""

    max_depth: int
    gradient: FloatArray
    order: _Order
    importance: FloatArray

    def __post_init__(self) -> None:
        nodes = 2 ** (self.max_depth + 1)
        self.feature = np.full(nodes, -1)
        self.threshold = np.zeros(nodes)
        self.leaf_of = np.zeros(len(self.gradient), np.int64)

    def is_final(self, depth: int, size: int, impurity: float) -> bool:
        return depth >= self.max_depth or size < 2 or impurity <= _EPSILON

    def values(self, hit: FloatArray, num_trees: int) -> FloatArray:
        """One Newton step in every leaf."""
        value = np.zeros(len(self.feature))
        products = hit - self.gradient
        products *= 1.0 - products
        for node in np.unique(self.leaf_of):
            inside = self.leaf_of == node
            size = np.count_nonzero(inside)
            numerator = self.gradient[inside].sum() / size
            if num_trees > 1:
                numerator *= (num_trees - 1) / num_trees
            denominator = products[inside].sum() / size
            if abs(denominator) >= 1e-150:
                value[node] = numerator / denominator
        return value


def boost_sorted(
    values: npt.NDArray[np.float32],
    orders: npt.NDArray[np.int32],
    has_ties: npt.NDArray[np.bool_],
    labels: IntArray,
    *boosting: Any,
) -> Trees:
    """As `_trees.boost_sorted`."""

    def grow(tree: _Tree) -> None:
        _grow_sorted(tree, values, np.arange(len(labels)), orders, 0, 1, 0, None)

    return _boost(grow, len(values), labels, *boosting)


def boost_counted(
    bins: npt.NDArray[np.uint16],
    cells: npt.NDArray[np.uint16],
    spans: IntArray,
    bin_of_cell: npt.NDArray[np.uint16],
    bin_values: npt.NDArray[np.float32],
    labels: IntArray,
    *boosting: Any,
) -> Trees:
    """As `_trees.boost_counted`; counts features one by one."""
    num_bins = bin_values.shape[1]
    codes = bins.astype(np.int64) + num_bins * np.arange(len(bins))[:, None]

    def grow(tree: _Tree) -> None:
        _grow_counted(tree, codes, bin_values, np.arange(len(labels)), 0, 1, 0)

    return _boost(grow, len(bins), labels, *boosting)


def predict_boosted(
    values: npt.NDArray[np.float32],
    split_feature: IntArray,
    split_threshold: FloatArray,
    node_value: FloatArray,
    raw: FloatArray,
    rate: float,
) -> None:
    """As `_trees.predict_boosted`."""
    columns = np.arange(values.shape[1])
    depth = int(np.log2(split_feature.shape[1])) - 1
    for tree, features in enumerate(split_feature):
        node = np.ones(len(columns), np.int64)
        for _ in range(depth):
            feature = features[node]
            right = values[feature, columns] > split_threshold[tree, node]
            node = np.where(feature >= 0, 2 * node + right, node)
        raw[tree % len(raw)] += rate * node_value[tree, node]


def _boost(
    grow: Callable[[_Tree], None],
    num_features: int,
    labels: IntArray,
    raw: FloatArray,
    seeds: IntArray,
    rate: float,
    max_depth: int,
) -> Trees:
    num_trees = len(raw)
    importance = np.zeros(num_features)
    grown: list[tuple[IntArray, FloatArray, FloatArray]] = []
    for stage in seeds:
        gradients = _negative_gradients(raw, labels)
        for k, seed in enumerate(stage):
            order = _Order(num_features, int(seed))
            tree = _Tree(max_depth, gradients[k], order, importance)
            grow(tree)
            hit = (labels == (1 if num_trees == 1 else k)).astype(np.float64)
            value = tree.values(hit, num_trees)
            raw[k] += rate * value[tree.leaf_of]
            grown.append((tree.feature, tree.threshold, value))
    features, thresholds, leaves = (np.stack(part) for part in zip(*grown, strict=True))
    return features, thresholds, leaves, importance


def _exp(values: FloatArray) -> FloatArray:
    """The C library's exponential, which scikit-learn and numba call.

    NumPy's own rounds 5 % of the numbers otherwise on processors with AVX-512: enough
    to decide other splits.
    """
    return np.asarray(_c_exp(values), np.float64)


def _negative_gradients(raw: FloatArray, labels: IntArray) -> FloatArray:
    if len(raw) == 1:
        y = labels.astype(np.float64)
        decay = _exp(-np.maximum(raw[0], -37.0))
        usual = -(((1.0 - y) - y * decay) / (1.0 + decay))
        tiny = _exp(np.minimum(raw[0], 0.0))
        return np.where(raw[0] > -37.0, usual, -(tiny - y))[None]
    result = _exp(raw - raw.max(axis=0))
    # Row by row: `sum` would add pairs.
    total = np.cumsum(result, axis=0)[-1]
    result = -(result / total)
    result[labels, np.arange(len(labels))] += 1.0
    return result


def _grow_sorted(
    tree: _Tree,
    values: npt.NDArray[np.float32],
    rows: IntArray,
    lists: npt.NDArray[Any],
    depth: int,
    node: int,
    known: int,
    impurity: float | None,
) -> None:
    """Splits the samples `rows`, of which each row of `lists` is a sorted copy."""
    gradient, size = tree.gradient, len(rows)
    total = _running_sum(gradient[rows])
    squares = _running_sum(gradient[rows] ** 2)
    if impurity is None:
        impurity = squares / size - (total / size) ** 2.0
    tree.leaf_of[rows] = node
    if tree.is_final(depth, size, impurity):
        return
    ordered = np.take_along_axis(values, lists, axis=1)
    spread = ordered[:, -1] > ordered[:, 0] + _CLOSE
    (varying, last), constant = tree.order.draw(known, lambda f: not spread[f])
    gains = _sorted_gains(gradient[lists], ordered, total)
    feature, cut = _first_best(gains, varying, 1.0)
    if feature < 0:
        return
    pair = ordered[feature, cut : cut + 2].astype(np.float64)
    threshold = pair[0] / 2.0 + pair[1] / 2.0
    rows, count = _partition(lists[last], values[feature] <= threshold)
    left, right = _impurities(gradient[rows], count, total, squares)
    rest = size - count
    gain = size * impurity - count * left - rest * right
    if gain / len(gradient) + _EPSILON < 0.0:
        return
    tree.feature[node], tree.threshold[node] = feature, threshold
    tree.importance[feature] += gain / len(gradient)
    goes_left = (values[feature] <= threshold)[lists]
    for child, inside, start, stop, value in (
        (2 * node, goes_left, 0, count, left),
        (2 * node + 1, ~goes_left, count, size, right),
    ):
        part = lists[inside].reshape(len(lists), -1)
        _grow_sorted(
            tree, values, rows[start:stop], part, depth + 1, child, constant, value
        )


def _sorted_gains(
    gradients: FloatArray, ordered: npt.NDArray[np.float32], total: float
) -> FloatArray:
    """(features, size - 1) what each cut gains; cuts between close values nothing."""
    size = gradients.shape[1]
    left = np.cumsum(gradients[:, :-1], axis=1)
    right = total - left
    count = np.arange(1.0, size)
    gains = left * left / count + right * right / (size - count)
    gains[ordered[:, 1:] <= ordered[:, :-1] + _CLOSE] = -np.inf
    return gains


def _first_best(gains: FloatArray, varying: list[int], tie: float) -> tuple[int, int]:
    """Feature and cut of the largest gain; of equal ones the first that was tried."""
    best, feature, cut = -np.inf, -1, -1
    for f in varying:
        where = int(np.argmax(gains[f]))
        gain = gains[f, where]
        if gain > best * (tie if best > 0 else 1.0):
            # Within the feature, too, the first of equal ones wins.
            where = int(np.argmax(gains[f] * tie >= gain)) if tie > 1 else where
            best, feature, cut = gain, f, where
    return feature, cut


def _partition(
    rows: npt.NDArray[Any], goes_left: npt.NDArray[np.bool_]
) -> tuple[npt.NDArray[Any], int]:
    """Left samples first, in the order that swapping with the end leaves them."""
    left = goes_left[rows]
    size, count = len(rows), int(np.count_nonzero(left))
    if count == size:
        return rows, count
    holes = np.flatnonzero(~left[:count])
    tail = np.arange(size - 1, count - 1, -1)
    fillers = tail[left[tail]]
    front = np.arange(count)
    front[holes] = fillers
    if left[count]:
        moved = tail[:-1].copy()
        moved[left[moved]] = holes[1:]
    else:
        holes = np.append(holes, count)
        moved = tail[:-1].copy()
        moved[left[moved]] = holes[1:]
    back = np.concatenate([holes[:1], moved])[::-1]
    return rows[np.concatenate([front, back])], count


def _impurities(
    gradients: FloatArray, count: int, total: float, squares: float
) -> tuple[float, float]:
    size = len(gradients)
    if count <= size - count:
        left = _running_sum(gradients[:count])
    else:
        backwards = np.concatenate([[total], -gradients[: count - 1 : -1]])
        left = _running_sum(backwards)
    left_squares = _running_sum(gradients[:count] ** 2)
    right, rest = total - left, size - count
    return (
        left_squares / count - (left / count) ** 2.0,
        (squares - left_squares) / rest - (right / rest) ** 2.0,
    )


def _running_sum(values: FloatArray) -> float:
    """A sum from left to right; `np.sum` would add pairs."""
    return float(np.cumsum(values)[-1])


def _grow_counted(
    tree: _Tree,
    codes: IntArray,
    bin_values: npt.NDArray[np.float32],
    rows: IntArray,
    depth: int,
    node: int,
    known: int,
) -> None:
    gradient, size = tree.gradient[rows], len(rows)
    total = gradient.sum()
    impurity = (gradient @ gradient) / size - (total / size) ** 2.0
    tree.leaf_of[rows] = node
    if tree.is_final(depth, size, impurity):
        return
    here = codes[:, rows]
    shape = bin_values.shape
    counts = np.bincount(here.ravel(), minlength=bin_values.size).reshape(shape)
    weights = np.broadcast_to(gradient, here.shape).ravel()
    summed = np.bincount(here.ravel(), weights=weights, minlength=bin_values.size)
    sums: FloatArray = summed.astype(np.float64).reshape(shape)
    is_constant = counts.max(axis=1) == size
    (varying, _), constant = tree.order.draw(known, lambda f: bool(is_constant[f]))
    gains = _counted_gains(counts, sums, size, total)
    feature, cut = _first_best(gains, varying, _TIE)
    if feature < 0:
        return
    left = here[feature] <= cut + feature * shape[1]
    count, left_sum = np.count_nonzero(left), gradient[left].sum()
    gain = left_sum**2 / count + (total - left_sum) ** 2 / (size - count)
    gain -= total * total / size
    if gain / len(tree.gradient) + _EPSILON < 0.0:
        return
    following = cut + 1 + int(np.argmax(counts[feature, cut + 1 :] > 0))
    ends = bin_values[feature, [cut, following]].astype(np.float64)
    tree.feature[node], tree.threshold[node] = feature, ends[0] / 2.0 + ends[1] / 2.0
    tree.importance[feature] += gain / len(tree.gradient)
    for child, part in ((2 * node, rows[left]), (2 * node + 1, rows[~left])):
        _grow_counted(tree, codes, bin_values, part, depth + 1, child, constant)


def _counted_gains(
    counts: IntArray, sums: FloatArray, size: int, total: float
) -> FloatArray:
    """(features, bins) what the cut after each bin gains; after empty ones nothing."""
    left = np.cumsum(sums, axis=1)
    count = np.cumsum(counts, axis=1)
    allowed = (counts > 0) & (count < size)
    inside = np.where(allowed, count, 1)
    rest = np.where(allowed, size - count, 1)
    gains = left * left / inside + (total - left) ** 2 / rest
    return np.where(allowed, gains, -np.inf)
