"""Schedules over training steps, for optimizers that update more often."""

from typing import Any

import keras
from keras import ops

from qlayers.checks import check_count
from qlayers.schedules import LearningRateSchedule, Schedulable, is_scheduled


@keras.saving.register_keras_serializable(package="models")
class UpdatesPerStep(LearningRateSchedule):
    """A schedule over training steps, for an optimizer with several updates in each.

    Args:
        schedule: The schedule over steps.
        num_updates: Updates in a step.

    Example:

    ```python
    halved = keras.optimizers.schedules.PiecewiseConstantDecay([99], [1e-3, 5e-4])
    float(UpdatesPerStep(halved, 5)(499))  # 1e-3: update 499 belongs to step 99
    ```
    """

    def __init__(self, schedule: Any, num_updates: int) -> None:
        super().__init__()
        if isinstance(schedule, dict):
            schedule = keras.optimizers.schedules.deserialize(schedule)
        self.schedule = schedule
        self.num_updates = check_count("num_updates", num_updates)

    def __call__(self, step: Any) -> Any:
        return self.schedule(ops.cast(step, "int32") // self.num_updates)

    def get_config(self) -> dict[str, Any]:
        return {
            "schedule": keras.optimizers.schedules.serialize(self.schedule),
            "num_updates": self.num_updates,
        }


def over_steps(value: Schedulable, num_updates: int) -> Schedulable:
    """A number as it is; a schedule so that it counts steps of `num_updates`.

    Args:
        value: Number or schedule.
        num_updates: Updates of the optimizer in a training step.
    """
    return UpdatesPerStep(value, num_updates) if is_scheduled(value) else value
