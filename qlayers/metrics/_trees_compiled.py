"""Tree loops for numba: boosting over sorted or counted features, forests over counts.

Everything here has scikit-learn's arithmetic: the same order of additions where sums of
real numbers decide, the same random stream for the order in which features are tried,
the same rules for leaves. `_trees_numpy` is the same in plain NumPy.
"""

from typing import Any

import numpy as np
from numba import njit

# An impurity below this is rounding: the node is pure.
_EPSILON = float(np.finfo(np.float64).eps)
# Values closer than this (in single precision) are one value.
_CLOSE = np.float32(1e-7)
# Counted sums come in another order than scikit-learn's, so gains that differ by less
# are equal: the feature that was tried first wins.
_TIE = 1.0 + 1e-11
# Products with reciprocals differ by less (relatively) from divisions: six roundings.
_ESTIMATE = 1e-14
# Sums of n gradients, each at most 1, in two orders change a gain by less times n².
_SLACK = 2e-15
_MASK = 0xFFFFFFFF


@njit(cache=True, nogil=True)
def _next_random(state: Any) -> Any:
    """Xorshift with 32 bits."""
    if state == 0:
        state = 1
    state ^= (state << 13) & _MASK
    state ^= state >> 17
    state ^= (state << 5) & _MASK
    return state


# The order in which a node of scikit-learn's trees looks at features. `order` holds the
# features: constants known from the parent, constants found here, features yet to be
# seen, features seen. `place` counts them.
_KNOWN, _DRAWN, _FOUND, _REMAINING, _VISITED = range(5)


@njit(cache=True, nogil=True)
def _open_node(place: Any, known: Any, num_features: Any) -> None:
    place[:] = 0
    place[_KNOWN] = known
    place[_REMAINING] = num_features


@njit(cache=True, nogil=True)
def _next_feature(order: Any, place: Any, state: Any, at_most: Any) -> Any:
    """Draws the next feature that may vary: the random state and its place, or -1."""
    while place[_REMAINING] > place[_KNOWN] + place[_FOUND] and (
        place[_VISITED] < at_most or place[_VISITED] <= place[_FOUND] + place[_DRAWN]
    ):
        place[_VISITED] += 1
        state = _next_random(state)
        drawn = place[_DRAWN]
        width = place[_REMAINING] - place[_FOUND] - drawn
        j = drawn + (state & 0x7FFFFFFF) % width
        if j >= place[_KNOWN]:
            return state, j + place[_FOUND]
        order[drawn], order[j] = order[j], order[drawn]
        place[_DRAWN] += 1
    return state, -1


@njit(cache=True, nogil=True)
def _set_constant(order: Any, place: Any, j: Any) -> None:
    constant = place[_KNOWN] + place[_FOUND]
    order[j], order[constant] = order[constant], order[j]
    place[_FOUND] += 1


@njit(cache=True, nogil=True)
def _set_seen(order: Any, place: Any, j: Any) -> None:
    place[_REMAINING] -= 1
    last = place[_REMAINING]
    order[last], order[j] = order[j], order[last]


@njit(cache=True, nogil=True)
def _close_node(order: Any, constants: Any, place: Any) -> Any:
    """Hands the constants on to the children: how many they know."""
    known = place[_KNOWN]
    constant = known + place[_FOUND]
    # Loops: slices would cost more than the few numbers they copy.
    for j in range(known):
        order[j] = constants[j]
    for j in range(known, constant):
        constants[j] = order[j]
    return constant


@njit(cache=True, nogil=True)
def _push_children(
    stack: Any, waiting: Any, span: Any, depth: Any, node: Any, known: Any
) -> Any:
    """Puts both children on the stack, the left one on top: the new height."""
    start, middle, end = span
    for child in range(2):
        top = waiting + child
        stack[top, 0] = start if child else middle
        stack[top, 1] = middle if child else end
        stack[top, 2] = depth + 1
        stack[top, 3] = 2 * node + 1 - child
        stack[top, 4] = known
    return waiting + 2


@njit(cache=True, nogil=True)
def _midpoint(low: Any, high: Any) -> Any:
    """Halves first, as scikit-learn does, so that large values do not overflow."""
    return float(low) / 2.0 + float(high) / 2.0


