"""The straight-through estimator."""

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
    return ops.stop_gradient(q) + (x - ops.stop_gradient(x))
