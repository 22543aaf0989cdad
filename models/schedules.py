"""Learning-rate schedules that Keras lacks."""

import math
from typing import Any

import keras
from keras import ops

from qlayers.checks import check_count, check_number


@keras.saving.register_keras_serializable(package="models")
class PeriodicCosine(keras.optimizers.schedules.LearningRateSchedule):
    """A cosine that swings between two values for ever.

    The rate is `first` at steps 0, 2 num_steps, 4 num_steps, ... and `last` halfway
    between them: `last + (first - last) * (1 + cos(pi * step / num_steps)) / 2`.

    Args:
        first: Largest rate.
        last: Smallest rate.
        num_steps: Steps from `first` to `last`.

    Example:

    ```python
    schedule = PeriodicCosine(1e-3, 1.25e-6, 50_000)
    float(schedule(100_000))  # 1e-3 again
    ```

    Reference:
        PyTorch's `CosineAnnealingLR` beyond its `T_max`, as Baykal et al.'s public code
        runs it.
    """

    def __init__(self, first: float, last: float, num_steps: int) -> None:
        super().__init__()
        self.first = check_number("first", first, exclusive=True)
        self.last = check_number("last", last)
        self.num_steps = check_count("num_steps", num_steps)

    def __call__(self, step: Any) -> Any:
        turn = ops.cast(step, "float32") * (math.pi / self.num_steps)
        return self.last + (self.first - self.last) * 0.5 * (1.0 + ops.cos(turn))

    def get_config(self) -> dict[str, Any]:
        return {"first": self.first, "last": self.last, "num_steps": self.num_steps}
