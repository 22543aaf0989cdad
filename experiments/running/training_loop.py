"""The loop over training steps: logging, evaluation, checkpoints, stopping."""

import functools
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments.running.progress import Progress
from experiments.running.training_step import Rows, TrainingStep
from experiments.settings.config import RunConfig
from experiments.storage.checkpoints import (
    CheckpointStore,
    Snapshot,
    apply_snapshot,
    take_snapshot,
    training_values,
    write_snapshot,
)
from experiments.storage.patience import Patience
from experiments.storage.run_directory import RunDirectory
from qlayers.callbacks import StopOnNonFinite

# Time that may go into copying variables for checkpoints.
_CHECKPOINT_SHARE = 0.02

FINISHED, STOPPED, DIVERGED = "finished", "stopped", "diverged"


@dataclass
class Hooks:
    """What the loop calls.

    Attributes:
        log: Called with the step and the loss terms, every `log_every` steps.
        evaluate: Called with the step, every `evaluate_every` steps, before the first
            and after the last.
        stopping: Whether to stop after the current step.
        flush: Writes what must be on disk before a checkpoint; may raise an OSError.
        report: Called with a line of text for the user.
        adapt: Called with the step, every `adapt_every` steps: a method that changes
            its model itself does it here. Nothing but the model, the step and the
            settings may decide, so that a run resumes.
        adapt_every: Steps between two calls of `adapt`; 0 for a method that needs none.
    """

    log: Callable[[int, dict[str, float]], None]
    evaluate: Callable[[int], None]
    stopping: Callable[[], bool] = lambda: False
    report: Callable[[str], None] = print
    flush: Callable[[], None] = lambda: None
    adapt: Callable[[int], None] = lambda step: None
    adapt_every: int = 0


