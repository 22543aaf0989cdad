"""Random order of a number of things."""

import keras
from keras import ops

from qlayers.backend import Tensor


def random_order(
    count: Tensor | int, seed: "int | keras.random.SeedGenerator | None" = None
) -> Tensor:
    """The integers below `count` in random order, int32.

    Args:
        count: How many; a number or a scalar tensor.
        seed: Integer or `keras.random.SeedGenerator`.

    Example:

    ```python
    random_order(3, seed=0)  # e.g. [2, 0, 1]
    ```
    """
    return keras.random.shuffle(ops.arange(count, dtype="int32"), seed=seed)
