"""Starts a trial's process, keeps its log and records how it ended."""

import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from experiments.settings.command_line import DIVERGED, UNWRITABLE
from experiments.storage.files import write_json
from experiments.storage.run_directory import RunDirectory
from experiments.sweeps.child_process import Ended, run_child

ATTEMPTS = 2
_LOG_TAIL = 2_000
_LOOK_SECONDS = 1.0
STOPPED, TIMEOUT = "stopped", "timeout"
_REASONS = {DIVERGED: "diverged", UNWRITABLE: "nothing could be written"}
# Runs a command with its output in a file until the third argument gives a reason.
Start = Callable[[list[str], Any, Callable[[], str | None]], Ended]


def run_trial(
    folder: str | Path,
    pictures: bool = True,
    start: Start = run_child,
    stop: threading.Event | None = None,
    timeout: float | None = None,
) -> dict[str, Any]:
    """Runs a trial to its end, a second time if it fails.

    Args:
        folder: The trial's folder, with its config.
        pictures: Whether it writes TensorBoard files and pictures.
        start: Runs a command, see `run_child`.
        stop: Ends the trial when it is set; the next start goes on.
        timeout: Seconds without a sign of progress after which the trial is ended:
            no file of its folder has changed. None waits for ever.

    Returns:
        What is also in `status.json`: `state` (`"finished"`, `"failed"` or
        `"stopped"`), `attempts`, and for a failure the end of the log and the `reason`
        where it is known: `"diverged"`, `"timeout"`, `"nothing could be written"`.
    """
    folder = Path(folder).resolve()
    stop = stop or threading.Event()
    status_file = RunDirectory(folder).status_file
    command = [sys.executable, "-m", "experiments.sweeps.trial", f"--workdir={folder}"]
    command += [f"--pictures={str(pictures).lower()}", "--end_with_stdin"]
    status: dict[str, Any] = {"state": "failed", "attempts": 0}
    while status["attempts"] < ATTEMPTS and status["state"] == "failed":
        attempt = status["attempts"] + 1
        write_json(status_file, {"state": "running", "attempts": attempt})
        reason_to_end = _ReasonToEnd(folder, stop, timeout)
        with open(folder / "log.txt", "a", encoding="utf-8") as log:
            log.write(f"--- attempt {attempt}\n")
            log.flush()
            ended = start(command, log, reason_to_end)
        status = {**_status_of(ended, folder), "attempts": attempt}
        write_json(status_file, status)
    return status


def _status_of(ended: Ended, folder: Path) -> dict[str, Any]:
    if ended.code == 0:
        return {"state": "finished"}
    if ended.reason == STOPPED:
        return {"state": STOPPED}
    text = (folder / "log.txt").read_text(encoding="utf-8", errors="replace")
    status = {"state": "failed", "exit_code": ended.code, "log": text[-_LOG_TAIL:]}
    reason = _REASONS.get(ended.code, ended.reason)
    return {**status, "reason": reason} if reason else status


class _ReasonToEnd:
    """Says why a trial should end: the sweep does, or nothing has moved for long."""

    def __init__(
        self, folder: Path, stop: threading.Event, timeout: float | None
    ) -> None:
        self._folder = folder
        self._stop = stop
        self._timeout = timeout
        self._seen: Any = None
        self._looked = self._moved = time.monotonic()

    def __call__(self) -> str | None:
        if self._stop.is_set():
            return STOPPED
        if self._timeout is None:
            return None
        now = time.monotonic()
        if now - self._looked >= min(_LOOK_SECONDS, self._timeout):
            self._looked = now
            found = self._files()
            if found != self._seen:
                self._seen, self._moved = found, now
        return TIMEOUT if now - self._moved > self._timeout else None

    def _files(self) -> set[tuple[str, int, int]]:
        """Names, sizes and times of the run's files, wherever they lie."""
        found = set()
        for parent, _, names in os.walk(self._folder):
            for name in names:
                try:
                    state = os.stat(os.path.join(parent, name))
                except OSError:
                    continue  # renamed at this moment
                found.add((name, state.st_size, state.st_mtime_ns))
        return found
