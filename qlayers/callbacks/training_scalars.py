"""Loss terms, learning rate, annealed quantities and speed in TensorBoard."""

import os
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from qlayers.callbacks.step_callback import StepCallback
from qlayers.schedules import is_scheduled
from qlayers.term_layer import TermLayer


class TrainingScalars(StepCallback):
    """Writes what training itself knows, every so many steps.

    - `train/<name>`: every loss term and metric in the logs;
    - `settings/learning_rate`, and `settings/<layer>_<quantity>` for temperatures and
      everything else that a layer of qlayers anneals;
    - `speed/steps_per_second` and, with `batch_size`, `speed/images_per_second`.

    Args:
        log_dir: Folder for TensorBoard.
        every_n_steps: Training steps between two writings.
        batch_size: Images in a step.

    Example:
        >>> model.fit(stream, callbacks=[TrainingScalars("runs/0", 100, batch_size=64)])
    """

    def __init__(
        self,
        log_dir: str | os.PathLike[str],
        every_n_steps: int = 100,
        batch_size: int | None = None,
    ) -> None:
        super().__init__(log_dir, every_n_steps)
        self.batch_size = batch_size
        self._timed: tuple[int, float] | None = None

    def write(self, step: int, logs: Mapping[str, Any]) -> None:
        import tensorflow as tf

        for name, value in logs.items():
            tf.summary.scalar(f"train/{name}", float(np.asarray(value)))
        for name, value in annealed_quantities(self.model).items():
            tf.summary.scalar(f"settings/{name}", value)
        now = time.perf_counter()
        if self._timed is not None and step > self._timed[0]:
            speed = (step - self._timed[0]) / max(now - self._timed[1], 1e-9)
            tf.summary.scalar("speed/steps_per_second", speed)
            if self.batch_size is not None:
                images = speed * self.batch_size
                tf.summary.scalar("speed/images_per_second", images)
        self._timed = (step, now)

    def restart_clock(self, step: int) -> None:
        """Leaves out of the speed what was done between steps, such as pictures."""
        self._timed = (step, time.perf_counter())


def annealed_quantities(model: Any) -> dict[str, float]:
    """Learning rate, temperatures and all scheduled quantities, as they are now."""
    values: dict[str, float] = {}
    if getattr(model, "optimizer", None) is not None:
        values["learning_rate"] = float(np.asarray(model.optimizer.learning_rate))
    for layer in model._flatten_layers():
        if not isinstance(layer, TermLayer):
            continue
        for name in layer.schedulable_names:
            quantity = getattr(layer, name)
            if is_scheduled(quantity) or name == "temperature":
                values[f"{layer.name}_{name}"] = float(np.asarray(layer.value_of(name)))
    return values
