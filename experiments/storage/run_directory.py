"""The folder of one run."""

import os
from pathlib import Path
from typing import Any

from experiments.settings.config import OPERATIONAL, RunConfig
from experiments.storage.files import read_json, write_json
from experiments.storage.folder_lock import FolderLock
from experiments.storage.provenance import provenance
from experiments.storage.step_table import StepTable
from qlayers.files import PARTIAL


class RunDirectory(FolderLock):
    """Names the files of a run and keeps other processes out.

    Used as a context manager it holds the folder's lock.

    Args:
        path: The folder; made when it is entered.

    Example:

    ```python
    with RunDirectory("runs/qlae-0") as directory:
        directory.start(config)
    ```
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__(path)
        self.config_file = self.path / "config.json"
        self.status_file = self.path / "status.json"
        self.metrics_file = self.path / "metrics.json"
        self.checkpoints = self.path / "checkpoints"
        self.history = StepTable(self.path / "history.jsonl")
        self.evaluations = StepTable(self.path / "evaluations.jsonl")
        self.pictures = self.path / "pictures"
        self.projector = self.path / "projector"

    def __enter__(self) -> "RunDirectory":
        super().__enter__()
        self._remove_partial_files()
        return self

    def _remove_partial_files(self) -> None:
        """What a killed process left half written."""
        for folder in (self.path, self.checkpoints, self.pictures):
            if folder.is_dir():
                for file in folder.glob(f"{PARTIAL}*"):
                    file.unlink(missing_ok=True)

    def start(self, config: RunConfig) -> bool:
        """Writes the config, or checks that the folder's is the same.

        Returns:
            Whether the folder holds an earlier start of this run.
        """
        self.checkpoints.mkdir(exist_ok=True)
        known = self.config_file.exists()
        if known:
            _check_same(self.load_config(), config, self.path)
        if not known or self.load_config() != config:
            write_json(
                self.config_file, {**config.to_dict(), "provenance": provenance()}
            )
        return known

    def load_config(self) -> RunConfig:
        """The config that a run was started with."""
        if not self.config_file.exists():
            raise ValueError(
                f"{self.path} holds no run: there is no {self.config_file.name}. Start "
                "one with `python -m experiments.train`."
            )
        return RunConfig.from_dict(read_json(self.config_file))

    def load_status(self) -> dict[str, Any]:
        """How the run ended, where it says so: `state`, and details of a failure."""
        return read_json(self.status_file) if self.status_file.exists() else {}

    def forget_divergence(self) -> None:
        """Removes what an earlier start said about its divergence."""
        if self.load_status().get("state") == "diverged":
            self.status_file.unlink()

    def load_metrics(self) -> dict[str, Any] | None:
        """The final scores, if the run has them."""
        return read_json(self.metrics_file) if self.metrics_file.exists() else None

    def is_finished(self, steps: int | None = None) -> bool:
        """Whether the run is trained to its end and scored.

        Args:
            steps: Length of the run; by default that of the folder's config.
        """
        metrics = self.load_metrics()
        if metrics is None:
            return False
        return metrics["trained_steps"] == (steps or self.load_config().steps)


def _check_same(old: RunConfig, new: RunConfig, path: Path) -> None:
    before, after = old.to_dict(), new.to_dict()
    differing = [
        name
        for name in before
        if name not in OPERATIONAL and before[name] != after[name]
    ]
    if differing == ["steps"] and new.steps > old.steps:
        return  # a longer run of the same kind
    if differing:
        lines = "\n".join(
            f"  {name}: {before[name]!r} there, {after[name]!r} now"
            for name in differing
        )
        raise ValueError(
            f"{path} holds a run with other settings:\n{lines}\nChoose another "
            "--workdir, or start with the settings of that run."
        )
