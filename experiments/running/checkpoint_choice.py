"""The checkpoint that a run reports: how it is chosen, kept, loaded and explained."""

import contextlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import keras

from experiments.running.evaluation import filter_metric
from experiments.settings.config import RunConfig
from experiments.storage.run_directory import RunDirectory
from qlayers.callbacks import CheckpointSelection
from qlayers.files import DamagedFileError, write_bytes


class CheckpointChoice:
    """Keeps the best checkpoint of a run, by the rule that its settings name.

    Args:
        config: Settings of the run.
        directory: Folder of the run.

    Attributes:
        rule: How checkpoints are compared; None takes the last.

    Example:

    ```python
    choice = CheckpointChoice(config, directory)
    choice.offer(model, step, scores)  # after every evaluation
    record = choice.load(model, load_last=restore)  # at the end
    ```

    Reference:
        Hsu et al. 2024, section 4.1 (PSNR filter, then the best InfoM); Friede et al.
        2023, section 6.3 (smallest straight-through gap, or smallest supervised loss
        on labels kept for validation).
    """

    def __init__(self, config: RunConfig, directory: RunDirectory) -> None:
        self.config = config
        self.rule: CheckpointSelection | None = None
        self._damage: str | None = None
        # A better checkpoint that is not on disk yet: its score and its files.
        self._waiting: tuple[float, dict[Path, bytes]] | None = None
        path = directory.checkpoints / "best.weights.h5"
        require = {}
        if config.psnr_threshold is not None:
            require[f"{filter_metric(config)}/psnr"] = config.psnr_threshold
        if config.select == "straight_through_gap":
            gap = "straight_through_gap/gap"
            self.rule = CheckpointSelection(path, gap, "min", require)
        elif config.select == "label_validation":
            loss = "label_validation/loss"
            self.rule = CheckpointSelection(path, loss, "min", require)
        elif config.select != "last":
            best = "mcc/mcc" if config.continuous_factors else "infomec/modularity"
            self.rule = CheckpointSelection(path, best, "max", require)

    def offer(self, model: keras.Model, step: int, scores: Mapping[str, float]) -> None:
        """Keeps a model's weights if its scores beat those of the best so far.

        Never those of step 0: both papers choose among trained models, and the latents
        of an untrained one hardly differ, so that rounding them costs next to nothing.
        """
        if self.rule is None or step == 0:
            return
        if self.rule.monitor not in scores:
            return  # images without labels have no InfoM
        if self.rule.accepts(scores, self._best()):
            files = self.rule.pack(model, step, scores)
            self._waiting = (scores[self.rule.monitor], files)
            with contextlib.suppress(OSError):  # tried again before a checkpoint
                self.flush()

    def flush(self) -> None:
        """Writes the weights that were chosen last, if they are not on disk yet.

        Raises:
            OSError: There is no room; the error names the file.
        """
        if self._waiting is not None:
            for path, content in self._waiting[1].items():
                path.parent.mkdir(parents=True, exist_ok=True)
                write_bytes(path, content)
            self._waiting = None

    def load(
        self,
        model: keras.Model,
        load_last: Callable[[], object],
        report: Callable[[str], None] = print,
    ) -> dict[str, Any]:
        """Loads the chosen weights into a model, or the last if none were chosen.

        Args:
            model: The model to load into.
            load_last: Gives the model its last weights.
            report: Called with a line of text if the rule accepted no checkpoint.

        Returns:
            What `metrics.json` says of the checkpoint.
        """
        self.flush()
        if self.rule is not None and self._best() is not None:
            try:
                return self.rule.load(model)
            except DamagedFileError as error:
                self._put_aside(error)
        load_last()
        if self.rule is not None:
            report(f"Reporting {self._why_last()}.")
        return {"step": self.config.steps, "note": self._why_last()}

    def _best(self) -> float | None:
        """The best score so far; a record that cannot be read is put aside."""
        assert self.rule is not None, "asked for without a rule"
        if self._waiting is not None:
            return self._waiting[0]
        try:
            return self.rule.best()
        except DamagedFileError as error:
            self._put_aside(error)
            return None

    def _put_aside(self, error: DamagedFileError) -> None:
        assert self.rule is not None, "asked for without a rule"
        self._damage = str(error)
        for path in (Path(self.rule.path), self.rule.record):
            if path.exists():
                path.rename(path.with_name(f"{path.name}.damaged"))

    def _why_last(self) -> str:
        if self.rule is None:
            return "the last checkpoint, as asked"
        if self._damage is not None:
            return f"the last checkpoint: the chosen one was lost ({self._damage})"
        if self.config.psnr_threshold is None:
            return "the last checkpoint: none could be scored"
        return (
            f"the last checkpoint: none reached a PSNR of {self.config.psnr_threshold} "
            "dB, so this run does not pass the reconstruction filter"
        )
