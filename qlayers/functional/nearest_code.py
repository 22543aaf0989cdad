"""Nearest entry of a table, for scalars and for vectors."""

import math

import keras
from keras import ops

from qlayers.backend import Tensor, first_argmin, select
from qlayers.checks import check_choice

# Far below the largest float32, so that products with codes do not overflow.
_FAR = 1e30
# The same for sums of squares.
_FAR_SQUARED = 1e18
# Largest relative error of one float32 operation.
_UNIT = 2.0**-24
# At most so many vectors, and differences of vectors and codes, are held at once.
_MAX_ROWS = 16
_MAX_DIFFERENCES = 2**20


def nearest_code(x: Tensor, table: Tensor, available: Tensor | None = None) -> Tensor:
    """Index of the value nearest to each scalar.

    Ties go to the lowest index. Scalars beyond the table's ends, infinities included,
    go to the end's value. A NaN, which has no nearest value, gets the index -1.

    Args:
        x: Scalars of shape `(..., n)`.
        table: Values of shape `(n, num_values)`, one row for each latent, or
            `(num_values,)` for all of them, in any order.
        available: Booleans of the table's shape; values that are not available are
            never chosen. Each row needs one that is. Default: all are.

    Returns:
        int32 tensor of the shape of `x`.

    Example:

    ```python
    nearest_code([[0.2, 0.9]], [0.0, 0.5, 1.0])  # [[0, 2]]
    ```
    """
    x, table = ops.convert_to_tensor(x), ops.convert_to_tensor(table)
    table = ops.reshape(table, (-1, table.shape[-1]))
    num_tables = table.shape[0]
    # Scalars last and values before them, so that processors search for many scalars
    # at once. With values last TensorFlow takes three times as long.
    columns = ops.transpose(ops.reshape(x, (-1, num_tables)))
    table = ops.expand_dims(table, -1)
    # Without the clip, |1e30 - v| is 1e30 for every v and the lowest index would win.
    low = high = table
    if available is not None:
        available = ops.reshape(available, table.shape)
        low = ops.where(available, table, float("inf"))
        high = ops.where(available, table, float("-inf"))
    inside = ops.clip(columns, ops.min(low, axis=1), ops.max(high, axis=1))
    distance = ops.abs(ops.expand_dims(inside, 1) - table)
    if available is not None:
        distance = ops.where(available, distance, float("inf"))
    index = _mark_nan(_first_smallest(distance), ops.isnan(columns))
    return ops.reshape(ops.transpose(index), ops.shape(x))


def _first_smallest(distance: Tensor) -> Tensor:
    """int32 index of the smallest entry along axis 1, the first of several."""
    size = distance.shape[1]
    is_more = distance > _smallest(distance, 1, keepdims=True)
    index = ops.reshape(ops.arange(size, dtype="int32"), (1, size, 1))
    return ops.min(ops.where(is_more, size - 1, index), axis=1, initial=size - 1)


def nearest_vector(x: Tensor, table: Tensor, distance: str = "l2") -> Tensor:
    """Index of the vector nearest to each vector.

    Ties go to the lowest index; a vector that holds a NaN gets the index -1. A tie is
    two distances that differ by no more than the rounding of their float32 sums. It
    is decided from the differences `x - c` themselves, so that processors whose matrix
    products round differently choose the same code.

    Args:
        x: Vectors of shape `(..., dim)`.
        table: Vectors of shape `(num_codes, dim)`.
        distance: `"l2"` (Euclidean) or `"l1"` (sum of absolute differences).

    Returns:
        int32 tensor of the leading shape of `x`.

    Example:

    ```python
    nearest_vector([[0.2, 0.9]], [[0.0, 0.0], [0.0, 1.0]])  # [1]
    ```
    """
    check_choice("distance", distance, ("l1", "l2"))
    # An index has no gradient, and JAX cannot look for one in a loop.
    x = ops.stop_gradient(ops.convert_to_tensor(x))
    table = ops.stop_gradient(ops.convert_to_tensor(table))
    index = _nearest_l2(x, table) if distance == "l2" else _nearest_l1(x, table)
    return _mark_nan(index, ops.any(ops.isnan(x), axis=-1))


def _nearest_l2(x: Tensor, table: Tensor) -> Tensor:
    """One matrix product chooses; where its rounding could, the differences do."""
    if 0 in x.shape[:-1]:  # PyTorch and JAX can take nothing from an empty batch.
        return ops.zeros(x.shape[:-1], dtype="int32")
    rows = ops.reshape(x, (-1, x.shape[-1]))
    index, is_open = _nearest_by_product(rows, table)
    if not isinstance(index, keras.KerasTensor):
        index = ops.cond(
            ops.any(is_open),
            lambda: _decide(index, is_open, rows, table),
            lambda: index,
        )
    return ops.reshape(index, ops.shape(x)[:-1])


