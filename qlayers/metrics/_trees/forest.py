"""Forests for numba over features of few values, by exact histograms.

Trees follow scikit-learn's random stream (see `growth`). Large nodes count samples by
bin and class; small nodes sort their samples, because most cells of their histograms
would be empty.

Nodes of ten samples are most of a forest, so nothing here makes views of arrays inside
a node: numba counts references to each, which shows in nodes so small.
"""

from typing import Any

import numpy as np
from numba import njit

from qlayers.metrics._trees.compiling import compiled
from qlayers.metrics._trees.growth import (
    close_node,
    midpoint,
    next_feature,
    open_node,
    push_children,
    set_constant,
    set_seen,
)

# Gains that differ by less are equal: the feature that was tried first wins.
_TIE = 1e-9
# Sorting a sample costs as much as looking at this many cells of a histogram.
_CELLS = 4
# Samples that are predicted together: their votes stay in the second cache.
_BLOCK = 4096

# Rows of `work`, the integers that every node uses again. By class: the node's samples,
# those left of the cut that a scan is at, those left of the best cut.
_COUNTS, _LEFT, _CHOSEN = range(3)
# By bin and class, and by bin: zeros between scans.
_HISTOGRAM, _PLACES = range(3, 5)
# By sample of a small node, in the order of rows and in that of a feature's bins.
_LABELS, _WEIGHTS, _SORTED_BINS, _SORTED_LABELS, _SORTED_WEIGHTS = range(5, 10)


@compiled
def _scan_histogram(
    work: Any,
    num_bins: Any,
    num_classes: Any,
    log_table: Any,
    own: Any,
    whole: Any,
    best: Any,
) -> Any:
    """The cut between bins with the least entropy on both sides.

    With f(n) = n log n, minus the entropies of both sides times their sizes is
    Σ f(left) - f(Σ left) + Σ f(right) - f(Σ right): a table and additions. Leaves the
    histogram empty for the next feature.

    Returns:
        The gain, the last bin on the left (-1 if none is better than `best`), the
        first on the right, and whether more than one bin has samples.
    """
    for c in range(num_classes):
        work[_LEFT, c] = 0
    both, size_left = own, 0
    where, after, occupied, latest = -1, -1, 0, -1
    for b in range(num_bins):
        start = b * num_classes
        size = 0
        for c in range(start, start + num_classes):
            size += work[_HISTOGRAM, c]
        if size == 0:
            continue
        if where >= 0 and where == latest:
            after = b
        latest = b
        occupied += 1
        size_left += size
        if size_left == whole:
            for c in range(start, start + num_classes):
                work[_HISTOGRAM, c] = 0
            break
        for c in range(num_classes):
            moved = work[_HISTOGRAM, start + c]
            if moved > 0:
                work[_HISTOGRAM, start + c] = 0
                before = work[_LEFT, c]
                right = work[_COUNTS, c] - before
                both += log_table[before + moved] - log_table[before]
                both += log_table[right - moved] - log_table[right]
                work[_LEFT, c] = before + moved
        gain = both - log_table[size_left] - log_table[whole - size_left]
        if gain > best + _TIE:
            best, where = gain, b
            for c in range(num_classes):
                work[_CHOSEN, c] = work[_LEFT, c]
    return best, where, after, occupied > 1


@compiled
def _scan_samples(
    work: Any,
    size: Any,
    num_classes: Any,
    log_table: Any,
    own: Any,
    whole: Any,
    best: Any,
) -> Any:
    """As `_scan_histogram`, sample by sample in the order of their bins.

    Every sample is a possible cut and the comparison drops those inside a bin: loops
    over the samples of each bin would end where no processor can predict it.
    """
    for c in range(num_classes):
        work[_LEFT, c] = 0
    both, size_left = own, 0
    where = -1
    for j in range(size - 1):
        c, moved = work[_SORTED_LABELS, j], work[_SORTED_WEIGHTS, j]
        before = work[_LEFT, c]
        right = work[_COUNTS, c] - before
        both += (log_table[before + moved] - log_table[before]) + (
            log_table[right - moved] - log_table[right]
        )
        work[_LEFT, c] = before + moved
        size_left += moved
        gain = both - log_table[size_left] - log_table[whole - size_left]
        ends = work[_SORTED_BINS, j] != work[_SORTED_BINS, j + 1]
        if (gain > best + _TIE) & ends:
            best, where = gain, j
    if where < 0:
        return best, np.int32(-1), np.int32(-1)
    return best, work[_SORTED_BINS, where], work[_SORTED_BINS, where + 1]


