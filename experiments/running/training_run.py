"""Trains one run in its folder, from wherever it stands to its final scores."""

import functools
import signal
import threading
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from experiments.running.adaptation import adapt_every, adaptation
from experiments.running.checkpoint_choice import CheckpointChoice
from experiments.running.evaluation import (
    Evaluation,
    evaluate_model,
    selection_sample,
)
from experiments.running.export import export
from experiments.running.header import header
from experiments.running.scoring import score_run
from experiments.running.setup import (
    build_model,
    configure_tensorflow,
    describe_model,
    load_dataset,
    make_stream,
    validation_labels,
)
from experiments.running.strategies import (
    check_replicas,
    distribute,
    is_chief,
    make_strategy,
)
from experiments.running.termination import signals_set
from experiments.running.training_loop import DIVERGED, STOPPED, Hooks, TrainingLoop
from experiments.settings.config import RunConfig
from experiments.settings.xla import uses_xla
from experiments.storage.conditions import (
    changed_conditions,
    conditions,
    describe_changes,
    record_continuation,
)
from experiments.storage.files import read_json, write_json
from experiments.storage.patience import Patience
from experiments.storage.provenance import code_version
from experiments.storage.run_directory import RunDirectory
from models import LatentModel
from qlayers.callbacks import StopOnNonFinite

NOTHING_TO_DO, INTERRUPTED = "nothing to do", "interrupted"


