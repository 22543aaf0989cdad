"""How long a run bears with a disk that takes nothing."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from experiments.settings.command_line import UNWRITABLE, CommandError

# A run that could write nothing for so long stops.
PATIENCE_SECONDS = 600.0
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.5, 15.0

Result = TypeVar("Result")


class UnwritableError(CommandError):
    """Nothing could be written for long; the run can go on from its last checkpoint."""

    exit_code = UNWRITABLE


class Patience:
    """Counts for how long writing has failed, and gives up in the end.

    Args:
        folder: Folder of the run, for messages.
        report: Called with a line of text when waiting starts.
        stopping: Whether the run was told to end: then nothing is waited for.

    Example:

    ```python
    patience = Patience(Path("runs/qlae-0"))
    patience.insist(lambda: write_json(path, record))
    ```
    """

    def __init__(
        self,
        folder: Path,
        report: Callable[[str], None] = print,
        stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        self.folder = folder
        self.report = report
        self.stopping = stopping
        self._since: float | None = None

    def succeeded(self) -> None:
        """Notes that something could be written."""
        self._since = None

    def failed(self, error: Exception) -> None:
        """Notes that something could not be written.

        Raises:
            UnwritableError: Nothing could be written for `PATIENCE_SECONDS`.
        """
        now = time.monotonic()
        self._since = now if self._since is None else self._since
        if now - self._since >= PATIENCE_SECONDS or self.stopping():
            raise UnwritableError(
                f"Stopped: nothing could be written for {now - self._since:.0f} s "
                f"({error}). Make room; the same command then goes on from the last "
                f"checkpoint in {self.folder}."
            ) from error

    def insist(self, write: Callable[[], Result]) -> Result:
        """Tries until writing succeeds or patience ends.

        Args:
            write: Writes; an OSError means that it may succeed later.
        """
        pause = _SHORTEST_PAUSE
        while True:
            try:
                result = write()
            except OSError as error:
                if self._since is None:
                    self.report(f"Not written: {error}. Trying again until it is.")
                self.failed(error)
            else:
                self.succeeded()
                return result
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
