"""What growing trees share: nodes that wait, and the order in which they try features.

The order is scikit-learn's. A node's `order` holds the features: constants known from
the parent, constants found here, features yet to be seen, features seen. `place` counts
them.
"""

from typing import Any, NamedTuple

import numpy as np

from qlayers.metrics._trees.compiling import compiled

# An impurity below this is rounding: the node is pure.
EPSILON = float(np.finfo(np.float64).eps)
_MASK = 0xFFFFFFFF
_KNOWN, _DRAWN, _FOUND, _REMAINING, _VISITED = range(5)


class Trees(NamedTuple):
    """Boosted trees, their nodes in heap order.

    Attributes:
        feature: (trees, nodes) that a node cuts; -1 for a leaf.
        threshold: (trees, nodes) up to which samples go left.
        value: (trees, nodes) of leaves.
        importance: (features,) what the cuts of a feature have gained in all trees.
    """

    feature: Any
    threshold: Any
    value: Any
    importance: Any


class Walk(NamedTuple):
    """The way through the nodes of one tree.

    Attributes:
        stack: (waiting nodes, 5) first row, last row, depth, number, known constants.
        features: (features,) the order in which the node tries them.
        constants: (features,) those that are known to be constant come first.
        place: (5,) counts the parts of `features`.
        state: (1,) of the random stream.
    """

    stack: Any
    features: Any
    constants: Any
    place: Any
    state: Any


@compiled
def new_trees(count: Any, num_features: Any, max_depth: Any) -> Any:
    """Trees without a node."""
    nodes = 2 ** (max_depth + 1)
    return Trees(
        np.full((count, nodes), -1, np.int64),
        np.zeros((count, nodes)),
        np.zeros((count, nodes)),
        np.zeros(num_features),
    )


@compiled
def new_walk(num_features: Any, max_depth: Any) -> Any:
    """Room for a walk; `start_walk` begins it."""
    return Walk(
        np.empty((2 * max_depth + 2, 5), np.int64),
        np.empty(num_features, np.int64),
        np.empty(num_features, np.int64),
        np.empty(5, np.int64),
        np.empty(1, np.int64),
    )


@compiled
def start_walk(walk: Any, samples: Any, seed: Any) -> Any:
    """Puts the root on the stack: the number of waiting nodes."""
    for f in range(len(walk.features)):
        walk.features[f] = f
        walk.constants[f] = f
    walk.state[0] = seed
    walk.stack[0] = (0, samples, 0, 1, 0)
    return 1


@compiled
def next_random(state: Any) -> Any:
    """Xorshift with 32 bits."""
    if state == 0:
        state = 1
    state ^= (state << 13) & _MASK
    state ^= state >> 17
    state ^= (state << 5) & _MASK
    return state


@compiled
def open_node(place: Any, known: Any, num_features: Any) -> None:
    place[:] = 0
    place[_KNOWN] = known
    place[_REMAINING] = num_features


@compiled
def next_feature(order: Any, place: Any, state: Any, at_most: Any) -> Any:
    """Draws the next feature that may vary: the random state and its place, or -1."""
    while place[_REMAINING] > place[_KNOWN] + place[_FOUND] and (
        place[_VISITED] < at_most or place[_VISITED] <= place[_FOUND] + place[_DRAWN]
    ):
        place[_VISITED] += 1
        state = next_random(state)
        drawn = place[_DRAWN]
        width = place[_REMAINING] - place[_FOUND] - drawn
        j = drawn + (state & 0x7FFFFFFF) % width
        if j >= place[_KNOWN]:
            return state, j + place[_FOUND]
        order[drawn], order[j] = order[j], order[drawn]
        place[_DRAWN] += 1
    return state, -1


@compiled
def set_constant(order: Any, place: Any, j: Any) -> None:
    constant = place[_KNOWN] + place[_FOUND]
    order[j], order[constant] = order[constant], order[j]
    place[_FOUND] += 1


@compiled
def set_seen(order: Any, place: Any, j: Any) -> None:
    place[_REMAINING] -= 1
    last = place[_REMAINING]
    order[last], order[j] = order[j], order[last]


@compiled
def close_node(order: Any, constants: Any, place: Any) -> Any:
    """Hands the constants on to the children: how many they know."""
    known = place[_KNOWN]
    constant = known + place[_FOUND]
    # Loops: slices would cost more than the few numbers they copy.
    for j in range(known):
        order[j] = constants[j]
    for j in range(known, constant):
        constants[j] = order[j]
    return constant


@compiled
def push_children(
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


@compiled
def midpoint(low: Any, high: Any) -> Any:
    """Halves first, as scikit-learn does, so that large values do not overflow."""
    return float(low) / 2.0 + float(high) / 2.0


@compiled
def totals(samples: Any, gradient: Any) -> Any:
    """Sum and sum of squares of the samples' gradients."""
    total, squares = 0.0, 0.0
    for j in range(len(samples)):
        g = gradient[samples[j]]
        total += g
        squares += g * g
    return total, squares
