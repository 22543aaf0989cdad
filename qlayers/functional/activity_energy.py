"""The biological constraints on latents: little activity, none of it negative."""

from keras import ops

from qlayers.backend import Tensor, as_float32


def activity_energy(z: Tensor) -> dict[str, Tensor]:
    """Mean energy of latents, and how far they are from being nonnegative.

    Args:
        z: Latents of any shape.

    Returns:
        `activity`, the mean of `z^2`, and `nonnegative`, the mean of `max(-z, 0)`.

    Example:

    ```python
    activity_energy([[3.0, -1.0]])  # {"activity": 5.0, "nonnegative": 0.5}
    ```

    Reference:
        Whittington et al. 2023, Disentanglement with Biological Constraints.
    """
    z = as_float32(ops.convert_to_tensor(z))
    return {
        "activity": ops.mean(ops.square(z)),
        "nonnegative": ops.mean(ops.relu(-z)),
    }
