"""The straight-through estimator."""

import keras
from keras import ops

from qlayers.backend import Tensor


def straight_through(x: Tensor, q: Tensor) -> Tensor:
    """Returns `q` exactly, with the gradient of the identity in `x`.

    Forward `y = q`; gradient `dy/dx = 1`, `dy/dq = 0`. The usual way to write this,
    `x + stop_gradient(q - x)`, is not exactly `q` in floating point and so splits one
    code into several floats. Here the part that carries the gradient,
    `x - stop_gradient(x)`, is exactly zero. A NaN in `x` stays a NaN.

    Args:
        x: Continuous tensor without infinities (an infinity would give NaN; clip it).
        q: Its quantized version, of the same shape and dtype.

    Example:

    ```python
    y = straight_through(x, keras.ops.round(x))
    ```

    Reference:
        Bengio et al. 2013, Estimating or Propagating Gradients Through Stochastic
        Neurons for Conditional Computation.
    """
    x, q = ops.convert_to_tensor(x), ops.convert_to_tensor(q)
    _check_alike(x, q)
    return ops.stop_gradient(q) + (x - ops.stop_gradient(x))


def _check_alike(x: Tensor, q: Tensor) -> None:
    """A `q` of another shape would be spread over `x` without a word."""
    types = [keras.backend.standardize_dtype(tensor.dtype) for tensor in (x, q)]
    if None in (getattr(x.shape, "rank", 0), getattr(q.shape, "rank", 0)):
        return  # TensorFlow does not know yet
    sizes = zip(x.shape, q.shape, strict=False)
    fits = len(x.shape) == len(q.shape) and all(
        a is None or b is None or a == b for a, b in sizes
    )
    if types[0] != types[1] or not fits:
        raise ValueError(
            "`x` and `q` must have the same shape and dtype; received "
            f"{tuple(x.shape)} {types[0]} and {tuple(q.shape)} {types[1]}."
        )