class TrainingLoop:
    """Trains a compiled model from its last checkpoint to the end.

    What a step does depends on the checkpoint and the step's number alone, and rows of
    the history that were written after the checkpoint are cut off and made again, so
    that an interrupted run ends like one that was not.

    A run whose loss is no longer finite ends with its last good state, which also
    becomes its newest checkpoint.

    Args:
        config: Settings of the run.
        directory: Folder of the run, for checkpoints and history.
        model: Compiled model.
        hooks: Functions to call on the way.
        strategy: The strategy that the model was built under, or None.
        writes: Whether this process writes files; other workers only take part.
    """

    def __init__(
        self,
        config: RunConfig,
        directory: RunDirectory,
        model: Any,
        hooks: Hooks,
        strategy: Any = None,
        writes: bool = True,
    ) -> None:
        self.config = config
        self.directory = directory
        self.model = model
        self.hooks = hooks
        self.strategy = strategy
        self.writes = writes
        self.store = CheckpointStore(directory.checkpoints, report=hooks.report)
        self.patience = Patience(directory.path, hooks.report, hooks.stopping)
        # Copies fall on rows, where all running means are 0.
        self.guard = StopOnNonFinite(config.log_every, report=hooks.report)
        self.guard.set_model(model)
        self.step = 0
        self._saved_step = -1
        self._saved_time = time.monotonic()
        self._interval = config.checkpoint_seconds
        self._copying = float("inf")

    def restore(self) -> int:
        """Loads the last good checkpoint.

        Returns:
            The step to go on from.
        """
        snapshot = self.store.latest(self.model)
        if snapshot is not None:
            apply_snapshot(self.model, snapshot)
            self.step = self._saved_step = snapshot.step
        if self.writes:
            last = -1 if snapshot is None else self.step
            for table in (self.directory.history, self.directory.evaluations):
                self.patience.insist(functools.partial(table.cut_after, last))
        return self.step

    def run(self, batches: Any) -> str:
        """Trains to the end of the run.

        Args:
            batches: Iterable of batches from `self.step` on.

        Returns:
            `"finished"`, `"stopped"` if it was told to, or `"diverged"`.
        """
        try:
            return self._run(batches)
        finally:
            # After an error too: what is being written is good.
            self.store.wait()

    def _run(self, batches: Any) -> str:
        config = self.config
        progress = Progress(config.steps, config.batch_size, start=self.step)
        iterator = iter(batches)
        step = TrainingStep(self.model, self.strategy, config.steps_per_call)
        self.guard.begin(self.step)
        if self.step == 0 and self._saved_step < 0:
            self.hooks.evaluate(0)
        self._saved_time = time.monotonic()
        while self.step < config.steps:
            outcome = self.advance(step, iterator, progress)
            if outcome is not None:
                return outcome
        return FINISHED

    def advance(
        self, step: TrainingStep, iterator: Any, progress: Progress
    ) -> str | None:
        """Takes the steps of one call and does what is due after them.

        Args:
            step: Trains the model.
            iterator: Iterator over batches.
            progress: Line that the user sees.

        Returns:
            Why the run ends here, or None if it does not.
        """
        config = self.config
        count = self._steps_of_call()
        rows = step.train(iterator, count)
        self.step += count
        finished = self.step >= config.steps
        logs = self.step % config.log_every == 0 or finished
        if not self._is_good(step, rows, logs):
            return self._end_with_good_state()
        if self.hooks.adapt_every and self.step % self.hooks.adapt_every == 0:
            self.hooks.adapt(self.step)
        if logs:
            self._log(step.means(), progress)
        if self.step % config.evaluate_every == 0 or finished:
            self.hooks.evaluate(self.step)
            progress.restart_clock()
        stopping = self._is_told_to_stop()
        due = finished or stopping or self._is_due()
        if due and not self._save_if_good():
            return self._end_with_good_state()
        if finished and self.writes:
            self.patience.insist(self._write_last)
        return STOPPED if stopping and not finished else None

    def _steps_of_call(self) -> int:
        """Steps to take together: at most to the next one after which something is due.

        Evaluations fall on rows, and so do the copies of good states.
        """
        config = self.config
        left = [config.steps_per_call, config.steps - self.step]
        for every in (config.log_every, self.hooks.adapt_every):
            if every:
                left.append(every - self.step % every)
        return min(left)

    def _is_good(self, step: TrainingStep, rows: Rows, logs: bool) -> bool:
        if self.strategy is not None:
            # Replicas' running means must be added up first, which is not free.
            return not logs or self.guard.check(self.step, step.means())
        first = self.step - len(rows) + 1
        return all(self.guard.check(n, row) for n, row in enumerate(rows, first))

    def _end_with_good_state(self) -> str:
        self.step = self.guard.restored_step or 0
        self.model.reset_metrics()
        if self.writes:
            self.store.remove_after(self.step)
        if not self.store.path_of(self.step).exists():
            self._save(take_snapshot(self.model, self.step))
        return DIVERGED

    def _log(self, logs: Any, progress: Progress) -> None:
        terms = {name: float(np.asarray(value)) for name, value in logs.items()}
        self.model.reset_metrics()
        if self.writes:
            progress.update(self.step, terms)
            self.directory.history.append({"step": self.step, **terms})
        self.hooks.log(self.step, terms)

    def _is_told_to_stop(self) -> bool:
        # Workers copy variables together: one of them cannot save alone.
        return self.config.strategy != "multiworker" and self.hooks.stopping()

    def _is_due(self) -> bool:
        if self.config.strategy == "multiworker":
            # Workers must copy at the same step; their clocks differ.
            return self.step % self.config.log_every == 0
        return (
            time.monotonic() - self._saved_time >= self._interval
            and not self.store.busy
        )

    def _save_if_good(self) -> bool:
        """Saves the state of this step; returns False if it is not finite."""
        if self._saved_step == self.step:
            return True
        start = time.monotonic()
        snapshot = take_snapshot(self.model, self.step)
        if not self.guard.verify(training_values(self.model, snapshot)):
            return False
        self._save(snapshot)
        # The least time seen: a busy moment must not stretch the interval.
        self._copying = min(self._copying, self._saved_time - start)
        self._interval = max(
            self.config.checkpoint_seconds, self._copying / _CHECKPOINT_SHARE
        )
        return True

    def _save(self, snapshot: Snapshot) -> None:
        if self.writes and self._is_ready_to_save():
            self.store.save(snapshot, before=self._sync_rows)
        self._saved_step = snapshot.step
        self._saved_time = time.monotonic()

    def _is_ready_to_save(self) -> bool:
        """Whether the disk takes what must be there before a checkpoint."""
        self.store.wait()
        error, ready = self.store.error, True
        try:
            self._flush()
        except OSError as unwritten:
            self.hooks.report(f"Not written yet: {unwritten}. Training goes on.")
            error, ready = unwritten, False
        if error is None:
            self.patience.succeeded()
        else:
            self.patience.failed(error)
        return ready

    def _flush(self) -> None:
        self.directory.history.flush()
        self.directory.evaluations.flush()
        self.hooks.flush()

    def _write_last(self) -> None:
        """Writes all that is left; nothing comes after it that could."""
        self._flush()
        self.store.wait()
        path = self.store.path_of(self.step)
        if not path.exists():
            write_snapshot(path, take_snapshot(self.model, self.step))

    def _sync_rows(self) -> None:
        self.directory.history.sync()
        self.directory.evaluations.sync()