class TrainingRun:
    """One run: its folder, data and model.

    Args:
        config: Settings of the run.
        workdir: Folder of the run.
        report: Called with lines of text for the user.
        pictures: Whether to write TensorBoard files and pictures.
        stop: Ends training after the current step when it is set.

    Example:

    ```python
    TrainingRun(resolve("qlae", profile="cpu"), "runs/qlae-0").run()
    ```
    """

    def __init__(
        self,
        config: RunConfig,
        workdir: str | Path,
        report: Callable[[str], None] = print,
        pictures: bool = True,
        stop: threading.Event | None = None,
    ) -> None:
        self.config = config
        self.directory = RunDirectory(workdir)
        self.report = report
        self.pictures = pictures
        self._stop = stop or threading.Event()

    def run(self) -> str:
        """Trains, evaluates and exports what is not yet there.

        Returns:
            `"finished"`, `"nothing to do"`, `"stopped"` after SIGTERM, `"interrupted"`
            after Ctrl-C, or `"diverged"` if the loss was no longer finite.
        """
        code_version()  # the one that runs, whatever is checked out by its end
        configure_tensorflow(self.config)
        strategy = make_strategy(self.config.strategy)
        check_replicas(self.config, strategy)
        self.writes = is_chief(strategy)
        is_new = not self.directory.config_file.exists()
        # First of all: if data or model fail, nothing has been written. Own images
        # are looked at before a word of their run is changed.
        is_built = is_new or self.config.dataset_info.own_images
        if is_built:
            self._build(strategy)
        with self.directory if self.writes else nullcontext():
            if self._is_done():
                self.report(
                    f"{self.directory.path} is finished: nothing left to do. Scores "
                    f"are in {self.directory.metrics_file}."
                )
                return NOTHING_TO_DO
            if not is_built:
                self._build(strategy)
            return self._run(strategy)

    def _is_done(self) -> bool:
        if not self.directory.config_file.exists():
            return False
        if self.writes:
            self._check_data()
            self.directory.start(self.config)
        return self.directory.is_finished(self.config.steps)

    def _build(self, strategy: Any) -> None:
        self.dataset = load_dataset(self.config)
        with strategy.scope() if strategy is not None else nullcontext():
            self.model = model = build_model(self.config, self.dataset)
        # Scored without touching the running means of the model in training.
        self.copy = build_model(self.config, self.dataset) if self.writes else model

    def _check_data(self) -> None:
        if not self.config.dataset_info.own_images:
            return
        if not self.directory.has_seen(self.dataset.fingerprint):
            raise ValueError(
                f"The images or labels in {self.config.data_dir} are not those that "
                f"the run in {self.directory.path} was started with. Put them back, or "
                "choose another --workdir."
            )

    def _run(self, strategy: Any) -> str:
        model = self.model
        self.report(header(self.config, self.dataset, model, self.directory))
        if self.writes:
            self.directory.start(self.config)
            self.directory.note_data(self.dataset.fingerprint)
            self.directory.forget_divergence()
            self._describe(model)
        self.sample = selection_sample(self.config, self.dataset)
        self.labelled = validation_labels(self.config, self.dataset)
        self.choice = CheckpointChoice(self.config, self.directory)
        self._open_pictures()
        hooks = Hooks(
            self._log,
            self._evaluate,
            self._stop.is_set,
            self.report,
            self.choice.flush,
            adaptation(self.config, model, self.dataset),
            adapt_every(model),
        )
        loop = TrainingLoop(
            self.config, self.directory, model, hooks, strategy, self.writes
        )
        start = loop.restore()
        if start:
            self._continue_from(start)
        stream = make_stream(self.config, self.dataset, start)
        with signals_set(self._stop) as signals:
            outcome = loop.run(distribute(stream, strategy))
        if outcome == STOPPED:
            self.report(
                f"Stopped at step {loop.step}; the same command goes on from there."
            )
        elif self.writes and outcome == DIVERGED:
            self._record_divergence(loop.guard)
        elif self.writes:
            Patience(self.directory.path, self.report).insist(self._finish)
        stopped_by_hand = outcome == STOPPED and signal.SIGINT in signals
        return INTERRUPTED if stopped_by_hand else outcome

    def _continue_from(self, step: int) -> None:
        self.report(f"Continuing {self.directory.path} from step {step}.")
        now = conditions(self.config)
        changes = changed_conditions(self.directory, now)
        if changes:
            self.report(describe_changes(changes, step))
        if changes and self.writes:
            record_continuation(self.directory, step, now)

    def _record_divergence(self, guard: StopOnNonFinite) -> None:
        record = {
            "state": DIVERGED,
            "step": guard.diverged_at,
            "restored_step": guard.restored_step,
            "message": guard.message,
        }
        write_json(self.directory.status_file, record)
        self.report(
            f"{self.directory.path} has no scores; its newest checkpoint is that of "
            f"step {guard.restored_step}."
        )

    def _describe(self, model: LatentModel) -> None:
        record = read_json(self.directory.config_file)
        if "model" in record:
            return
        record["model"] = describe_model(model)
        # A sweep wrote the rest of this before TensorFlow was there to ask.
        record.setdefault("provenance", {})["xla"] = uses_xla(self.config)
        write_json(self.directory.config_file, record)

    def _open_pictures(self) -> None:
        self.board = None
        if self.pictures and self.writes:
            from experiments.running.board import Board

            self.board = Board(self.config, self.directory, self.copy, self.dataset)

    def _log(self, step: int, terms: dict[str, float]) -> None:
        if self.board is not None:
            self._show(self.board.log, step, terms, self.model)

    def _evaluate(self, step: int) -> None:
        if not self.writes:
            return
        copy_weights(self.model, self.copy)
        found = evaluate_model(
            self.config,
            self.copy,
            self.sample,
            metrics=("infomec",),
            labelled=self.labelled,
        )
        self.directory.evaluations.append({"step": step, **found.scores})
        if self.board is not None:
            self._show(self.board.evaluated, step, found)
        self.choice.offer(self.copy, step, found.scores)

    def _show(self, show: Callable[..., None], *given: Any) -> None:
        """Writes for TensorBoard; a full disk costs pictures, not the run."""
        try:
            show(*given)
        except (OSError, tf.errors.OpError) as error:
            self.report(f"Not shown in TensorBoard: {error}")

    def _finish(self) -> None:
        model, directory = self.copy, self.directory
        last = functools.partial(copy_weights, self.model, model)
        checkpoint = self.choice.load(model, last, self.report)
        export(model, directory)
        score_run(
            self.config,
            directory,
            model,
            self.dataset,
            checkpoint,
            self.report,
            publish=self._publish,
        )

    def _publish(self, found: Evaluation) -> None:
        if self.board is not None:
            self.board.finished(self.config.steps, found)


def copy_weights(source: keras.Model, target: keras.Model) -> None:
    """Gives a model the weights and random states of another like it."""
    for theirs, ours in zip(source.variables, target.variables, strict=True):
        ours.assign(theirs.numpy() if hasattr(theirs, "numpy") else theirs)