@compiled
def _count(
    cells: Any, f: Any, rows: Any, start: Any, end: Any, weight: Any, work: Any
) -> None:
    for r in range(start, end):
        i = rows[r]
        work[_HISTOGRAM, cells[f, i]] += weight[i]


@compiled
def _gather(
    labels: Any, weight: Any, rows: Any, start: Any, end: Any, work: Any
) -> None:
    """Labels and weights of a small node's samples."""
    for r in range(start, end):
        work[_LABELS, r - start] = labels[rows[r]]
        work[_WEIGHTS, r - start] = weight[rows[r]]


@compiled
def _sort_by_bin(
    bins: Any, f: Any, rows: Any, start: Any, end: Any, num_bins: Any, work: Any
) -> Any:
    """Sorts a small node's samples: whether they lie in more than one bin."""
    first: Any = num_bins
    last: Any = 0
    for r in range(start, end):
        b = np.int64(bins[f, rows[r]])
        work[_PLACES, b] += 1
        first = min(first, b)
        last = max(last, b)
    total = 0
    for place in range(first, last + 1):
        size = work[_PLACES, place]
        work[_PLACES, place] = total
        total += size
    for j in range(end - start):
        b = np.int64(bins[f, rows[start + j]])
        at = work[_PLACES, b]
        work[_PLACES, b] = at + 1
        work[_SORTED_BINS, at] = b
        work[_SORTED_LABELS, at] = work[_LABELS, j]
        work[_SORTED_WEIGHTS, at] = work[_WEIGHTS, j]
    for place in range(first, last + 1):
        work[_PLACES, place] = 0
    return last > first


@compiled
def _count_left(
    bins: Any,
    f: Any,
    rows: Any,
    start: Any,
    end: Any,
    cut: Any,
    num_classes: Any,
    work: Any,
) -> None:
    """Classes of a small node's samples up to the cut."""
    for c in range(num_classes):
        work[_CHOSEN, c] = 0
    for j in range(end - start):
        stays = np.int64(bins[f, rows[start + j]] <= cut)
        work[_CHOSEN, work[_LABELS, j]] += work[_WEIGHTS, j] * stays


@compiled
def _choose_cut(
    bins: Any,
    cells: Any,
    labels: Any,
    weight: Any,
    rows: Any,
    start: Any,
    end: Any,
    num_bins: Any,
    num_classes: Any,
    log_table: Any,
    own: Any,
    whole: Any,
    order: Any,
    place: Any,
    state: Any,
    max_features: Any,
    work: Any,
) -> Any:
    """The node's best feature and the bins on both sides of its cut."""
    best, feature, cut, following = -np.inf, -1, -1, -1
    size = end - start
    small = size * _CELLS < num_bins * num_classes
    if small:
        _gather(labels, weight, rows, start, end, work)
    while True:
        state, j = next_feature(order, place, state, max_features)
        if j < 0:
            break
        f = order[j]
        if small:
            varies = _sort_by_bin(bins, f, rows, start, end, num_bins, work)
            gain, where, after = _scan_samples(
                work, size, num_classes, log_table, own, whole, best
            )
        else:
            _count(cells, f, rows, start, end, weight, work)
            gain, where, after, varies = _scan_histogram(
                work, num_bins, num_classes, log_table, own, whole, best
            )
        if not varies:
            set_constant(order, place, j)
            continue
        set_seen(order, place, j)
        if where >= 0:
            best, feature, cut, following = gain, f, where, after
    if small and feature >= 0:
        _count_left(bins, feature, rows, start, end, cut, num_classes, work)
    return state, best, feature, cut, following


