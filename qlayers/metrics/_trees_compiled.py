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
def _scan_sorted(
    row: Any, values: Any, gradient: Any, total: Any, best: Any, sums: Any, gains: Any
) -> Any:
    """The best cut of a feature whose values all differ: its gain and position."""
    size = len(row)
    running = 0.0
    for j in range(size - 1):
        running += gradient[row[j]]
        sums[j] = running
    for j in range(size - 1):
        left = sums[j]
        right = total - left
        gains[j] = left * left / (j + 1.0) + right * right / (size - (j + 1.0))
    where = -1
    for j in range(size - 1):
        if gains[j] > best:
            best = gains[j]
            where = j + 1
    return best, where


@njit(cache=True, nogil=True)
def _scan_with_ties(row: Any, values: Any, gradient: Any, total: Any, best: Any) -> Any:
    """As `_scan_sorted`, skipping cuts between values that are close."""
    size = len(row)
    left, position, where = 0.0, 0, -1
    cut = 0
    while True:
        cut += 1
        while cut < size and values[row[cut]] <= values[row[cut - 1]] + _CLOSE:
            cut += 1
        if cut >= size:
            return best, where
        if cut - position <= size - cut:
            for j in range(position, cut):
                left += gradient[row[j]]
        else:
            left = total
            for j in range(size - 1, cut - 1, -1):
                left -= gradient[row[j]]
        position = cut
        right = total - left
        gain = left * left / cut + right * right / (size - cut)
        if gain > best:
            best = gain
            where = cut


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
def _stable_partition(row: Any, values: Any, threshold: Any, spare: Any) -> None:
    count, kept = 0, 0
    for j in range(len(row)):
        i = row[j]
        if values[i] <= threshold:
            row[count] = i
            count += 1
        else:
            spare[kept] = i
            kept += 1
    for j in range(kept):
        row[count + j] = spare[j]


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
    lists = np.empty((num_features, samples), np.int32)
    rows = np.empty(samples, np.int32)
    spare = np.empty(samples, np.int32)
    leaf_of = np.empty(samples, np.int64)
    start_of = np.zeros(nodes, np.int64)
    hit = np.empty(samples)
    sums, gains = np.empty(samples), np.empty(samples)
    stack = np.empty((2 * max_depth + 2, 5), np.int64)
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
            lists[:] = orders
            for i in range(samples):
                rows[i] = i
            stack[0] = (0, samples, 0, 1, 0)
            depth_of_stack = 1
            while depth_of_stack > 0:
                depth_of_stack -= 1
                start, end, depth, node, known = stack[depth_of_stack]
                size = end - start
                total, squares = _totals(rows[start:end], gradient)
                if node == 1:
                    impurity_of[1] = squares / size - (total / size) ** 2.0
                impurity = impurity_of[node]
                leaf = depth >= max_depth or size < 2 or impurity <= _EPSILON
                constant = known
                if not leaf:
                    best, feature, cut, last = -np.inf, -1, -1, -1
                    remaining, found, drawn = num_features, 0, 0
                    while remaining > constant:
                        state = _next_random(state)
                        width = remaining - found - drawn
                        j = drawn + (state & 0x7FFFFFFF) % width
                        if j < known:
                            features[drawn], features[j] = features[j], features[drawn]
                            drawn += 1
                            continue
                        j += found
                        f = features[j]
                        last = f
                        row = lists[f, start:end]
                        if values[f, row[size - 1]] <= values[f, row[0]] + _CLOSE:
                            features[j], features[constant] = features[constant], f
                            found += 1
                            constant += 1
                            continue
                        remaining -= 1
                        features[remaining], features[j] = f, features[remaining]
                        if has_ties[f]:
                            gain, where = _scan_with_ties(
                                row, values[f], gradient, total, best
                            )
                        else:
                            gain, where = _scan_sorted(
                                row, values[f], gradient, total, best, sums, gains
                            )
                        if where >= 0:
                            best, feature, cut = gain, f, where
                    features[:known] = constants[:known]
                    constants[known : known + found] = features[known : known + found]
                    leaf = feature < 0
                if not leaf:
                    row = lists[feature, start:end]
                    threshold = (
                        float(values[feature, row[cut - 1]]) / 2.0
                        + float(values[feature, row[cut]]) / 2.0
                    )
                    rows[start:end] = lists[last, start:end]
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
                    for f in range(num_features):
                        _stable_partition(
                            lists[f, start:end], values[feature], threshold, spare
                        )
                middle = start + cut
                stack[depth_of_stack] = (middle, end, depth + 1, 2 * node + 1, constant)
                stack[depth_of_stack + 1] = (
                    start,
                    middle,
                    depth + 1,
                    2 * node,
                    constant,
                )
                depth_of_stack += 2
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
                sums,
                gains,
            )
    return split_feature, split_threshold, node_value, importance


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
            node = 1
            while split_feature[tree, node] >= 0:
                right = (
                    values[split_feature[tree, node], i] > split_threshold[tree, node]
                )
                node = 2 * node + (1 if right else 0)
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
def _split_counted(
    rows: Any, spare: Any, bins: Any, last_bin: Any, gradient: Any
) -> Any:
    """Moves the left samples to the front: their number, sum and sum of squares."""
    count, kept = 0, 0
    total, squares = 0.0, 0.0
    for j in range(len(rows)):
        i = rows[j]
        left = bins[i] <= last_bin
        # Without a branch: which way a sample goes cannot be predicted.
        rows[count] = i
        spare[kept] = i
        count += left
        kept += not left
        g = gradient[i] if left else 0.0
        total += g
        squares += g * g
    for j in range(kept):
        rows[count + j] = spare[j]
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
    num_cells = 0
    for f in range(num_features):
        num_cells = max(num_cells, spans[f, 1])
    of_all = np.empty((num_cells, by_sample.shape[1]))
    histogram = np.empty((num_cells, 2))
    counts = np.zeros(num_cells)
    for i in range(samples):
        for q in range(cells.shape[1]):
            counts[cells[i, q]] += 1.0
    margins = np.empty((nodes // 2, num_features, num_bins, 2))
    rows = np.empty(samples, np.int32)
    spare = np.empty(samples, np.int32)
    stack = np.empty((2 * max_depth + 2, 5), np.int64)
    moments = np.empty((nodes, 2))
    for stage in range(stages):
        _negative_gradients(raw, labels, gradients)
        for k in range(num_trees):
            for i in range(samples):
                by_sample[i, k] = gradients[k, i]
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
            depth_of_stack = 1
            while depth_of_stack > 0:
                depth_of_stack -= 1
                start, end, depth, node, known = stack[depth_of_stack]
                size = end - start
                total, squares = moments[node]
                impurity = squares / size - (total / size) ** 2.0
                leaf = depth >= max_depth or size < 2 or impurity <= _EPSILON
                constant = known
                if not leaf:
                    best, feature, cut = -1.0, -1, -1
                    remaining, found, drawn = num_features, 0, 0
                    while remaining > constant:
                        state = _next_random(state)
                        width = remaining - found - drawn
                        j = drawn + (state & 0x7FFFFFFF) % width
                        if j < known:
                            features[drawn], features[j] = features[j], features[drawn]
                            drawn += 1
                            continue
                        j += found
                        f = features[j]
                        if _is_constant(margins[node, f], size):
                            features[j], features[constant] = features[constant], f
                            found += 1
                            constant += 1
                            continue
                        remaining -= 1
                        features[remaining], features[j] = f, features[remaining]
                        gain, where = _scan_counted(margins[node, f], size, total, best)
                        if where >= 0:
                            best, feature, cut = gain, f, where
                    features[:known] = constants[:known]
                    constants[known : known + found] = features[known : known + found]
                    leaf = feature < 0
                if not leaf:
                    last_bin = cut
                    following = cut + 1
                    while margins[node, feature, following, 0] == 0.0:
                        following += 1
                    threshold = (
                        float(bin_values[feature, last_bin]) / 2.0
                        + float(bin_values[feature, following]) / 2.0
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
                stack[depth_of_stack] = (middle, end, depth + 1, 2 * node + 1, constant)
                stack[depth_of_stack + 1] = (
                    start,
                    middle,
                    depth + 1,
                    2 * node,
                    constant,
                )
                depth_of_stack += 2
    return split_feature, split_threshold, node_value, importance


@njit(cache=True, nogil=True)
def _scan_entropy(
    histogram: Any,
    bin_sizes: Any,
    counts: Any,
    left: Any,
    log_table: Any,
    own: Any,
    whole: Any,
    best: Any,
) -> Any:
    """The cut between bins with the least entropy on both sides.

    With f(n) = n log n, minus the entropies of both sides times their sizes is
    Σ f(left) - f(Σ left) + Σ f(right) - f(Σ right): a table and additions. Leaves
    histogram and sizes empty for the next feature.

    Returns:
        The gain, the last bin on the left (-1 if none is better than `best`), the
        first on the right, and how many bins have samples.
    """
    num_bins, num_classes = histogram.shape
    for c in range(num_classes):
        left[c] = 0
    sum_left, sum_right = 0.0, own
    size_left = 0
    where, after, occupied, last = -1, -1, 0, -1
    for b in range(num_bins):
        if bin_sizes[b] == 0:
            continue
        if where >= 0 and where == last:
            after = b
        last = b
        occupied += 1
        size_left += bin_sizes[b]
        bin_sizes[b] = 0
        if size_left == whole:
            for c in range(num_classes):
                histogram[b, c] = 0
            break
        for c in range(num_classes):
            moved = histogram[b, c]
            if moved > 0:
                histogram[b, c] = 0
                before = left[c]
                right = counts[c] - before
                sum_left += log_table[before + moved] - log_table[before]
                sum_right += log_table[right - moved] - log_table[right]
                left[c] = before + moved
        gain = sum_left - log_table[size_left]
        gain += sum_right - log_table[whole - size_left]
        if gain > best + 1e-9:
            best = gain
            where = b
    return best, where, after, occupied


@njit(cache=True, nogil=True)
def grow_forest(
    bins: Any,
    bin_values: Any,
    labels: Any,
    num_classes: Any,
    weights: Any,
    seeds: Any,
    max_features: Any,
    max_depth: Any,
    log_table: Any,
) -> Any:
    """Trees of a random forest over features of few values, by exact histograms.

    Args:
        bins: (features, samples) index of each value.
        bin_values: (features, bins) single precision.
        labels: (samples,) classes from 0.
        num_classes: Number of classes.
        weights: (trees, samples) how often the bootstrap drew each sample.
        seeds: (trees,) of the order of features.
        max_features: Features a node looks at.
        max_depth: Depth of the trees.
        log_table: n log n for every number of samples.

    Returns:
        (trees, nodes) features (-1 for a leaf) and thresholds of nodes in heap order,
        (trees, nodes, classes) their class frequencies, and (trees, features)
        importances that sum to 1.
    """
    num_features, samples = bins.shape
    num_bins = bin_values.shape[1]
    num_trees = len(seeds)
    nodes = 2 ** (max_depth + 1)
    split_feature = np.full((num_trees, nodes), -1, np.int64)
    split_threshold = np.zeros((num_trees, nodes))
    frequency = np.zeros((num_trees, nodes, num_classes))
    importance = np.zeros((num_trees, num_features))
    histogram = np.zeros((num_bins, num_classes), np.int32)
    bin_sizes = np.zeros(num_bins, np.int32)
    left_counts = np.zeros(num_classes, np.int32)
    rows = np.empty(samples, np.int32)
    spare = np.empty(samples, np.int32)
    counts = np.empty(num_classes, np.int32)
    stack = np.empty((2 * max_depth + 2, 5), np.int64)
    for tree in range(num_trees):
        weight = weights[tree]
        drawn_rows = 0
        for i in range(samples):
            if weight[i] > 0:
                rows[drawn_rows] = i
                drawn_rows += 1
        features = np.arange(num_features)
        constants = np.arange(num_features)
        state = seeds[tree]
        stack[0] = (0, drawn_rows, 0, 1, 0)
        waiting = 1
        while waiting > 0:
            waiting -= 1
            start, end, depth, node, known = stack[waiting]
            counts[:] = 0
            for j in range(start, end):
                counts[labels[rows[j]]] += weight[rows[j]]
            whole, own = 0, 0.0
            for c in range(num_classes):
                whole += counts[c]
                own += log_table[counts[c]]
            for c in range(num_classes):
                frequency[tree, node, c] = counts[c] / whole
            impurity = (log_table[whole] - own) / whole
            if depth >= max_depth or end - start < 2 or impurity <= 1e-12:
                continue
            best, feature, cut, following = -np.inf, -1, -1, -1
            remaining, found, drawn, visited = num_features, 0, 0, 0
            constant = known
            while remaining > constant and (
                visited < max_features or visited <= found + drawn
            ):
                visited += 1
                state = _next_random(state)
                width = remaining - found - drawn
                j = drawn + (state & 0x7FFFFFFF) % width
                if j < known:
                    features[drawn], features[j] = features[j], features[drawn]
                    drawn += 1
                    continue
                j += found
                f = features[j]
                column = bins[f]
                for r in range(start, end):
                    i = rows[r]
                    b = column[i]
                    histogram[b, labels[i]] += weight[i]
                    bin_sizes[b] += weight[i]
                gain, where, after, occupied = _scan_entropy(
                    histogram,
                    bin_sizes,
                    counts,
                    left_counts,
                    log_table,
                    own,
                    whole,
                    best,
                )
                if occupied == 1:
                    features[j], features[constant] = features[constant], f
                    found += 1
                    constant += 1
                    continue
                remaining -= 1
                features[remaining], features[j] = f, features[remaining]
                if where >= 0:
                    best, feature, cut, following = gain, f, where, after
            features[:known] = constants[:known]
            constants[known : known + found] = features[known : known + found]
            if feature < 0:
                continue
            split_feature[tree, node] = feature
            split_threshold[tree, node] = (
                float(bin_values[feature, cut]) / 2.0
                + float(bin_values[feature, following]) / 2.0
            )
            importance[tree, feature] += best - (own - log_table[whole])
            count, others = start, 0
            for j in range(start, end):
                i = rows[j]
                left = bins[feature, i] <= cut
                rows[count] = i
                spare[others] = i
                count += left
                others += not left
            for j in range(others):
                rows[count + j] = spare[j]
            stack[waiting] = (count, end, depth + 1, 2 * node + 1, constant)
            stack[waiting + 1] = (start, count, depth + 1, 2 * node, constant)
            waiting += 2
        total = importance[tree].sum()
        if total > 0.0:
            importance[tree] /= total
    return split_feature, split_threshold, frequency, importance


@njit(cache=True, nogil=True)
def predict_forest(
    values: Any, split_feature: Any, split_threshold: Any, frequency: Any
) -> Any:
    """(samples, classes) mean class frequencies of the leaves."""
    num_trees, _, num_classes = frequency.shape
    samples = values.shape[1]
    votes = np.zeros((samples, num_classes))
    for tree in range(num_trees):
        for i in range(samples):
            node = 1
            while split_feature[tree, node] >= 0:
                f = split_feature[tree, node]
                right = values[f, i] > split_threshold[tree, node]
                node = 2 * node + (1 if right else 0)
            for c in range(num_classes):
                votes[i, c] += frequency[tree, node, c]
    return votes / num_trees
