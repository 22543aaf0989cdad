"""The biological constraints on latents: little activity, none of it negative."""

from keras import ops

from qlayers.backend import Tensor, as_float32
from qlayers.masks import fill_masked, weighted_mean


def activity_energy(z: Tensor, weights: Tensor | None = None) -> dict[str, Tensor]:
    """Mean energy of latents, and how far they are from being nonnegative.

    Args:
        z: Latents of any shape; `(samples, n)` with `weights`.
        weights: Weights of the samples, `(samples,)`, 0 for those to leave out.
            Default: all alike.

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
    if weights is not None:
        z = fill_masked(z, weights)
    values = {"activity": ops.square(z), "nonnegative": ops.relu(-z)}
    if weights is not None:
        values = {name: weighted_mean(x, weights) for name, x in values.items()}
    return {name: ops.mean(x) for name, x in values.items()}