@njit(cache=True, nogil=True)
def _block_sum(values: Any, start: Any, size: Any) -> Any:
    """Sum of at most 128 numbers, eight at a time as NumPy does it."""
    if size < 8:
        total = 0.0
        for i in range(start, start + size):
            total += values[i]
        return total
    r0, r1 = values[start], values[start + 1]
    r2, r3 = values[start + 2], values[start + 3]
    r4, r5 = values[start + 4], values[start + 5]
    r6, r7 = values[start + 6], values[start + 7]
    stop = start + size - size % 8
    for i in range(start + 8, stop, 8):
        r0 += values[i]
        r1 += values[i + 1]
        r2 += values[i + 2]
        r3 += values[i + 3]
        r4 += values[i + 4]
        r5 += values[i + 5]
        r6 += values[i + 6]
        r7 += values[i + 7]
    total = ((r0 + r1) + (r2 + r3)) + ((r4 + r5) + (r6 + r7))
    for i in range(stop, start + size):
        total += values[i]
    return total


@njit(cache=True, nogil=True)
def _pairwise_sum(values: Any, size: Any) -> Any:
    """NumPy's order of summation, without recursion (numba cannot cache that)."""
    tasks = np.empty((128, 2), np.int64)
    partial = np.empty(128)
    tasks[0] = (0, size)
    waiting, done = 1, 0
    while waiting > 0:
        waiting -= 1
        start, length = tasks[waiting]
        if length < 0:
            done -= 1
            partial[done - 1] += partial[done]
        elif length <= 128:
            partial[done] = _block_sum(values, start, length)
            done += 1
        else:
            half = length // 2
            half -= half % 8
            tasks[waiting] = (0, -1)
            tasks[waiting + 1] = (start + half, length - half)
            tasks[waiting + 2] = (start, half)
            waiting += 3
    return partial[0]


@njit(cache=True, nogil=True)
def _negative_gradients(raw: Any, labels: Any, gradients: Any) -> None:
    """Class indicator minus probability, (trees a stage, samples)."""
    num_trees, samples = raw.shape
    if num_trees == 1:
        for i in range(samples):
            y = float(labels[i])
            if raw[0, i] > -37.0:
                e = np.exp(-raw[0, i])
                gradients[0, i] = -(((1.0 - y) - y * e) / (1.0 + e))
            else:
                gradients[0, i] = -(np.exp(raw[0, i]) - y)
        return
    largest = np.empty(samples)
    total = np.zeros(samples)
    largest[:] = raw[0]
    for k in range(1, num_trees):
        for i in range(samples):
            largest[i] = max(largest[i], raw[k, i])
    for k in range(num_trees):
        for i in range(samples):
            gradients[k, i] = np.exp(raw[k, i] - largest[i])
        for i in range(samples):
            total[i] += gradients[k, i]
    for k in range(num_trees):
        for i in range(samples):
            gradients[k, i] = -(gradients[k, i] / total[i])
    for i in range(samples):
        gradients[labels[i], i] = -(-gradients[labels[i], i] - 1.0)


@njit(cache=True, nogil=True)
def _newton_step(numerator: Any, denominator: Any, num_trees: Any) -> Any:
    """A leaf's value from the means of gradients and of p (1 - p)."""
    if num_trees > 1:
        numerator *= (num_trees - 1) / num_trees
    if abs(denominator) < 1e-150:
        return 0.0
    return numerator / denominator