@compiled
def _split_rows(
    rows: Any, start: Any, end: Any, spare: Any, bins: Any, f: Any, cut: Any
) -> Any:
    """Moves samples up to the cut to the front, in their order: where others start."""
    count, kept = start, 0
    for r in range(start, end):
        i = rows[r]
        right = bins[f, i] > cut
        # Without a branch: which way a sample goes cannot be predicted.
        rows[count] = i
        spare[kept] = i
        count += not right
        kept += right
    for r in range(kept):
        rows[count + r] = spare[r]
    return count


@compiled
def _take_counts(
    waiting_counts: Any, top: Any, num_classes: Any, log_table: Any, work: Any
) -> Any:
    """Class counts of the node on top: the number of samples and Σ n log n."""
    whole, own = 0, 0.0
    for c in range(num_classes):
        count = waiting_counts[top, c]
        work[_COUNTS, c] = count
        whole += count
        own += log_table[count]
    return whole, own


@compiled
def _put_counts(waiting_counts: Any, top: Any, num_classes: Any, work: Any) -> None:
    """Class counts of the children, the left one on top."""
    for c in range(num_classes):
        left = work[_CHOSEN, c]
        waiting_counts[top, c] = work[_COUNTS, c] - left
        waiting_counts[top + 1, c] = left


@compiled
def _in_bag(weight: Any, labels: Any, rows: Any, waiting_counts: Any) -> Any:
    """Lists and counts the samples that a bootstrap drew: how many."""
    drawn = 0
    waiting_counts[0] = 0
    for i in range(len(weight)):
        rows[drawn] = i
        drawn += weight[i] > 0
        waiting_counts[0, labels[i]] += weight[i]
    return drawn


@njit(cache=True, nogil=True, error_model="numpy")
def _grow_tree(
    bins: Any,
    bin_values: Any,
    cells: Any,
    labels: Any,
    weight: Any,
    state: Any,
    max_features: Any,
    max_depth: Any,
    log_table: Any,
    rows: Any,
    spare: Any,
    work: Any,
    waiting_counts: Any,
    split_feature: Any,
    split_threshold: Any,
    frequency: Any,
    importance: Any,
) -> None:
    num_features, num_bins = bin_values.shape
    num_classes = len(frequency)
    order, constants = np.arange(num_features), np.arange(num_features)
    place = np.empty(5, np.int64)
    stack = np.zeros((len(waiting_counts), 5), np.int64)
    stack[0, 1] = _in_bag(weight, labels, rows, waiting_counts)
    stack[0, 3] = 1
    waiting = 1
    while waiting > 0:
        waiting -= 1
        start, end, depth = stack[waiting, 0], stack[waiting, 1], stack[waiting, 2]
        number, known = stack[waiting, 3], stack[waiting, 4]
        whole, own = _take_counts(waiting_counts, waiting, num_classes, log_table, work)
        impurity = (log_table[whole] - own) / whole
        feature = -1
        if depth < max_depth and end - start > 1 and impurity > 1e-12:
            open_node(place, known, num_features)
            state, best, feature, cut, following = _choose_cut(
                bins,
                cells,
                labels,
                weight,
                rows,
                start,
                end,
                num_bins,
                num_classes,
                log_table,
                own,
                whole,
                order,
                place,
                state,
                max_features,
                work,
            )
            known = close_node(order, constants, place)
        if feature < 0:
            leaf = (number << (max_depth - depth)) - frequency.shape[1]
            for c in range(num_classes):
                frequency[c, leaf] = work[_COUNTS, c] / whole
            continue
        split_feature[number] = feature
        split_threshold[number] = midpoint(
            bin_values[feature, cut], bin_values[feature, following]
        )
        importance[feature] += best - (own - log_table[whole])
        # The last level's leaves need class counts alone.
        middle = start
        if depth + 1 < max_depth:
            middle = _split_rows(rows, start, end, spare, bins, feature, cut)
        _put_counts(waiting_counts, waiting, num_classes, work)
        span = (start, middle, end)
        waiting = push_children(stack, waiting, span, depth, number, known)


