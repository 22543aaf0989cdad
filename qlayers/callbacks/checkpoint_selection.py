"""The checkpoint with the best score."""

import json
import os
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import keras
import numpy as np

from qlayers.files import DamagedFileError, KerasFile, write_bytes
from qlayers.metrics.metric_result import plain


@dataclass(frozen=True)
class CheckpointSelection:
    """Keeps the checkpoint with the best score.

    Args:
        path: Where to save the model: `.keras` for all of it, `.weights.h5` for its
            weights. A `.json` beside it records the score; a later run that finds it
            replaces the checkpoint only by a better one.
        monitor: Name of the score, `metric/score`.
        mode: `"max"` or `"min"`.
        require: Scores that must be reached, as name -> least value. Tripod's rule is
            the best InfoM among checkpoints whose PSNR reaches a threshold:
            `require={"psnr/psnr": 38.0}`.

    Example:
        >>> rule = CheckpointSelection("runs/best.keras", require={"psnr/psnr": 38.0})
        >>> if rule.accepts(scores, rule.best()):
        ...     rule.save(model, step, scores)
    """

    path: str | os.PathLike[str]
    monitor: str = "infomec/modularity"
    mode: str = "max"
    require: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.mode not in ("max", "min"):
            raise ValueError(f'`mode` must be "max" or "min"; received {self.mode!r}.')
        for name, least in self.require.items():
            if not np.isfinite(least):
                raise ValueError(f"`require` of {name!r} must be finite: {least!r}.")
        if not str(self.path).endswith((".keras", ".weights.h5")):
            raise ValueError(
                "`path` must end in .keras or .weights.h5; received "
                f"{str(self.path)!r}."
            )

    @property
    def record(self) -> Path:
        """The file that remembers the best score."""
        path = Path(self.path)
        return path.with_name(path.name + ".json")

    def best(self) -> float | None:
        """The score of the checkpoint that is there already, if any that may count."""
        if not (self.record.exists() and Path(self.path).exists()):
            return None
        saved = self._saved()
        if saved.get("monitor") != self.monitor or saved.get("mode") != self.mode:
            raise ValueError(
                f"{self.record} was chosen by {saved.get('monitor')!r} "
                f"({saved.get('mode')!r}), not by {self.monitor!r} ({self.mode!r}). "
                "Choose another `path` or delete the file."
            )
        found = saved.get("scores", {})
        for name, least in self.require.items():
            value = found.get(name)  # "inf" is text there, NaN is null
            if value is None or not float(value) >= least:
                return None  # chosen by a rule that asked for less
        return float(saved["value"])

    def _saved(self) -> dict[str, Any]:
        try:
            saved = json.loads(self.record.read_text(encoding="utf-8"))
            float(saved["value"])
        except (ValueError, KeyError, TypeError) as error:
            raise DamagedFileError(self.record, repr(error)) from error
        return saved

    def load(self, model: keras.Model) -> dict[str, Any]:
        """Loads the best weights into a model.

        Returns:
            The record of the checkpoint: `step`, `value`, `scores`.

        Raises:
            DamagedFileError: One of the two files cannot be read.
        """
        saved, path = self._saved(), Path(self.path)
        content = path.read_bytes()
        # HDF5 would load numbers with a wrong bit without a word.
        if saved.pop("crc32", zlib.crc32(content)) != zlib.crc32(content):
            raise DamagedFileError(path, "its checksum is another")
        only_weights = path.name.endswith(".weights.h5")
        model.load_weights(KerasFile(path.name, content) if only_weights else path)
        return saved

    def accepts(self, scores: Mapping[str, float], best: float | None) -> bool:
        """Whether these scores beat `best` and reach what is required."""
        value = self._score(scores, self.monitor)
        for name, least in self.require.items():
            if not self._score(scores, name) >= least:
                return False
        if not np.isfinite(value):
            return False
        if best is None:
            return True
        return value > best if self.mode == "max" else value < best

    def save(self, model: keras.Model, step: int, scores: Mapping[str, float]) -> None:
        """Saves a model as the best so far; a crash leaves the last best as it is."""
        Path(self.path).parent.mkdir(parents=True, exist_ok=True)
        for path, content in self.pack(model, step, scores).items():
            write_bytes(path, content)

    def pack(
        self, model: keras.Model, step: int, scores: Mapping[str, float]
    ) -> dict[Path, bytes]:
        """The files of a checkpoint, in the order in which to write them.

        Args:
            model: The model.
            step: Training steps done.
            scores: Its scores.

        Example:
            >>> list(rule.pack(model, 100, {"infomec/modularity": 0.5}))
            [PosixPath('runs/best.keras'), PosixPath('runs/best.keras.json')]
        """
        path = Path(self.path)
        only_weights = path.name.endswith(".weights.h5")
        file = KerasFile(path.name)
        (model.save_weights if only_weights else model.save)(file)
        record = {
            "monitor": self.monitor,
            "mode": self.mode,
            "value": scores[self.monitor],
            "step": step,
            "scores": scores,
            "crc32": zlib.crc32(file.getbuffer()),
        }
        text = json.dumps(plain(record), indent=2, allow_nan=False)
        return {path: file.getvalue(), self.record: (text + "\n").encode()}

    @staticmethod
    def _score(scores: Mapping[str, float], name: str) -> float:
        if name not in scores:
            known = ", ".join(sorted(scores))
            raise ValueError(f"No score is called {name!r}; there are: {known}.")
        return scores[name]