@njit(cache=True, nogil=True)
def _running_sums(
    lists: Any,
    level: Any,
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
        s0 += gradient[lists[level, f0, start + j]]
        s1 += gradient[lists[level, f1, start + j]]
        s2 += gradient[lists[level, f2, start + j]]
        s3 += gradient[lists[level, f3, start + j]]
        sums[0, j] = s0
        sums[1, j] = s1
        sums[2, j] = s2
        sums[3, j] = s3


# The flags allow vectors for the largest number, and change none of them.
@njit(cache=True, nogil=True, fastmath={"nnan", "nsz"})
def _estimate_gains(
    sums: Any,
    q: Any,
    size: Any,
    total: Any,
    inverse: Any,
    penalty: Any,
    gains: Any,
) -> Any:
    """Gains by products instead of divisions, and the largest of them."""
    largest = -np.inf
    for j in range(size - 1):
        left = sums[q, j]
        right = total - left
        gain = left * left * inverse[j + 1] + right * right * inverse[size - 1 - j]
        gain += penalty[j]
        gains[j] = gain
        if gain > largest:
            largest = gain
    return largest


@njit(cache=True, nogil=True)
def _scan_sorted(
    sums: Any,
    q: Any,
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
    largest = _estimate_gains(sums, q, size, total, inverse, penalty, gains)
    where = -1
    if largest > 1e-250 and largest * (1.0 + _ESTIMATE) <= best:
        return best, where
    # Gains are positive, but for forbidden cuts.
    least = largest * (1.0 - _ESTIMATE) if largest > 1e-250 else -1.0
    for j in range(size - 1):
        if gains[j] >= least:
            left = sums[q, j]
            right = total - left
            gain = left * left / (j + 1.0) + right * right / (size - (j + 1.0))
            if gain > best:
                best = gain
                where = j + 1
    return best, where


@njit(cache=True, nogil=True)
def _block_ties(
    lists: Any,
    level: Any,
    start: Any,
    size: Any,
    f: Any,
    values: Any,
    follows: Any,
    gradient: Any,
    total: Any,
    sums: Any,
    q: Any,
    penalty: Any,
    blocked: Any,
) -> Any:
    """Forbids cuts between values that are close: how many.

    After a run of them that is longer than what is left, scikit-learn sums from the
    end: its rounding then differs from that of the running sum.
    """
    count, position = 0, 0
    for cut in range(1, size):
        i = lists[level, f, start + cut]
        if follows[f, i]:
            before = lists[level, f, start + cut - 1]
            if values[f, i] <= values[f, before] + _CLOSE:
                penalty[cut - 1] = -np.inf
                blocked[count] = cut - 1
                count += 1
                continue
        if cut - position > size - cut:
            left = total
            for j in range(size - 1, cut - 1, -1):
                left -= gradient[lists[level, f, start + j]]
            sums[q, cut - 1] = left
            for j in range(cut, size - 1):
                left += gradient[lists[level, f, start + j]]
                sums[q, j] = left
        position = cut
    return count


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
def _level(depth: Any) -> Any:
    """Where lists of a depth are: the root's stay, those below alternate.

    Nodes of one depth have columns of their own, so that none overwrites another's.
    """
    return 1 + depth % 2 if depth > 0 else 0


@njit(cache=True, nogil=True)
def _split_lists(
    lists: Any,
    level: Any,
    below: Any,
    start: Any,
    middle: Any,
    end: Any,
    feature: Any,
    stays: Any,
) -> None:
    """Copies a node's sorted lists to the next level, left samples first."""
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


@njit(cache=True, nogil=True)
def _impurities(samples: Any, gradient: Any, cut: Any, total: Any, squares: Any) -> Any:
    """Mean squared deviations left and right of a cut, and the left sum."""
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


@njit(cache=True, nogil=True)
def _totals(samples: Any, gradient: Any) -> Any:
    total, squares = 0.0, 0.0
    for j in range(len(samples)):
        g = gradient[samples[j]]
        total += g
        squares += g * g
    return total, squares


@njit(cache=True, nogil=True)
def _set_leaf(leaf_of: Any, samples: Any, node: Any) -> None:
    for j in range(len(samples)):
        leaf_of[samples[j]] = node


@njit(cache=True, nogil=True)
def _apply_leaves(
    leaf_of: Any,
    start_of: Any,
    gradient: Any,
    hit: Any,
    raw: Any,
    num_trees: Any,
    rate: Any,
    value: Any,
    sums: Any,
    products: Any,
) -> None:
    """Sets the values of a tree's leaves and adds them to its raw predictions.

    Sums run over samples in ascending order, as scikit-learn's do.
    """
    sizes = np.zeros(len(start_of), np.int64)
    for i in range(len(leaf_of)):
        node = leaf_of[i]
        j = start_of[node] + sizes[node]
        probability = hit[i] - gradient[i]
        sums[j] = gradient[i]
        products[j] = probability * (1.0 - probability)
        sizes[node] += 1
    for node in range(len(start_of)):
        size = sizes[node]
        if size:
            first = start_of[node]
            value[node] = _newton_step(
                _pairwise_sum(sums[first:], size) / size,
                _pairwise_sum(products[first:], size) / size,
                num_trees,
            )
    for i in range(len(leaf_of)):
        raw[i] += rate * value[leaf_of[i]]


@njit(cache=True, nogil=True)
def _draw_varying(
    lists: Any,
    level: Any,
    start: Any,
    end: Any,
    values: Any,
    features: Any,
    place: Any,
    state: Any,
    drawn: Any,
) -> Any:
    """Draws all features of a node; those that vary go into `drawn`.

    Returns:
        The random state, how many vary, and the feature that was looked at last.
    """
    count, last = 0, -1
    while True:
        state, j = _next_feature(features, place, state, len(values))
        if j < 0:
            return state, count, last
        last = features[j]
        lowest, highest = lists[level, last, start], lists[level, last, end - 1]
        if values[last, highest] <= values[last, lowest] + _CLOSE:
            _set_constant(features, place, j)
            continue
        _set_seen(features, place, j)
        drawn[count] = last
        count += 1


@njit(cache=True, nogil=True)
def _choose_sorted(
    lists: Any,
    level: Any,
    start: Any,
    end: Any,
    values: Any,
    has_ties: Any,
    follows: Any,
    gradient: Any,
    total: Any,
    drawn: Any,
    count: Any,
    inverse: Any,
    sums: Any,
    gains: Any,
    penalty: Any,
    blocked: Any,
) -> Any:
    """The best feature and cut of a node, of equal ones the first that was drawn."""
    best, feature, cut = -np.inf, -1, -1
    size, last = end - start, count - 1
    for q in range(count):
        f = drawn[q]
        if q % 4 == 0:
            f1, f2 = drawn[min(q + 1, last)], drawn[min(q + 2, last)]
            f3 = drawn[min(q + 3, last)]
            _running_sums(lists, level, start, size, f, f1, f2, f3, gradient, sums)
        ties = 0
        if has_ties[f]:
            # Most features lose even with the cuts that ties forbid.
            most = _estimate_gains(sums, q % 4, size, total, inverse, penalty, gains)
            if most * (1.0 + _ESTIMATE) + _SLACK * size * size <= best:
                continue
            ties = _block_ties(
                lists,
                level,
                start,
                size,
                f,
                values,
                follows,
                gradient,
                total,
                sums,
                q % 4,
                penalty,
                blocked,
            )
        gain, where = _scan_sorted(
            sums, q % 4, size, total, best, inverse, penalty, gains
        )
        for j in range(ties):
            penalty[blocked[j]] = 0.0
        if where >= 0:
            best, feature, cut = gain, f, where
    return feature, cut


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
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
    stages, num_trees = seeds.shape
    nodes = 2 ** (max_depth + 1)
    count = stages * num_trees
    split_feature = np.full((count, nodes), -1, np.int64)
    split_threshold = np.zeros((count, nodes))
    node_value = np.zeros((count, nodes))
    importance = np.zeros(num_features)
    gradients = np.empty(raw.shape)
    lists = np.empty((3, num_features, samples), np.int32)
    lists[0] = orders
    rows = np.empty(samples, np.int32)
    stays = np.zeros(samples, np.uint8)
    drawn = np.empty(num_features, np.int64)
    follows = _followers(values, orders)
    penalty = np.zeros(samples)
    blocked = np.empty(samples, np.int64)
    inverse = 1.0 / np.maximum(np.arange(samples + 1), 1)
    leaf_of = np.empty(samples, np.int64)
    start_of = np.zeros(nodes, np.int64)
    hit = np.empty(samples)
    sums, gains = np.empty((4, samples)), np.empty(samples)
    stack = np.empty((2 * max_depth + 2, 5), np.int64)
    place = np.empty(5, np.int64)
    impurity_of = np.empty(nodes)
    for stage in range(stages):
        _negative_gradients(raw, labels, gradients)
        for k in range(num_trees):
            tree = stage * num_trees + k
            gradient = gradients[k]
            features = np.arange(num_features)
            constants = np.arange(num_features)
            state = seeds[stage, k]
            wanted = 1 if num_trees == 1 else k
            for i in range(samples):
                rows[i] = i
            stack[0] = (0, samples, 0, 1, 0)
            waiting = 1
            while waiting > 0:
                waiting -= 1
                start, end, depth, node, known = stack[waiting]
                size = end - start
                level, below = _level(depth), _level(depth + 1)
                total, squares = 0.0, 0.0
                if depth < max_depth:
                    total, squares = _totals(rows[start:end], gradient)
                if node == 1:
                    impurity_of[1] = squares / size - (total / size) ** 2.0
                impurity = impurity_of[node]
                leaf = depth >= max_depth or size < 2 or impurity <= _EPSILON
                if not leaf:
                    _open_node(place, known, num_features)
                    state, varying, last = _draw_varying(
                        lists, level, start, end, values, features, place, state, drawn
                    )
                    feature, cut = _choose_sorted(
                        lists,
                        level,
                        start,
                        end,
                        values,
                        has_ties,
                        follows,
                        gradient,
                        total,
                        drawn,
                        varying,
                        inverse,
                        sums,
                        gains,
                        penalty,
                        blocked,
                    )
                    known = _close_node(features, constants, place)
                    leaf = feature < 0
                if not leaf:
                    row = lists[level, feature, start:end]
                    threshold = _midpoint(
                        values[feature, row[cut - 1]], values[feature, row[cut]]
                    )
                    rows[start:end] = lists[level, last, start:end]
                    cut = _partition(rows[start:end], values[feature], threshold)
                    left, right = _impurities(
                        rows[start:end], gradient, cut, total, squares
                    )
                    rest = size - cut
                    gain = (size / samples) * (
                        impurity - rest / size * right - cut / size * left
                    )
                    leaf = gain + _EPSILON < 0.0
                if leaf:
                    start_of[node] = start
                    _set_leaf(leaf_of, rows[start:end], node)
                    continue
                split_feature[tree, node] = feature
                split_threshold[tree, node] = threshold
                impurity_of[2 * node] = left
                impurity_of[2 * node + 1] = right
                importance[feature] += (
                    size * impurity - cut * left - rest * right
                ) / samples
                if depth + 1 < max_depth:
                    middle = start + cut
                    _split_lists(
                        lists, level, below, start, middle, end, feature, stays
                    )
                span = (start, start + cut, end)
                waiting = _push_children(stack, waiting, span, depth, node, known)
            for i in range(samples):
                hit[i] = 1.0 if labels[i] == wanted else 0.0
            _apply_leaves(
                leaf_of,
                start_of,
                gradient,
                hit,
                raw[k],
                num_trees,
                rate,
                node_value[tree],
                sums[0],
                gains,
            )
    return split_feature, split_threshold, node_value, importance


@njit(cache=True, nogil=True)
def _leaf_of(values: Any, i: Any, feature: Any, threshold: Any) -> Any:
    """The leaf in which sample `i` ends, by its number in heap order."""
    node = 1
    while feature[node] >= 0:
        right = values[feature[node], i] > threshold[node]
        node = 2 * node + (1 if right else 0)
    return node


@njit(cache=True, nogil=True)
def predict_boosted(
    values: Any,
    split_feature: Any,
    split_threshold: Any,
    node_value: Any,
    raw: Any,
    rate: Any,
) -> None:
    """Adds all trees to `raw` (trees a stage, samples), stage by stage."""
    num_trees, samples = raw.shape
    for tree in range(len(split_feature)):
        k = tree % num_trees
        for i in range(samples):
            node = _leaf_of(values, i, split_feature[tree], split_threshold[tree])
            raw[k, i] += rate * node_value[tree, node]


@njit(cache=True, nogil=True)
def _count_cells(cells: Any, samples: Any, gradient: Any, histogram: Any) -> None:
    """Number and sum of gradients of the samples in every cell."""
    histogram[:] = 0.0
    groups = cells.shape[1]
    for j in range(len(samples)):
        i = samples[j]
        g = gradient[i]
        for q in range(groups):
            c = cells[i, q]
            histogram[c, 0] += 1.0
            histogram[c, 1] += g


@njit(cache=True, nogil=True)
def _sum_all_classes(cells: Any, gradients: Any, result: Any) -> None:
    """Sums of all classes' gradients in every cell; classes come in fours."""
    result[:] = 0.0
    samples, groups = cells.shape
    for i in range(samples):
        for q in range(groups):
            c = cells[i, q]
            for k in range(0, gradients.shape[1], 4):
                result[c, k] += gradients[i, k]
                result[c, k + 1] += gradients[i, k + 1]
                result[c, k + 2] += gradients[i, k + 2]
                result[c, k + 3] += gradients[i, k + 3]


@njit(cache=True, nogil=True)
def _margins(histogram: Any, spans: Any, bin_of_cell: Any, margins: Any) -> None:
    """Adds the cells of each group up to its features' bins."""
    margins[:] = 0.0
    for f in range(len(spans)):
        first, last = spans[f]
        for c in range(first, last):
            b = bin_of_cell[f, c - first]
            margins[f, b, 0] += histogram[c, 0]
            margins[f, b, 1] += histogram[c, 1]


@njit(cache=True, nogil=True)
def _is_constant(margin: Any, size: Any) -> Any:
    for b in range(len(margin)):
        if margin[b, 0] > 0.0:
            return margin[b, 0] == size
    return True


@njit(cache=True, nogil=True)
def _scan_counted(margin: Any, size: Any, total: Any, best: Any) -> Any:
    """The best cut between bins: its gain and the last bin on the left."""
    left, count, where = 0.0, 0.0, -1
    for b in range(len(margin)):
        if margin[b, 0] == 0.0:
            continue
        count += margin[b, 0]
        left += margin[b, 1]
        if count == size:
            break
        right = total - left
        gain = left * left / count + right * right / (size - count)
        if gain > best * _TIE:
            best = gain
            where = b
    return best, where


@njit(cache=True, nogil=True)
def _move_left(rows: Any, spare: Any, bins: Any, last_bin: Any) -> Any:
    """Moves the samples up to a bin to the front, in their order: their number."""
    count, kept = 0, 0
    for j in range(len(rows)):
        i = rows[j]
        left = bins[i] <= last_bin
        # Without a branch: which way a sample goes cannot be predicted.
        rows[count] = i
        spare[kept] = i
        count += left
        kept += not left
    for j in range(kept):
        rows[count + j] = spare[j]
    return count


@njit(cache=True, nogil=True)
def _split_counted(
    rows: Any, spare: Any, bins: Any, last_bin: Any, gradient: Any
) -> Any:
    """Moves the left samples to the front: their number, sum and sum of squares."""
    count = _move_left(rows, spare, bins, last_bin)
    total, squares = _totals(rows[:count], gradient)
    return count, total, squares


@njit(cache=True, nogil=True)
def _finish_leaf(
    rows: Any,
    gradient: Any,
    total: Any,
    labels: Any,
    wanted: Any,
    num_trees: Any,
    rate: Any,
    raw: Any,
) -> Any:
    """A leaf's value, added to the raw predictions of its samples."""
    products = 0.0
    for j in range(len(rows)):
        i = rows[j]
        probability = (1.0 if labels[i] == wanted else 0.0) - gradient[i]
        products += probability * (1.0 - probability)
    size = len(rows)
    value = _newton_step(total / size, products / size, num_trees)
    for j in range(size):
        raw[rows[j]] += rate * value
    return value


@njit(cache=True, nogil=True)
def _choose_counted(
    margins: Any, size: Any, total: Any, features: Any, place: Any, state: Any
) -> Any:
    """The node's best feature and the last bin on the left of its cut."""
    best, feature, cut = -1.0, -1, -1
    while True:
        state, j = _next_feature(features, place, state, len(margins))
        if j < 0:
            return state, feature, cut
        f = features[j]
        if _is_constant(margins[f], size):
            _set_constant(features, place, j)
            continue
        _set_seen(features, place, j)
        gain, where = _scan_counted(margins[f], size, total, best)
        if where >= 0:
            best, feature, cut = gain, f, where


@njit(cache=True, nogil=True)
def _cell_sizes(cells: Any, spans: Any) -> Any:
    """How many samples each cell of the joint histograms has."""
    counts = np.zeros(spans.max())
    for i in range(len(cells)):
        for q in range(cells.shape[1]):
            counts[cells[i, q]] += 1.0
    return counts


@njit(cache=True, nogil=True)
def _following_bin(margin: Any, last_bin: Any) -> Any:
    """The next bin that has samples."""
    following = last_bin + 1
    while margin[following, 0] == 0.0:
        following += 1
    return following


@njit(cache=True, nogil=True)
def boost_counted(
    bins: Any,
    cells: Any,
    spans: Any,
    bin_of_cell: Any,
    bin_values: Any,
    labels: Any,
    raw: Any,
    seeds: Any,
    rate: Any,
    max_depth: Any,
) -> Any:
    """Boosted trees over features of few values, by exact histograms.

    Features come in groups whose joint histogram is small: one update counts a sample
    for all features of a group. A node's second child is the node minus the first.

    Args:
        bins: (features, samples) index of each value.
        cells: (samples, groups) cell of each sample in the joint histograms.
        spans: (features, 2) first and last cell of the feature's group.
        bin_of_cell: (features, cells) the feature's bin in each cell of its group.
        bin_values: (features, bins) single precision.
        labels: See `boost_sorted`, as are the rest and what is returned.
        raw: See there.
        seeds: See there.
        rate: See there.
        max_depth: See there.
    """
    num_features, samples = bins.shape
    num_bins = bin_values.shape[1]
    stages, num_trees = seeds.shape
    nodes = 2 ** (max_depth + 1)
    count = stages * num_trees
    split_feature = np.full((count, nodes), -1, np.int64)
    split_threshold = np.zeros((count, nodes))
    node_value = np.zeros((count, nodes))
    importance = np.zeros(num_features)
    gradients = np.empty(raw.shape)
    by_sample = np.zeros((samples, (num_trees + 3) // 4 * 4))
    counts = _cell_sizes(cells, spans)
    of_all = np.empty((len(counts), by_sample.shape[1]))
    histogram = np.empty((len(counts), 2))
    margins = np.empty((nodes // 2, num_features, num_bins, 2))
    rows = np.empty(samples, np.int32)
    spare = np.empty(samples, np.int32)
    stack = np.empty((2 * max_depth + 2, 5), np.int64)
    place = np.empty(5, np.int64)
    moments = np.empty((nodes, 2))
    for stage in range(stages):
        _negative_gradients(raw, labels, gradients)
        by_sample[:, :num_trees] = gradients.T
        _sum_all_classes(cells, by_sample, of_all)
        for k in range(num_trees):
            tree = stage * num_trees + k
            gradient = gradients[k]
            features = np.arange(num_features)
            constants = np.arange(num_features)
            state = seeds[stage, k]
            wanted = 1 if num_trees == 1 else k
            for i in range(samples):
                rows[i] = i
            histogram[:, 0] = counts
            histogram[:, 1] = of_all[:, k]
            _margins(histogram, spans, bin_of_cell, margins[1])
            moments[1] = _totals(rows, gradient)
            stack[0] = (0, samples, 0, 1, 0)
            waiting = 1
            while waiting > 0:
                waiting -= 1
                start, end, depth, node, known = stack[waiting]
                size = end - start
                total, squares = moments[node]
                impurity = squares / size - (total / size) ** 2.0
                leaf = depth >= max_depth or size < 2 or impurity <= _EPSILON
                if not leaf:
                    _open_node(place, known, num_features)
                    state, feature, cut = _choose_counted(
                        margins[node], size, total, features, place, state
                    )
                    known = _close_node(features, constants, place)
                    leaf = feature < 0
                if not leaf:
                    last_bin = cut
                    following = _following_bin(margins[node, feature], last_bin)
                    threshold = _midpoint(
                        bin_values[feature, last_bin], bin_values[feature, following]
                    )
                    cut, left, left_squares = _split_counted(
                        rows[start:end], spare, bins[feature], last_bin, gradient
                    )
                    rest = size - cut
                    right = total - left
                    gain = left * left / cut + right * right / rest
                    gain -= total * total / size
                    leaf = gain / samples + _EPSILON < 0.0
                if leaf:
                    node_value[tree, node] = _finish_leaf(
                        rows[start:end],
                        gradient,
                        total,
                        labels,
                        wanted,
                        num_trees,
                        rate,
                        raw[k],
                    )
                    continue
                split_feature[tree, node] = feature
                split_threshold[tree, node] = threshold
                moments[2 * node] = (left, left_squares)
                moments[2 * node + 1] = (right, squares - left_squares)
                importance[feature] += gain / samples
                middle = start + cut
                if depth + 1 < max_depth:
                    smaller, other = 2 * node, 2 * node + 1
                    if cut <= rest:
                        _count_cells(cells, rows[start:middle], gradient, histogram)
                    else:
                        smaller, other = other, smaller
                        _count_cells(cells, rows[middle:end], gradient, histogram)
                    _margins(histogram, spans, bin_of_cell, margins[smaller])
                    margins[other] = margins[node] - margins[smaller]
                span = (start, middle, end)
                waiting = _push_children(stack, waiting, span, depth, node, known)
    return split_feature, split_threshold, node_value, importance
