"""Gradients, values of leaves and predictions of boosted trees."""

from typing import Any

import numpy as np

from qlayers.metrics._trees.compiling import compiled


@compiled
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


@compiled
def pairwise_sum(values: Any, size: Any) -> Any:
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


@compiled
def negative_gradients(raw: Any, labels: Any, gradients: Any) -> None:
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


@compiled
def newton_step(numerator: Any, denominator: Any, num_trees: Any) -> Any:
    """A leaf's value from the means of gradients and of p (1 - p)."""
    if num_trees > 1:
        numerator *= (num_trees - 1) / num_trees
    if abs(denominator) < 1e-150:
        return 0.0
    return numerator / denominator


@compiled
def _leaf_of(values: Any, i: Any, feature: Any, threshold: Any) -> Any:
    """The leaf in which sample `i` ends, by its number in heap order."""
    node = 1
    while feature[node] >= 0:
        right = values[feature[node], i] > threshold[node]
        node = 2 * node + (1 if right else 0)
    return node


@compiled
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
