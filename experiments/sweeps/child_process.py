"""A process that ends with the one that started it."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# A process that is told to end has this long to save its state.
GRACE_SECONDS = 10.0
_POLL_SECONDS = 0.1
_ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Ended:
    """How a process ended.

    Attributes:
        code: Its exit code; minus the signal's number if one ended it.
        cpu_seconds: Its processor time, without that of processes beside it.
        reason: Why it was told to end, or None if it ended by itself.
    """

    code: int
    cpu_seconds: float
    reason: str | None = None


def run_child(
    command: list[str],
    log: Any,
    end: Callable[[], str | None] = lambda: None,
    grace: float = GRACE_SECONDS,
) -> Ended:
    """Runs a command to its end, or until there is a reason to end it.

    The process has a session of its own: Ctrl-C reaches the one that started it, which
    decides. Its standard input is a pipe that closes when this process ends, however it
    ends; `end_with_stdin` watches it.

    Args:
        command: Program and arguments.
        log: File for its output.
        end: Asked several times a second for a reason to end it.
        grace: Seconds from the request to end to the end by force.

    Example:

    ```python
    with open("log.txt", "w") as log:
        ended = run_child([sys.executable, "-c", "print(1)"], log)
    ```
    """
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=log,
        stderr=subprocess.STDOUT,
        cwd=_ROOT,
        start_new_session=True,
    )
    reason, wait = None, threading.Event().wait
    try:
        while (found := _poll(process)) is None:
            reason = end()
            if reason is not None:
                found = _finish(process, grace)
                break
            wait(_POLL_SECONDS)
    except BaseException:
        _finish(process, grace)
        raise
    finally:
        if process.stdin is not None:
            process.stdin.close()
    return Ended(*found, reason=reason)


def _poll(
    process: subprocess.Popen[bytes], flags: int = os.WNOHANG
) -> tuple[int, float] | None:
    """Exit code and processor time, or None while the process runs."""
    # Unlike `RUSAGE_CHILDREN`, without the processes that run beside it.
    pid, status, usage = os.wait4(process.pid, flags)
    if pid == 0:
        return None
    process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, usage.ru_utime + usage.ru_stime


def _finish(process: subprocess.Popen[bytes], grace: float) -> tuple[int, float]:
    """Tells a process and its own children to end, and ends them if they do not."""
    _signal(process, signal.SIGTERM)
    end = time.monotonic() + grace
    while time.monotonic() < end:
        found = _poll(process)
        if found is not None:
            return found
        time.sleep(_POLL_SECONDS)
    _signal(process, signal.SIGKILL)
    found = _poll(process, flags=0)
    assert found is not None, "waited for its end"
    return found


def _signal(process: subprocess.Popen[bytes], number: int) -> None:
    with contextlib.suppress(ProcessLookupError):  # it ended by itself
        os.killpg(process.pid, number)


def end_with_stdin(grace: float = GRACE_SECONDS) -> None:
    """Ends this process when its standard input closes: first by SIGTERM."""

    def watch() -> None:
        # Not `sys.stdin`: its lock would be held at the end of the interpreter.
        while os.read(descriptor, 1024):
            pass
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(grace)
        os._exit(128 + signal.SIGTERM)

    descriptor = sys.stdin.fileno()
    threading.Thread(target=watch, name="lifeline", daemon=True).start()
