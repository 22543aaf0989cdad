"""Base of the callbacks that write to TensorBoard."""

import os
from typing import Any

import keras
import numpy as np


class StepCallback(keras.callbacks.Callback):
    """Writes summaries every so many training steps.

    Steps are counted from `optimizer.iterations` when training begins, so that the
    curves of a resumed run go on where they ended. Summaries are written whatever
    `keras.callbacks.TensorBoard` with an integer `update_freq` has switched off.

    A loop other than `fit` calls `record` itself.

    Args:
        log_dir: Folder for TensorBoard.
        every_n_steps: Training steps between two writings.
    """

    def __init__(
        self, log_dir: str | os.PathLike[str], every_n_steps: int = 1_000
    ) -> None:
        super().__init__()
        if not isinstance(every_n_steps, int) or every_n_steps < 1:
            raise ValueError(
                "`every_n_steps` must be a positive integer; received "
                f"{every_n_steps!r}."
            )
        self.log_dir = os.fspath(log_dir)
        self.every_n_steps = every_n_steps
        self._writer: Any = None
        self._step = 0
        self._last_batch = -1
        self._last_record = 0

    def write(self, step: int, logs: dict[str, Any]) -> None:
        """Writes the summaries of a step; subclasses say which.

        Args:
            step: Training steps done.
            logs: Running means of loss terms and metrics.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement `write`.")

    def record(self, step: int, logs: dict[str, Any] | None = None) -> None:
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

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        optimizer = getattr(self.model, "optimizer", None)
        self._step = int(optimizer.iterations) if optimizer is not None else 0
        self._last_record = self._step

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self._last_batch = -1

    def on_train_batch_end(
        self, batch: int, logs: dict[str, Any] | None = None
    ) -> None:
        # With `steps_per_execution` several steps lie between two calls.
        self._step += batch - self._last_batch
        self._last_batch = batch
        period = self.every_n_steps
        if self._step // period > self._last_record // period:
            self._last_record = self._step
            # Layers count what passes through them; these inputs are none of fit's.
            kept = [(v, np.array(v)) for v in self.model.metrics_variables]
            self.record(self._step, logs)
            for variable, value in kept:
                variable.assign(value)

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        self.close()
