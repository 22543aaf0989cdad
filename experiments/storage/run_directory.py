"""The folder of one run."""

import os
import sys
from pathlib import Path
from typing import Any

from experiments.settings.config import RunConfig
from experiments.settings.processor import processor
from experiments.storage.files import read_record, write_json
from experiments.storage.folder_lock import FolderLock
from experiments.storage.provenance import provenance
from experiments.storage.step_table import StepTable
from qlayers.files import PARTIAL, DamagedFileError


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

    def check(self, config: RunConfig) -> bool:
        """Whether the folder holds an earlier start of this run; nothing is written.

        Args:
            config: Settings of the run.

        Raises:
            ValueError: If the folder holds a run with other settings.
        """
        known = self.config_file.exists()
        if known:
            _check_same(self.load_config(), config, self.path)
        return known

    def start(self, config: RunConfig) -> bool:
        """Writes the config, or checks that the folder's is the same.

        Returns:
            Whether the folder holds an earlier start of this run.
        """
        known = self.check(config)
        self.checkpoints.mkdir(exist_ok=True)
        if not known:
            threads = config.threads or os.cpu_count() or 1
            made = {**provenance(), "threads": threads, "processor": processor()}
            write_json(self.config_file, {**config.to_dict(), "provenance": made})
        elif self.load_config() != config:
            record = read_record(self.config_file)
            write_json(self.config_file, {**record, **config.to_dict()})
        return known

    def conditions_seen(self, name: str) -> list[str]:
        """What a condition of the run was, in order: at its start and after changes.

        Args:
            name: `"code"`, `"processor"` or another that `storage.conditions` notes.

        Returns:
            Each value once; none where nobody noted it.
        """
        record = read_record(self.config_file)
        starts = [record.get("provenance", {}), *record.get("continued", [])]
        found = [start.get(name) for start in starts]
        return list(dict.fromkeys(str(value) for value in found if value))

    def has_seen(self, fingerprint: str | None) -> bool:
        """Whether the run was started with these data, as far as it says.

        Args:
            fingerprint: That of the dataset; None where its name says all.
        """
        known = read_record(self.config_file).get("data")
        return fingerprint is None or known in (None, fingerprint)

    def note_data(self, fingerprint: str | None) -> None:
        """Notes the data of a run that has noted none yet.

        Args:
            fingerprint: That of the dataset; None where its name says all.
        """
        record = read_record(self.config_file)
        if fingerprint is not None and "data" not in record:
            write_json(self.config_file, {**record, "data": fingerprint})

    def load_config(self) -> RunConfig:
        """The config that a run was started with."""
        if not self.config_file.exists():
            raise ValueError(
                f"{self.path} holds no run: there is no {self.config_file.name}. Start "
                "one with `python -m experiments.train`."
            )
        try:
            return RunConfig.from_dict(read_record(self.config_file))
        except DamagedFileError:
            raise
        except ValueError as error:
            raise DamagedFileError(self.config_file, error) from error

    def load_status(self) -> dict[str, Any]:
        """How the run ended, where it says so: `state`, and details of a failure."""
        try:
            return read_record(self.status_file)
        except (FileNotFoundError, DamagedFileError):
            return {}  # it only comments on the run

    def forget_divergence(self) -> None:
        """Removes what an earlier start said about its divergence."""
        if self.load_status().get("state") == "diverged":
            self.status_file.unlink()

    def load_metrics(self) -> dict[str, Any] | None:
        """The final scores, if the run has them."""
        if not self.metrics_file.exists():
            return None
        metrics = read_record(self.metrics_file)
        _check_metrics(metrics, self.metrics_file)
        return metrics

    def is_finished(self, steps: int | None = None) -> bool:
        """Whether the run is trained to its end and scored.

        Args:
            steps: Length of the run; by default that of the folder's config.
        """
        try:
            metrics = self.load_metrics()
        except DamagedFileError:
            return False  # and scored again
        if metrics is None:
            return False
        return metrics["trained_steps"] == (steps or self.load_config().steps)


# Entry of `metrics.json` -> what it may be, where readers would stumble otherwise.
_NUMBER = (int, float, type(None))
_TEXT = (str, type(None))
_KINDS: dict[str, Any] = {
    "scores": dict,
    "scores/*": _NUMBER,
    "checkpoint": dict,
    "checkpoint/step": int,
    "trained_steps": int,
}
_OPTIONAL_KINDS: dict[str, Any] = {
    "settings": dict,
    "settings/protocol": _TEXT,
    "settings/selection": _TEXT,
    "settings/psnr_threshold": _NUMBER,
    "settings/data": _TEXT,
    "results": dict,
    "results/*": dict,
    "provenance": dict,
    "provenance/code": _TEXT,
    "provenance/packages": dict,
    "provenance/continued": list,
}


def _check_metrics(metrics: dict[str, Any], path: Path) -> None:
    """Raises a DamagedFileError for entries that are missing or of another kind."""
    for entry, kind in {**_KINDS, **_OPTIONAL_KINDS}.items():
        name, _, inner = entry.partition("/")
        holder = metrics.get(name, {}) if inner else metrics
        names = list(holder) if inner == "*" else [inner or name]
        for key in names:
            absent = key not in holder and entry in _OPTIONAL_KINDS
            value = holder.get(key)
            if not absent and not isinstance(value, kind):
                raise DamagedFileError(path, f"`{entry}` is missing or no {kind}")
            if isinstance(value, int) and abs(value) > sys.float_info.max:
                raise DamagedFileError(path, f"`{entry}` is larger than any float")


def _check_same(old: RunConfig, new: RunConfig, path: Path) -> None:
    before, after = old.deciding(), new.deciding()
    names = dict.fromkeys((*before, *after))
    differing = [name for name in names if before.get(name) != after.get(name)]
    if differing == ["steps"] and new.steps > old.steps:
        return  # a longer run of the same kind
    if differing:
        lines = "\n".join(
            f"  {name}: {before.get(name)!r} there, {after.get(name)!r} now"
            for name in differing
        )
        raise ValueError(
            f"{path} holds a run with other settings:\n{lines}\nChoose another "
            "--workdir, or start with the settings of that run."
        )
