"""Boosted trees over features of few values, by exact histograms.

Features come in groups whose joint histogram is small: one update counts a sample for
all features of a group. A node's second child is the node minus the first.
"""

from typing import Any, NamedTuple

import numpy as np

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
from qlayers.metrics._trees.leaves import negative_gradients, newton_step

# Counted sums come in another order than scikit-learn's, so gains that differ by less
# are equal: the feature that was tried first wins.
_TIE = 1.0 + 1e-11


class Features(NamedTuple):
    """What the trees are grown on: see the arguments of `boost_counted`."""

    bins: Any
    cells: Any
    spans: Any
    bin_of_cell: Any
    bin_values: Any


class Work(NamedTuple):
    """Arrays that every tree uses again.

    Attributes:
        histogram: (cells, 2) number and sum of gradients of a node's samples.
        margins: (nodes, features, bins, 2) the same by feature.
        moments: (nodes, 2) sums of gradients and of their squares.
        rows: (samples,) rows of each node, one after another.
        spare: (samples,) rows on the right while a node is split.
    """

    histogram: Any
    margins: Any
    moments: Any
    rows: Any
    spare: Any


@compiled
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
    """Boosted trees over features of few values.

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
    num_trees = seeds.shape[1]
    data = Features(bins, cells, spans, bin_of_cell, bin_values)
    trees = new_trees(seeds.size, num_features, max_depth)
    walk = new_walk(num_features, max_depth)
    gradients = np.empty(raw.shape)
    by_sample = np.zeros((samples, (num_trees + 3) // 4 * 4))
    counts = _cell_sizes(cells, spans)
    of_all = np.empty((len(counts), by_sample.shape[1]))
    work = _new_work(data, len(counts), max_depth)
    for tree in range(seeds.size):
        stage, k = divmod(tree, num_trees)
        if k == 0:
            negative_gradients(raw, labels, gradients)
            by_sample[:, :num_trees] = gradients.T
            _sum_all_classes(cells, by_sample, of_all)
        work.histogram[:, 0] = counts
        work.histogram[:, 1] = of_all[:, k]
        waiting = start_walk(walk, samples, seeds[stage, k])
        wanted = 1 if num_trees == 1 else k
        goal = (labels, wanted, num_trees, rate)
        _grow(
            data,
            gradients[k],
            waiting,
            walk,
            work,
            trees,
            tree,
            max_depth,
            goal,
            raw[k],
        )
    return trees.feature, trees.threshold, trees.value, trees.importance


@compiled
def _new_work(data: Any, num_cells: Any, max_depth: Any) -> Any:
    num_features, samples = data.bins.shape
    nodes, num_bins = 2 ** (max_depth + 1), data.bin_values.shape[1]
    return Work(
        np.empty((num_cells, 2)),
        np.empty((nodes // 2, num_features, num_bins, 2)),
        np.empty((nodes, 2)),
        np.empty(samples, np.int32),
        np.empty(samples, np.int32),
    )


@compiled
def _cell_sizes(cells: Any, spans: Any) -> Any:
    """How many samples each cell of the joint histograms has."""
    counts = np.zeros(spans.max())
    for i in range(len(cells)):
        for q in range(cells.shape[1]):
            counts[cells[i, q]] += 1.0
    return counts


@compiled
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
    goal: Any,
    raw: Any,
) -> None:
    """Splits nodes until none waits; leaves add their values to `raw`.

    The root's histogram is in `work`. `goal` has the labels, the class that the tree
    is about, the number of trees a stage and the learning rate.
    """
    rows = work.rows
    for i in range(len(gradient)):
        rows[i] = i
    _margins(data, work.histogram, work.margins[1])
    work.moments[1] = totals(rows, gradient)
    while waiting > 0:
        waiting -= 1
        start, end, depth, node, known = walk.stack[waiting]
        feature = -1
        if depth < max_depth:
            feature, threshold, cut, gain, known = _split(
                data, gradient, start, end, node, known, walk, work
            )
        if feature < 0:
            total = work.moments[node, 0]
            trees.value[tree, node] = _finish_leaf(
                rows[start:end], gradient, total, goal, raw
            )
            continue
        trees.feature[tree, node] = feature
        trees.threshold[tree, node] = threshold
        trees.importance[feature] += gain
        span = (start, start + cut, end)
        if depth + 1 < max_depth:
            _count_children(data, gradient, span, node, work)
        waiting = push_children(walk.stack, waiting, span, depth, node, known)


@compiled
def _split(
    data: Any,
    gradient: Any,
    start: Any,
    end: Any,
    node: Any,
    known: Any,
    walk: Any,
    work: Any,
) -> Any:
    """Cuts a node in two; returns what `sorted_features._split` does."""
    leaf = (-1, 0.0, 0, 0.0, known)
    size, samples = end - start, len(gradient)
    total, squares = work.moments[node]
    impurity = squares / size - (total / size) ** 2.0
    if size < 2 or impurity <= EPSILON:
        return leaf
    margins = work.margins[node]
    open_node(walk.place, known, len(walk.features))
    feature, last_bin = _choose(margins, size, total, walk)
    known = close_node(walk.features, walk.constants, walk.place)
    if feature < 0:
        return leaf
    following = _following_bin(margins[feature], last_bin)
    ends = data.bin_values[feature]
    threshold = midpoint(ends[last_bin], ends[following])
    rows = work.rows[start:end]
    cut = _move_left(rows, work.spare, data.bins[feature], last_bin)
    left, left_squares = totals(rows[:cut], gradient)
    right = total - left
    gain = left * left / cut + right * right / (size - cut)
    gain -= total * total / size
    if gain / samples + EPSILON < 0.0:
        return leaf
    work.moments[2 * node] = (left, left_squares)
    work.moments[2 * node + 1] = (right, squares - left_squares)
    return feature, threshold, cut, gain / samples, known


@compiled
def _choose(margins: Any, size: Any, total: Any, walk: Any) -> Any:
    """The node's best feature and the last bin on the left of its cut."""
    features, place, state = walk.features, walk.place, walk.state[0]
    best, feature, cut = -1.0, -1, -1
    while True:
        state, j = next_feature(features, place, state, len(margins))
        if j < 0:
            walk.state[0] = state
            return feature, cut
        f = features[j]
        if _is_constant(margins[f], size):
            set_constant(features, place, j)
            continue
        set_seen(features, place, j)
        gain, where = _scan(margins[f], size, total, best)
        if where >= 0:
            best, feature, cut = gain, f, where


