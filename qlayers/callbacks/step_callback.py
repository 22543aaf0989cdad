"""Base of the callbacks that write to TensorBoard."""

import os
from collections.abc import Mapping
from typing import Any

from qlayers.callbacks.model_state import uncounted
from qlayers.callbacks.step_counter import StepCounter


class StepCallback(StepCounter):
    """Writes summaries every so many training steps.

    Summaries are written even where `keras.callbacks.TensorBoard` with an integer
    `update_freq` has switched them off.

    A loop other than `fit` calls `record` itself.

    Args:
        log_dir: Folder for TensorBoard.
        every_n_steps: Training steps between two writings.
    """

    def __init__(
        self, log_dir: str | os.PathLike[str], every_n_steps: int = 1_000
    ) -> None:
        super().__init__(every_n_steps)
        self.log_dir = os.fspath(log_dir)
        self._writer: Any = None

    def write(self, step: int, logs: Mapping[str, Any]) -> None:
        """Writes the summaries of a step; subclasses say which.

        Args:
            step: Training steps done.
            logs: Running means of loss terms and metrics.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement `write`.")

    def record(self, step: int, logs: Mapping[str, Any] | None = None) -> None:
        """Calls `write` with the summary writer of `log_dir` in place."""
        import tensorflow as tf

        if self._writer is None:
            self._writer = tf.summary.create_file_writer(self.log_dir)
        with self._writer.as_default(step=step), tf.summary.record_if(True):
            self.write(step, logs or {})
        self._writer.flush()

    def close(self) -> None:
        """Closes the event file."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def advance(self, step: int, logs: Mapping[str, Any]) -> None:
        if self._is_due(step):
            with uncounted(self.model):
                self.record(step, logs)

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        self.close()
