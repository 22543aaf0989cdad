"""Nearest entry of a table, for scalars and for vectors."""

from keras import ops

from qlayers.backend import Tensor, first_argmin
from qlayers.checks import check_choice

# Far below the largest float32, so that products with codes do not overflow.
_FAR = 1e30


def nearest_code(x: Tensor, table: Tensor) -> Tensor:
    """Index of the value nearest to each scalar.

    Ties go to the lowest index. Scalars beyond the table's ends, infinities included,
    go to the end's value. A NaN, which has no nearest value, gets the index -1.

    Args:
        x: Scalars of shape `(..., n)`.
        table: Values of shape `(n, num_values)`, one row for each latent, or
            `(num_values,)` for all of them, in any order.

    Returns:
        int32 tensor of the shape of `x`.

    Example:

    ```python
    nearest_code([[0.2, 0.9]], [0.0, 0.5, 1.0])  # [[0, 2]]
    ```
    """
    x, table = ops.convert_to_tensor(x), ops.convert_to_tensor(table)
    # Without the clip, |1e30 - v| is 1e30 for every v and the lowest index would win.
    inside = ops.clip(x, ops.min(table, axis=-1), ops.max(table, axis=-1))
    distance = ops.abs(ops.expand_dims(inside, -1) - table)
    return _mark_nan(first_argmin(distance), ops.isnan(x))


def nearest_vector(x: Tensor, table: Tensor, distance: str = "l2") -> Tensor:
    """Index of the vector nearest to each vector.

    Ties go to the lowest index; a vector that holds a NaN gets the index -1.

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
    x, table = ops.convert_to_tensor(x), ops.convert_to_tensor(table)
    score = _half_squares(x, table) if distance == "l2" else _absolute(x, table)
    return _mark_nan(first_argmin(score), ops.any(ops.isnan(x), axis=-1))


def _half_squares(x: Tensor, table: Tensor) -> Tensor:
    """Half of `|x - c|^2` less `|x|^2`, which is the same for every code `c`.

    One matrix product, but it subtracts large numbers if the codes lie far from the
    origin: it is taken from the middle of the codes instead.
    """
    middle = ops.mean(table, axis=0)
    inside, table = ops.clip(x, -_FAR, _FAR) - middle, table - middle
    half_norm = 0.5 * ops.sum(ops.square(table), axis=-1)
    return ops.subtract(half_norm, ops.matmul(inside, ops.transpose(table)))


def _absolute(x: Tensor, table: Tensor) -> Tensor:
    """`sum |x - c|`, less what is the same for every code `c`."""
    inside = ops.clip(x, ops.min(table, axis=0), ops.max(table, axis=0))
    return ops.sum(ops.abs(ops.expand_dims(inside, -2) - table), axis=-1)


def _mark_nan(index: Tensor, is_nan: Tensor) -> Tensor:
    return ops.where(is_nan, ops.full_like(index, -1), index)
