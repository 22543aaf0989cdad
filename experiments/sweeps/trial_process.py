"""Starts a trial's process, keeps its log and records how it ended."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from experiments.settings.command_line import DIVERGED
from experiments.storage.files import write_json
from experiments.storage.run_directory import RunDirectory

ATTEMPTS = 2
_ROOT = Path(__file__).resolve().parents[2]
_LOG_TAIL = 2_000


def run_trial(
    folder: str | Path,
    pictures: bool = True,
    start: Callable[[list[str], Any], int] | None = None,
) -> dict[str, Any]:
    """Runs a trial to its end, a second time if it fails.

    Args:
        folder: The trial's folder, with its config.
        pictures: Whether it writes TensorBoard files and pictures.
        start: Runs a command with its output in a file and returns the exit code.

    Returns:
        What is also in `status.json`: `state` (`"finished"` or `"failed"`),
        `attempts`, and for a failure the end of the log and, if the loss was no longer
        finite, the `reason` `"diverged"`.
    """
    folder = Path(folder).resolve()
    status_file = RunDirectory(folder).status_file
    command = [sys.executable, "-m", "experiments.sweeps.trial", f"--workdir={folder}"]
    command.append(f"--pictures={str(pictures).lower()}")
    status: dict[str, Any] = {"state": "failed", "attempts": 0}
    while status["attempts"] < ATTEMPTS and status["state"] != "finished":
        attempt = status["attempts"] + 1
        write_json(status_file, {"state": "running", "attempts": attempt})
        with open(folder / "log.txt", "a", encoding="utf-8") as log:
            log.write(f"--- attempt {attempt}\n")
            log.flush()
            code = (start or _start)(command, log)
        status = {"state": "finished" if code == 0 else "failed", "attempts": attempt}
        if code != 0:
            text = (folder / "log.txt").read_text(encoding="utf-8", errors="replace")
            status |= {"exit_code": code, "log": text[-_LOG_TAIL:]}
        if code == DIVERGED:
            status["reason"] = "diverged"
        write_json(status_file, status)
    return status


def _start(command: list[str], log: Any) -> int:
    process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, cwd=_ROOT)
    try:
        return process.wait()
    except BaseException:
        process.terminate()  # it saves a checkpoint and ends
        process.wait()
        raise