def _nearest_by_product(x: Tensor, table: Tensor) -> tuple[Tensor, Tensor]:
    """Nearest codes, and for which vectors another code is as near by rounding."""
    num_codes = table.shape[0]
    # A power of two: processors read several columns at once.
    num_columns = 2 ** math.ceil(math.log2(math.sqrt(num_codes)))
    num_lines = math.ceil(num_codes / num_columns)
    score, rounding = _half_squares(x, table, num_lines * num_columns)
    # The codes stand in a square. Two of them differ in line or column: the smallest
    # scores of lines and of columns show the best code and whether it has a rival, in
    # two passes over the scores, where counting the codes within rounding takes four.
    score = ops.reshape(score, (-1, num_lines, num_columns))
    of_lines, of_columns = _smallest(score, 2), _smallest(score, 1)
    bound = _smallest(of_lines, -1, keepdims=True) + rounding
    is_open = ops.logical_or(
        _has_several(of_lines, bound), _has_several(of_columns, bound)
    )
    return first_argmin(of_lines) * num_columns + first_argmin(of_columns), is_open


def _has_several(score: Tensor, bound: Tensor) -> Tensor:
    return ops.sum(ops.cast(score <= bound, "float32"), axis=-1) > 1.5


def _half_squares(x: Tensor, table: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """Half of `|x - c|^2` less `|x|^2`, which is the same for every code `c`.

    One matrix product, but it subtracts large numbers if the codes lie far from the
    origin: it is taken from the middle of the codes instead. Codes beyond the table's
    end, up to `size`, are infinitely far. Also by how much two scores of a vector can
    differ by rounding alone.
    """
    middle = ops.mean(table, axis=0)
    inside, table = ops.clip(x, -_FAR, _FAR) - middle, table - middle
    squares = ops.sum(ops.square(table), axis=-1)
    missing = size - table.shape[0]
    half = ops.pad(0.5 * squares, [[0, missing]], constant_values=float("inf"))
    padded = ops.pad(-table, [[0, missing], [0, 0]])
    # This order, product plus vector, is the one that TensorFlow makes one operation.
    score = ops.add(ops.matmul(inside, ops.transpose(padded)), half)
    # A sum of `dim` products rounds by at most `dim` units of |x| |c|, in any order.
    units = 2.0 * (table.shape[-1] + 4.0) * _UNIT
    # Scaled, because the squares of far vectors would overflow.
    largest = ops.max(ops.abs(inside), axis=-1, keepdims=True, initial=1e-30)
    length = largest * ops.sqrt(
        ops.sum(ops.square(inside / largest), axis=-1, keepdims=True)
    )
    of_codes = ops.max(squares)
    return score, units * (length * ops.sqrt(of_codes) + 0.5 * of_codes)


def _decide(index: Tensor, is_open: Tensor, x: Tensor, table: Tensor) -> Tensor:
    """The indices, those of open rows replaced, some rows at a time."""
    num_open = ops.sum(ops.cast(is_open, "int32"))
    first_open = ops.argsort(ops.where(is_open, 0, 1))
    # Bounds the memory of a block, which holds every difference.
    block = max(1, min(_MAX_ROWS, _MAX_DIFFERENCES // math.prod(table.shape)))
    last = ops.shape(x)[0] - 1

    def decide_block(start: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
        chosen = ops.minimum(start + ops.arange(block, dtype="int32"), last)
        rows = ops.take(first_open, chosen, axis=0)
        found = _nearest_by_differences(ops.take(x, rows, axis=0), table)
        return start + block, ops.scatter_update(index, rows[:, None], found)

    start = ops.zeros((), dtype="int32")
    return ops.while_loop(
        lambda start, index: start < num_open, decide_block, (start, index)
    )[1]


def _nearest_by_differences(x: Tensor, table: Tensor) -> Tensor:
    inside = ops.clip(x, -_FAR_SQUARED, _FAR_SQUARED)
    squares = ops.square(ops.expand_dims(inside, -2) - table)
    # The difference rounds once and counts twice; the square and each addition round.
    num_roundings = 3.0 + math.ceil(math.log2(max(table.shape[-1], 1)))
    return _first_of_ties(_tree_sum(squares), num_roundings)


def _first_of_ties(distance: Tensor, num_roundings: float) -> Tensor:
    """First index whose distance is the smallest or differs from it by rounding."""
    tie = 1.0 + 2.0 * num_roundings * _UNIT
    is_tie = distance <= _smallest(distance, -1, keepdims=True) * tie
    return first_argmin(ops.where(is_tie, 0.0, 1.0))


def _smallest(x: Tensor, axis: int, keepdims: bool = False) -> Tensor:
    # Without an initial value TensorFlow refuses an empty batch.
    return ops.min(x, axis=axis, keepdims=keepdims, initial=float("inf"))


def _tree_sum(x: Tensor) -> Tensor:
    """Sum over the last axis by halves, which rounds log2 times on every machine."""
    while x.shape[-1] > 1:
        half = x.shape[-1] // 2
        rest = x[..., 2 * half :]
        x = ops.concatenate([x[..., :half] + x[..., half : 2 * half], rest], axis=-1)
    return x[..., 0]


def _nearest_l1(x: Tensor, table: Tensor) -> Tensor:
    """Compares `sum |x - c|`, less what is the same for every code `c`."""
    inside = ops.clip(x, ops.min(table, axis=0), ops.max(table, axis=0))
    distance = ops.sum(ops.abs(ops.expand_dims(inside, -2) - table), axis=-1)
    return _first_of_ties(distance, table.shape[-1] + 1.0)


def _mark_nan(index: Tensor, is_nan: Tensor) -> Tensor:
    return select(is_nan, ops.full_like(index, -1), index)