@compiled
def _is_constant(margin: Any, size: Any) -> Any:
    for b in range(len(margin)):
        if margin[b, 0] > 0.0:
            return margin[b, 0] == size
    return True


@compiled
def _scan(margin: Any, size: Any, total: Any, best: Any) -> Any:
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


@compiled
def _following_bin(margin: Any, last_bin: Any) -> Any:
    """The next bin that has samples."""
    following = last_bin + 1
    while margin[following, 0] == 0.0:
        following += 1
    return following


@compiled
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


@compiled
def _count_children(data: Any, gradient: Any, span: Any, node: Any, work: Any) -> None:
    """Margins of both children: the smaller one is counted, the other is the rest."""
    start, middle, end = span
    smaller, other = 2 * node, 2 * node + 1
    rows = work.rows[start:middle]
    if middle - start > end - middle:
        smaller, other = other, smaller
        rows = work.rows[middle:end]
    _count_cells(data.cells, rows, gradient, work.histogram)
    _margins(data, work.histogram, work.margins[smaller])
    work.margins[other] = work.margins[node] - work.margins[smaller]


@compiled
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


@compiled
def _margins(data: Any, histogram: Any, margins: Any) -> None:
    """Adds the cells of each group up to its features' bins."""
    spans, bin_of_cell = data.spans, data.bin_of_cell
    margins[:] = 0.0
    for f in range(len(spans)):
        first, last = spans[f]
        for c in range(first, last):
            b = bin_of_cell[f, c - first]
            margins[f, b, 0] += histogram[c, 0]
            margins[f, b, 1] += histogram[c, 1]


@compiled
def _finish_leaf(rows: Any, gradient: Any, total: Any, goal: Any, raw: Any) -> Any:
    """A leaf's value, added to the raw predictions of its samples."""
    labels, wanted, num_trees, rate = goal
    products = 0.0
    for j in range(len(rows)):
        i = rows[j]
        probability = (1.0 if labels[i] == wanted else 0.0) - gradient[i]
        products += probability * (1.0 - probability)
    size = len(rows)
    value = newton_step(total / size, products / size, num_trees)
    for j in range(size):
        raw[rows[j]] += rate * value
    return value