@compiled
def grow_forest(
    bins: Any,
    bin_values: Any,
    cells: Any,
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
        cells: (features, samples) bin times classes plus label.
        labels: (samples,) classes from 0.
        num_classes: Number of classes.
        weights: (trees, samples) how often the bootstrap drew each sample.
        seeds: (trees,) of the order of features.
        max_features: Features a node looks at.
        max_depth: Depth of the trees.
        log_table: Values of n log n for every number of samples.

    Returns:
        (trees, nodes) features (-1 for a leaf) and thresholds (infinite for a leaf) of
        nodes in heap order, (trees, classes, nodes of the last level) frequencies, and
        (trees, features) importances that sum to 1. A leaf above the last level stands
        at its first descendant there.
    """
    num_features, samples = bins.shape
    num_bins = bin_values.shape[1]
    num_trees = len(seeds)
    leaves = 2**max_depth
    split_feature = np.full((num_trees, leaves), -1, np.int64)
    split_threshold = np.full((num_trees, leaves), np.inf)
    frequency = np.zeros((num_trees, num_classes, leaves))
    importance = np.zeros((num_trees, num_features))
    # Small nodes have fewer samples than cells.
    work = np.zeros((10, num_bins * num_classes + 1), np.int32)
    # Moving samples writes one beyond the last that stays.
    rows, spare = np.empty(samples + 1, np.int32), np.empty(samples + 1, np.int32)
    waiting_counts = np.empty((2 * max_depth + 2, num_classes), np.int32)
    for tree in range(num_trees):
        _grow_tree(
            bins,
            bin_values,
            cells,
            labels,
            weights[tree],
            seeds[tree],
            max_features,
            max_depth,
            log_table,
            rows,
            spare,
            work,
            waiting_counts,
            split_feature[tree],
            split_threshold[tree],
            frequency[tree],
            importance[tree],
        )
        total = importance[tree].sum()
        if total > 0.0:
            importance[tree] /= total
    return split_feature, split_threshold, frequency, importance


@compiled
def _descend(
    values: Any,
    first: Any,
    size: Any,
    features: Any,
    thresholds: Any,
    tree: Any,
    depth: Any,
    nodes: Any,
) -> None:
    """Takes a block of samples down a tree, level by level.

    Samples do not wait for each other, as the levels of one sample do.
    """
    for i in range(size):
        nodes[i] = 1
    for _ in range(depth):
        for i in range(size):
            node = nodes[i]
            right = values[features[tree, node], first + i] > thresholds[tree, node]
            nodes[i] = node + node + right


@compiled
def predict_forest(
    values: Any, split_feature: Any, split_threshold: Any, frequency: Any
) -> Any:
    """(classes, samples) mean class frequencies of the leaves.

    Args:
        values: (features, samples) single precision.
        split_feature: (trees, nodes) as of `grow_forest`, 0 for leaves.
        split_threshold: (trees, nodes) in single precision, rounded down: the values'
            comparisons with it are those with the exact one.
        frequency: See `grow_forest`.
    """
    num_trees, num_classes, leaves = frequency.shape
    samples = values.shape[1]
    depth = 0
    while 2**depth < leaves:
        depth += 1
    nodes = np.empty(_BLOCK, np.uint32)
    votes = np.zeros((num_classes, samples))
    for first in range(0, samples, _BLOCK):
        size = min(_BLOCK, samples - first)
        for tree in range(num_trees):
            _descend(
                values, first, size, split_feature, split_threshold, tree, depth, nodes
            )
            for i in range(size):
                nodes[i] -= np.uint32(leaves)
            # Class by class: the leaves of one class stay in the fastest cache.
            for c in range(num_classes):
                for i in range(size):
                    votes[c, first + i] += frequency[tree, c, nodes[i]]
    return votes / num_trees
