"""Vectors of length one."""

from keras import ops

from qlayers.backend import Tensor


def unit_vectors(x: Tensor) -> tuple[Tensor, Tensor]:
    """Vectors divided by their length, and the lengths; zero stays zero.

    The squares of large or small numbers neither overflow nor vanish: the vectors are
    scaled by their largest number first. The gradient in `x` is that of `x / |x|`, and
    of the identity where `x` is zero.

    Args:
        x: Vectors of shape `(..., dim)`.

    Returns:
        The unit vectors, of the shape of `x`, and the lengths, `(..., 1)`.

    Example:

    ```python
    unit, length = unit_vectors([[3.0, 4.0]])  # [[0.6, 0.8]], [[5.0]]
    ```
    """
    x = ops.convert_to_tensor(x)
    size = ops.abs(ops.stop_gradient(x))
    # Without an initial value TensorFlow refuses an empty batch.
    largest = ops.max(size, axis=-1, keepdims=True, initial=0.0)
    is_zero = largest == 0.0
    scaled = x / ops.where(is_zero, 1.0, largest)
    squares = ops.sum(ops.square(scaled), axis=-1, keepdims=True)
    length = ops.sqrt(ops.where(is_zero, 1.0, squares))
    return scaled / length, largest * length
