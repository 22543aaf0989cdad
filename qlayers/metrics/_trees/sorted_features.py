"""Boosted trees over real features, each sorted once.

Every sum has scikit-learn's order, because nodes with equal gains are decided by
rounding: only the same bits give the same trees.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from qlayers.metrics._trees.compiling import compiled
from qlayers.metrics._trees.growth import (
    EPSILON,
    close_node,
    midpoint,
    new_trees,
    new_walk,
    next_feature,
    open_node,
    push_children,
    set_constant,
    set_seen,
    start_walk,
    totals,
)
from qlayers.metrics._trees.leaves import (
    negative_gradients,
    newton_step,
    pairwise_sum,
)

# Values closer than this (in single precision) are one value.
_CLOSE = np.float32(1e-7)
# Products with reciprocals differ by less (relatively) from divisions: six roundings.
_ESTIMATE = 1e-14
# Sums of n gradients, each at most 1, in two orders change a gain by less times n².
_SLACK = 2e-15


class Features(NamedTuple):
    """What the trees are grown on.

    Attributes:
        values: (features, samples) single precision.
        has_ties: (features,) whether some values are close to each other.
        follows: (features, samples) whether a value is close to the one before it.
        inverse: (samples + 1,) one divided by each number of samples.
    """

    values: Any
    has_ties: Any
    follows: Any
    inverse: Any


class Work(NamedTuple):
    """Arrays that every tree uses again.

    Attributes:
        lists: (3, features, samples) rows in the order of each feature, at the levels
            of `_level`; those of a node are a run of them.
        rows: (samples,) rows of each node in the order that its cut left them in.
        stays: (samples,) whether a row goes to the left child.
        drawn: (features,) that vary in a node, in the order drawn.
        sums: (4, samples) sums of gradients left of each cut, of four features.
        gains: (samples,) of each cut.
        penalty: (samples,) -inf where a cut is forbidden; zeros between nodes.
        blocked: (samples,) cuts that are.
        impurity: (nodes,) mean squared deviation of the gradients.
        leaf_of: (samples,) number of the leaf that a row is in.
        start_of: (nodes,) first row of each leaf.
    """

    lists: Any
    rows: Any
    stays: Any
    drawn: Any
    sums: Any
    gains: Any
    penalty: Any
    blocked: Any
    impurity: Any
    leaf_of: Any
    start_of: Any


@compiled
def boost_sorted(
    values: Any,
    orders: Any,
    has_ties: Any,
    labels: Any,
    raw: Any,
    seeds: Any,
    rate: Any,
    max_depth: Any,
) -> Any:
    """Boosted trees over real features.

    Args:
        values: (features, samples) single precision.
        orders: (features, samples) rows that sort each feature.
        has_ties: (features,) whether some values are close to each other.
        labels: (samples,) classes from 0.
        raw: (trees a stage, samples) initial predictions; the final ones after it.
        seeds: (stages, trees a stage) of each tree.
        rate: Learning rate.
        max_depth: Depth of the trees.

    Returns:
        (trees, nodes) features (-1 for a leaf), thresholds and values of nodes in heap
        order, and the (features,) importances.
    """
    num_features, samples = values.shape
    num_trees = seeds.shape[1]
    inverse = 1.0 / np.maximum(np.arange(samples + 1), 1)
    data = Features(values, has_ties, _followers(values, orders), inverse)
    work = _new_work(orders, max_depth)
    trees = new_trees(seeds.size, num_features, max_depth)
    walk = new_walk(num_features, max_depth)
    gradients = np.empty(raw.shape)
    for tree in range(seeds.size):
        stage, k = divmod(tree, num_trees)
        if k == 0:
            negative_gradients(raw, labels, gradients)
        waiting = start_walk(walk, samples, seeds[stage, k])
        _grow(data, gradients[k], waiting, walk, work, trees, tree, max_depth)
        wanted = 1 if num_trees == 1 else k
        _apply_leaves(
            work,
            gradients[k],
            labels,
            wanted,
            raw[k],
            num_trees,
            rate,
            trees.value[tree],
        )
    return trees.feature, trees.threshold, trees.value, trees.importance


@compiled
def _followers(values: Any, orders: Any) -> Any:
    """(features, samples) whether a value is close to the one before it.

    Only these can be close to the one before them in a node.
    """
    follows = np.zeros(values.shape, np.uint8)
    for f in range(len(values)):
        for j in range(1, values.shape[1]):
            i = orders[f, j]
            follows[f, i] = values[f, i] <= values[f, orders[f, j - 1]] + _CLOSE
    return follows


@compiled
def _new_work(orders: Any, max_depth: Any) -> Any:
    num_features, samples = orders.shape
    nodes = 2 ** (max_depth + 1)
    lists = np.empty((3, num_features, samples), np.int32)
    lists[0] = orders
    return Work(
        lists,
        np.empty(samples, np.int32),
        np.zeros(samples, np.uint8),
        np.empty(num_features, np.int64),
        np.empty((4, samples)),
        np.empty(samples),
        np.zeros(samples),
        np.empty(samples, np.int64),
        np.empty(nodes),
        np.empty(samples, np.int64),
        np.zeros(nodes, np.int64),
    )


@compiled
def _grow(
    data: Any,
    gradient: Any,
    waiting: Any,
    walk: Any,
    work: Any,
    trees: Any,
    tree: Any,
    max_depth: Any,
) -> None:
    """Splits nodes until none waits; rows of leaves are in `work` after it."""
    rows = work.rows
    for i in range(len(gradient)):
        rows[i] = i
    while waiting > 0:
        waiting -= 1
        start, end, depth, node, known = walk.stack[waiting]
        feature = -1
        if depth < max_depth:
            feature, threshold, cut, gain, known = _split(
                data, gradient, start, end, depth, node, known, walk, work
            )
        if feature < 0:
            work.start_of[node] = start
            for r in range(start, end):
                work.leaf_of[rows[r]] = node
            continue
        trees.feature[tree, node] = feature
        trees.threshold[tree, node] = threshold
        trees.importance[feature] += gain
        middle = start + cut
        if depth + 1 < max_depth:
            _split_lists(work, depth, start, middle, end, feature)
        span = (start, middle, end)
        waiting = push_children(walk.stack, waiting, span, depth, node, known)


@compiled
def _split(
    data: Any,
    gradient: Any,
    start: Any,
    end: Any,
    depth: Any,
    node: Any,
    known: Any,
    walk: Any,
    work: Any,
) -> Any:
    """Cuts a node in two.

    Returns:
        The feature, or -1 for a leaf; the threshold; the number of samples on the
        left; what is gained; and how many features are known to be constant.
    """
    leaf = (-1, 0.0, 0, 0.0, known)
    size, samples = end - start, len(gradient)
    rows, level = work.rows[start:end], _level(depth)
    total, squares = totals(rows, gradient)
    if node == 1:
        work.impurity[1] = squares / size - (total / size) ** 2.0
    impurity = work.impurity[node]
    if size < 2 or impurity <= EPSILON:
        return leaf
    open_node(walk.place, known, len(walk.features))
    varying, last = _draw_varying(data, work, level, start, end, walk)
    feature, cut = _choose(data, work, gradient, level, start, end, total, varying)
    known = close_node(walk.features, walk.constants, walk.place)
    if feature < 0:
        return leaf
    row, column = work.lists[level, feature, start:end], data.values[feature]
    threshold = midpoint(column[row[cut - 1]], column[row[cut]])
    rows[:] = work.lists[level, last, start:end]
    cut = _partition(rows, column, threshold)
    left, right = _impurities(rows, gradient, cut, total, squares)
    rest = size - cut
    gain = (size / samples) * (impurity - rest / size * right - cut / size * left)
    if gain + EPSILON < 0.0:
        return leaf
    work.impurity[2 * node], work.impurity[2 * node + 1] = left, right
    gain = (size * impurity - cut * left - rest * right) / samples
    return feature, threshold, cut, gain, known


@compiled
def _level(depth: Any) -> Any:
    """Where lists of a depth are: the root's stay, those below alternate.

    Nodes of one depth have columns of their own, so that none overwrites another's.
    """
    return 1 + depth % 2 if depth > 0 else 0


@compiled
def _draw_varying(
    data: Any, work: Any, level: Any, start: Any, end: Any, walk: Any
) -> Any:
    """Draws all features of a node: how many vary, and the one looked at last."""
    lists, values, features = work.lists, data.values, walk.features
    count, last, state = 0, -1, walk.state[0]
    while True:
        state, j = next_feature(features, walk.place, state, len(values))
        if j < 0:
            walk.state[0] = state
            return count, last
        last = features[j]
        lowest, highest = lists[level, last, start], lists[level, last, end - 1]
        if values[last, highest] <= values[last, lowest] + _CLOSE:
            set_constant(features, walk.place, j)
            continue
        set_seen(features, walk.place, j)
        work.drawn[count] = last
        count += 1


@compiled
def _choose(
    data: Any,
    work: Any,
    gradient: Any,
    level: Any,
    start: Any,
    end: Any,
    total: Any,
    count: Any,
) -> Any:
    """The best feature and cut of a node, of equal ones the first that was drawn."""
    drawn, sums, gains, penalty = work.drawn, work.sums, work.gains, work.penalty
    best, feature, cut = -np.inf, -1, -1
    size, last = end - start, count - 1
    for q in range(count):
        f, row = drawn[q], sums[q % 4]
        if q % 4 == 0:
            f1, f2 = drawn[min(q + 1, last)], drawn[min(q + 2, last)]
            f3 = drawn[min(q + 3, last)]
            _running_sums(work.lists[level], start, size, f, f1, f2, f3, gradient, sums)
        ties = 0
        if data.has_ties[f]:
            # Most features lose even with the cuts that ties forbid.
            most = _estimate_gains(row, size, total, data.inverse, penalty, gains)
            if most * (1.0 + _ESTIMATE) + _SLACK * size * size <= best:
                continue
            order = work.lists[level, f, start:end]
            ties = _block_ties(data, work, order, f, gradient, total, row)
        gain, where = _scan(row, size, total, best, data.inverse, penalty, gains)
        for j in range(ties):
            penalty[work.blocked[j]] = 0.0
        if where >= 0:
            best, feature, cut = gain, f, where
    return feature, cut


@compiled
def _running_sums(
    lists: Any,
    start: Any,
    size: Any,
    f0: Any,
    f1: Any,
    f2: Any,
    f3: Any,
    gradient: Any,
    sums: Any,
) -> None:
    """Left sums of four features: an addition waits for the last, four do not."""
    s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
    for j in range(size - 1):
        s0 += gradient[lists[f0, start + j]]
        s1 += gradient[lists[f1, start + j]]
        s2 += gradient[lists[f2, start + j]]
        s3 += gradient[lists[f3, start + j]]
        sums[0, j] = s0
        sums[1, j] = s1
        sums[2, j] = s2
        sums[3, j] = s3


# The flags allow vectors for the largest number, and change none of them.
@njit(cache=True, nogil=True, fastmath={"nnan", "nsz"})
def _estimate_gains(
    sums: Any, size: Any, total: Any, inverse: Any, penalty: Any, gains: Any
) -> Any:
    """Gains by products instead of divisions, and the largest of them."""
    largest = -np.inf
    for j in range(size - 1):
        left = sums[j]
        right = total - left
        gain = left * left * inverse[j + 1] + right * right * inverse[size - 1 - j]
        gain += penalty[j]
        gains[j] = gain
        if gain > largest:
            largest = gain
    return largest


@compiled
def _scan(
    sums: Any,
    size: Any,
    total: Any,
    best: Any,
    inverse: Any,
    penalty: Any,
    gains: Any,
) -> Any:
    """The best cut of a feature: its gain and position.

    Divisions decide, as in scikit-learn, between cuts whose estimates are within
    rounding of the largest. Tiny gains may lose digits, so all of them are divided.
    """
    largest = _estimate_gains(sums, size, total, inverse, penalty, gains)
    where = -1
    if largest > 1e-250 and largest * (1.0 + _ESTIMATE) <= best:
        return best, where
    # Gains are positive, but for forbidden cuts.
    least = largest * (1.0 - _ESTIMATE) if largest > 1e-250 else -1.0
    for j in range(size - 1):
        if gains[j] >= least:
            left = sums[j]
            right = total - left
            gain = left * left / (j + 1.0) + right * right / (size - (j + 1.0))
            if gain > best:
                best = gain
                where = j + 1
    return best, where


@compiled
def _block_ties(
    data: Any,
    work: Any,
    order: Any,
    f: Any,
    gradient: Any,
    total: Any,
    sums: Any,
) -> Any:
    """Forbids cuts between values that are close: how many.

    After a run of them that is longer than what is left, scikit-learn sums from the
    end: its rounding then differs from that of the running sum.
    """
    values, follows, penalty = data.values, data.follows, work.penalty
    size = len(order)
    count, position = 0, 0
    for cut in range(1, size):
        i = order[cut]
        if follows[f, i] and values[f, i] <= values[f, order[cut - 1]] + _CLOSE:
            penalty[cut - 1] = -np.inf
            work.blocked[count] = cut - 1
            count += 1
            continue
        if cut - position > size - cut:
            left = total
            for j in range(size - 1, cut - 1, -1):
                left -= gradient[order[j]]
            sums[cut - 1] = left
            for j in range(cut, size - 1):
                left += gradient[order[j]]
                sums[j] = left
        position = cut
    return count


@compiled
def _partition(samples: Any, values: Any, threshold: Any) -> Any:
    """Moves samples up to the threshold to the front; returns how many."""
    first, last = 0, len(samples)
    while first < last:
        if values[samples[first]] <= threshold:
            first += 1
        else:
            last -= 1
            samples[first], samples[last] = samples[last], samples[first]
    return first


@compiled
def _impurities(samples: Any, gradient: Any, cut: Any, total: Any, squares: Any) -> Any:
    """Mean squared deviations left and right of a cut."""
    size = len(samples)
    if cut <= size - cut:
        left = 0.0
        for j in range(cut):
            left += gradient[samples[j]]
    else:
        left = total
        for j in range(size - 1, cut - 1, -1):
            left -= gradient[samples[j]]
    left_squares = 0.0
    for j in range(cut):
        left_squares += gradient[samples[j]] * gradient[samples[j]]
    right = total - left
    right_squares = squares - left_squares
    rest = size - cut
    return (
        left_squares / cut - (left / cut) ** 2.0,
        right_squares / rest - (right / rest) ** 2.0,
    )


@compiled
def _split_lists(
    work: Any, depth: Any, start: Any, middle: Any, end: Any, feature: Any
) -> None:
    """Copies a node's sorted lists to the next level, left samples first."""
    lists, stays = work.lists, work.stays
    level, below = _level(depth), _level(depth + 1)
    for j in range(start, end):
        # The feature that was cut has them in front already.
        stays[lists[level, feature, j]] = j < middle
    for f in range(lists.shape[1]):
        left, right = start, middle
        for j in range(start, end):
            i = lists[level, f, j]
            # Without a branch: which way a sample goes cannot be predicted.
            stay = np.int64(stays[i])
            lists[below, f, left if stay else right] = i
            left += stay
            right += 1 - stay


@compiled
def _apply_leaves(
    work: Any,
    gradient: Any,
    labels: Any,
    wanted: Any,
    raw: Any,
    num_trees: Any,
    rate: Any,
    value: Any,
) -> None:
    """Sets the values of a tree's leaves and adds them to its raw predictions.

    Sums run over samples in ascending order, as scikit-learn's do.
    """
    leaf_of, start_of = work.leaf_of, work.start_of
    sums, products = work.sums[0], work.gains
    sizes = np.zeros(len(start_of), np.int64)
    for i in range(len(leaf_of)):
        node = leaf_of[i]
        j = start_of[node] + sizes[node]
        probability = (1.0 if labels[i] == wanted else 0.0) - gradient[i]
        sums[j] = gradient[i]
        products[j] = probability * (1.0 - probability)
        sizes[node] += 1
    for node in range(len(start_of)):
        size = sizes[node]
        if size:
            first = start_of[node]
            value[node] = newton_step(
                pairwise_sum(sums[first:], size) / size,
                pairwise_sum(products[first:], size) / size,
                num_trees,
            )
    for i in range(len(leaf_of)):
        raw[i] += rate * value[leaf_of[i]]
