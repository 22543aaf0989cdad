"""Base of the callbacks that act every so many training steps."""

from collections.abc import Mapping
from typing import Any

import keras


class StepCounter(keras.callbacks.Callback):
    """Counts training steps during `fit`.

    The count begins with the steps that the optimizer has made, so that a resumed run
    goes on where it ended: a step for each batch, also where gradients are accumulated,
    or where a model makes several updates (`model.updates_per_step`) with a batch. With
    `steps_per_execution` several steps lie between two calls.

    Args:
        every_n_steps: Training steps between two actions.
    """

    def __init__(self, every_n_steps: int) -> None:
        super().__init__()
        if not isinstance(every_n_steps, int) or every_n_steps < 1:
            raise ValueError(
                "`every_n_steps` must be a positive integer; received "
                f"{every_n_steps!r}."
            )
        self.every_n_steps = every_n_steps
        self._step = 0
        self._last_batch = -1

    def advance(self, step: int, logs: Mapping[str, Any]) -> None:
        """Called after each batch; subclasses call `_is_due` and act.

        Args:
            step: Training steps done.
            logs: Running means of loss terms and metrics.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement `advance`.")

    def _is_due(self, step: int) -> bool:
        """Moves on to `step`; whether a multiple of `every_n_steps` was reached."""
        before, self._step = self._step, step
        return step // self.every_n_steps > before // self.every_n_steps

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        self._step = _steps_made(self.model)

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self._last_batch = -1

    def on_train_batch_end(
        self, batch: int, logs: dict[str, Any] | None = None
    ) -> None:
        steps, self._last_batch = batch - self._last_batch, batch
        self.advance(self._step + steps, logs or {})


def _steps_made(model: Any) -> int:
    """Batches that a model's optimizer has seen."""
    optimizer = getattr(model, "optimizer", None)
    if optimizer is None:
        return 0
    batches = int(optimizer.iterations) * (optimizer.gradient_accumulation_steps or 1)
    return batches // getattr(model, "updates_per_step", 1)
