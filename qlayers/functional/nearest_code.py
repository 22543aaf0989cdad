"""Nearest entry of a table, for scalars and for vectors."""

from keras import ops

from qlayers.backend import Tensor

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
    return _mark_nan(ops.argmin(distance, axis=-1), ops.isnan(x))


def nearest_vector(x: Tensor, table: Tensor) -> Tensor:
    """Index of the vector nearest to each vector, in the Euclidean distance.

    Ties go to the lowest index; a vector that holds a NaN gets the index -1.

    Args:
        x: Vectors of shape `(..., dim)`.
        table: Vectors of shape `(num_codes, dim)`.

    Returns:
        int32 tensor of the leading shape of `x`.

    Example:

    ```python
    nearest_vector([[0.2, 0.9]], [[0.0, 0.0], [0.0, 1.0]])  # [1]
    ```
    """
    x, table = ops.convert_to_tensor(x), ops.convert_to_tensor(table)
    inside = ops.clip(x, -_FAR, _FAR)
    # |x - c|^2 less |x|^2, which is the same for every code.
    half_norm = 0.5 * ops.sum(ops.square(table), axis=-1)
    closeness = ops.matmul(inside, ops.transpose(table)) - half_norm
    is_nan = ops.any(ops.isnan(x), axis=-1)
    return _mark_nan(ops.argmax(closeness, axis=-1), is_nan)


def _mark_nan(index: Tensor, is_nan: Tensor) -> Tensor:
    index = ops.cast(index, "int32")
    return ops.where(is_nan, ops.full_like(index, -1), index)
