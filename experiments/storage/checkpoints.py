"""Checkpoints of everything that training changes."""

import io
import json
import threading
import time
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np

from qlayers.callbacks.stop_on_non_finite import all_finite, optimizers_of
from qlayers.files import DamagedFileError, write_bytes

_STATE = "state"


@dataclass(frozen=True)
class Snapshot:
    """The values of a model's variables at one step.

    Attributes:
        step: Training steps done.
        arrays: Value of each variable, in the order of `all_variables`.
        state: Further numbers, as JSON.
    """

    step: int
    arrays: list[np.ndarray]
    state: dict[str, Any]


def all_variables(model: keras.Model) -> list[Any]:
    """Weights, random states, running means and optimizer states, in a fixed order."""
    variables = [*model.variables, *model.metrics_variables]
    for optimizer in optimizers_of(model):
        variables.extend(optimizer.variables)
    return list({id(variable): variable for variable in variables}.values())


def take_snapshot(model: keras.Model, step: int, **state: Any) -> Snapshot:
    """Copies all variables out of a model."""
    arrays = [np.array(variable) for variable in all_variables(model)]
    return Snapshot(step, arrays, state)


def training_values(model: keras.Model, snapshot: Snapshot) -> list[np.ndarray]:
    """The values of a snapshot without running means, which may be NaN for a reason."""
    means = {id(variable) for variable in model.metrics_variables}
    pairs = zip(all_variables(model), snapshot.arrays, strict=True)
    return [array for variable, array in pairs if id(variable) not in means]


def apply_snapshot(model: keras.Model, snapshot: Snapshot) -> None:
    """Puts the values back; the model must be built and compiled alike."""
    check_fit(model, snapshot)
    for variable, array in zip(all_variables(model), snapshot.arrays, strict=True):
        variable.assign(array)


def check_fit(model: keras.Model, snapshot: Snapshot) -> None:
    """Raises a ValueError if a model has other variables than a snapshot."""
    wanted = [(tuple(v.shape), np.dtype(v.dtype)) for v in all_variables(model)]
    found = [(array.shape, array.dtype) for array in snapshot.arrays]
    if wanted != found:
        raise ValueError(
            f"The checkpoint of step {snapshot.step} does not fit this model: it has "
            f"{len(found)} variables, the model {len(wanted)}, or their shapes differ. "
            "Was it written by other code?"
        )


def write_snapshot(path: Path, snapshot: Snapshot) -> None:
    """Writes a snapshot as one `.npz` file, whole or not at all."""
    arrays = snapshot.arrays
    record = {"step": snapshot.step, "variables": len(arrays), **snapshot.state}
    entries: dict[str, Any] = dict(zip(_names(len(arrays)), arrays, strict=True))
    entries[_STATE] = np.frombuffer(json.dumps(record).encode(), np.uint8)
    # Made in memory: the disk sees one write, which can fail in one way.
    stream = io.BytesIO()
    np.savez(stream, **entries)
    write_bytes(path, stream.getbuffer())


def read_snapshot(path: Path) -> Snapshot:
    """Reads a snapshot; every entry has a checksum, which is verified.

    Raises:
        DamagedFileError: The file is truncated, damaged or something else.
    """
    try:
        entries = _read_entries(path)
        state = json.loads(entries.pop(_STATE).tobytes())
        step, count = state.pop("step"), state.pop("variables", len(entries))
        if not isinstance(step, int) or sorted(entries) != _names(count):
            raise ValueError("variables are missing")
    # Whatever a wrong byte makes a library raise: the file cannot be used.
    except Exception as error:
        raise DamagedFileError(path, error or type(error).__name__) from error
    return Snapshot(step, [entries[name] for name in _names(count)], state)


def _names(count: int) -> list[str]:
    return [f"v{i:05d}" for i in range(count)]


def _read_entries(path: Path) -> dict[str, np.ndarray]:
    """The arrays of an `.npz` file that is not compressed.

    No byte of an entry is looked at before its checksum was compared.
    """
    entries = {}
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            if info.compress_type != zipfile.ZIP_STORED:
                raise ValueError(f"{info.filename} is compressed")
            content = io.BytesIO(archive.read(info))
            name = info.filename.removesuffix(".npy")
            entries[name] = np.lib.format.read_array(content, allow_pickle=False)
    return entries


