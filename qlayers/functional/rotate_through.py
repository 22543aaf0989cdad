"""The rotation trick: a gradient for vector quantization."""

from keras import ops

from qlayers.backend import Tensor
from qlayers.functional.unit_vectors import unit_vectors

# A shorter vector has no direction that could be rotated.
_SHORTEST = 1e-12


def rotate_through(x: Tensor, q: Tensor) -> Tensor:
    """Returns `q` exactly, with the gradient of a rotation of `x` onto `q`.

    Forward `y = q`. With `u = x / |x|`, `v = q / |q|` and `r = (u + v) / |u + v|`,
    the gradient is that of the linear map which rotates and stretches `x` onto `q`,

        dy/dx = |q| / |x| * (I - 2 r r^T + 2 v u^T),        dy/dq = 0,

    the map itself being held constant. The angle between a gradient and `q` at the
    output is the one between the gradient that arrives and `x`. Where `x` or `q` is
    zero, which no rotation turns, the gradient is the identity's (straight-through).

    Args:
        x: Vectors of shape `(..., dim)`, without infinities.
        q: Their quantized versions, of the same shape.

    Example:

    ```python
    y = rotate_through([[3.0, 0.0]], [[0.0, 1.0]])  # [[0.0, 1.0]]
    ```

    Reference:
        Fifty et al. 2024, Restructuring Vector Quantization with the Rotation Trick.
    """
    x, q = ops.convert_to_tensor(x), ops.stop_gradient(ops.convert_to_tensor(q))
    fixed = ops.stop_gradient(x)
    u, length = unit_vectors(fixed)
    v, target_length = unit_vectors(q)
    r, _ = unit_vectors(u + v)
    # Zero in value, so that the output is exactly `q`; its gradient is the one wanted.
    change = x - fixed
    rotated = (
        change
        - 2.0 * r * ops.sum(r * change, axis=-1, keepdims=True)
        + 2.0 * v * ops.sum(u * change, axis=-1, keepdims=True)
    )
    can_rotate = ops.logical_and(length > _SHORTEST, target_length > _SHORTEST)
    stretch = target_length / ops.maximum(length, _SHORTEST)
    return q + ops.where(can_rotate, stretch * rotated, change)