class CheckpointStore:
    """The last two checkpoints of a run, written in the background.

    Args:
        folder: Folder of the checkpoints.
        keep: How many to keep.
        report: Called with a line of text when something is wrong.

    Attributes:
        error: Why the last checkpoint could not be written; None if it could.

    Example:

    ```python
    store = CheckpointStore(Path("run/checkpoints"))
    store.save(take_snapshot(model, step))
    store.wait()
    snapshot = store.latest()
    ```
    """

    def __init__(
        self, folder: Path, keep: int = 2, report: Callable[[str], None] = print
    ) -> None:
        self.folder = folder
        self.keep = keep
        self.report = report
        self.write_seconds = 0.0
        self.error: Exception | None = None
        self._thread: threading.Thread | None = None
        self._error: Exception | None = None

    def save(
        self, snapshot: Snapshot, before: Callable[[], None] | None = None
    ) -> None:
        """Starts writing a snapshot; waits for the one before it.

        Args:
            snapshot: The snapshot to write.
            before: Called first in the background, for what must be on disk before.
        """
        self.wait()
        self._thread = threading.Thread(
            target=self._write, args=(snapshot, before), name="checkpoint"
        )
        self._thread.start()

    @property
    def busy(self) -> bool:
        """Whether a checkpoint is being written."""
        return self._thread is not None and self._thread.is_alive()

    def wait(self) -> bool:
        """Waits until nothing is being written.

        Returns:
            Whether the last write succeeded. A failure, such as a full disk, is
            reported; the checkpoints from before are kept.
        """
        tried = self._thread is not None
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        error, self._error = self._error, None
        if error is not None or tried:
            self.error = error
        if error is not None:
            kept = [path.name for path in self.files()]
            self.report(
                f"A checkpoint could not be written ({error}). Training goes on; the "
                f"last good ones are kept: {', '.join(kept) or 'none yet'}."
            )
        return error is None

    def _write(self, snapshot: Snapshot, before: Callable[[], None] | None) -> None:
        start = time.perf_counter()
        try:
            if before is not None:
                before()
            write_snapshot(self.path_of(snapshot.step), snapshot)
            for path in self.files()[: -self.keep]:
                path.unlink(missing_ok=True)
        except Exception as error:
            self._error = error
        self.write_seconds = time.perf_counter() - start

    def path_of(self, step: int) -> Path:
        """Name of the checkpoint of a step."""
        return self.folder / f"step-{step:09d}.npz"

    def files(self) -> list[Path]:
        """Checkpoints from the oldest to the newest."""
        return sorted(self.folder.glob("step-?????????.npz"))

    def remove_after(self, step: int) -> None:
        """Removes the checkpoints that were taken after a step."""
        self.wait()
        for path in self.files():
            if path > self.path_of(step):
                path.unlink(missing_ok=True)

    def latest(self, model: keras.Model | None = None) -> Snapshot | None:
        """The newest intact checkpoint; damaged ones are reported and put aside.

        Args:
            model: The model that it is for; one with values that are not finite is
                damaged, and so is one that does not fit if one before it does.

        Raises:
            ValueError: There are intact checkpoints, and none fits the model.
        """
        misfits: list[tuple[Path, ValueError]] = []
        for path in reversed(self.files()):
            try:
                snapshot = _usable(path, model)
            except DamagedFileError as error:
                self._put_aside(path, error)
            except ValueError as error:
                misfits.append((path, error))
            else:
                for misfit in misfits:
                    self._put_aside(*misfit)
                return snapshot
        if misfits:
            raise misfits[0][1]
        return None

    def _put_aside(self, path: Path, error: ValueError) -> None:
        self.report(f"{error}. The checkpoint before it is used instead.")
        path.rename(path.with_suffix(".damaged"))


def _usable(path: Path, model: keras.Model | None) -> Snapshot:
    snapshot = read_snapshot(path)
    if model is not None:
        check_fit(model, snapshot)
        if not all_finite(training_values(model, snapshot)):
            raise DamagedFileError(path, "a value is not finite")
    return snapshot
