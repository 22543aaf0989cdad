"""A progress line that appears only when work turns out to be long."""

import sys
import threading
import time


class Progress:
    """Counts finished pieces of work on stderr: done, total, time left.

    Silent for the first second, so that quick scores print nothing. Redraws in place
    on a terminal and prints a line every ten seconds elsewhere (log files).

    Args:
        total: Pieces of work.
        label: What is being done.
        verbose: False switches it off.
    """

    def __init__(self, total: int, label: str, verbose: bool = True) -> None:
        self._total = total
        self._label = label
        self._verbose = verbose
        self._done = 0
        self._start = self._shown = time.monotonic()
        self._printed = False
        # Pieces finish on several threads at once.
        self._lock = threading.Lock()

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *error: object) -> None:
        if self._printed and sys.stderr.isatty():
            sys.stderr.write("\n")

    def advance(self, pieces: int = 1) -> None:
        """Counts `pieces` more as done."""
        with self._lock:
            self._done += pieces
            if self._verbose:
                self._draw(time.monotonic())

    def _draw(self, now: float) -> None:
        terminal = sys.stderr.isatty()
        wait = 0.2 if terminal else 10.0
        last = self._done >= self._total and self._printed
        first = not self._printed
        if now - self._start < 1.0 or not (first or last or now - self._shown > wait):
            return
        elapsed = now - self._start
        left = elapsed / self._done * (self._total - self._done)
        line = (
            f"{self._label}: {self._done}/{self._total}, "
            f"{elapsed:.0f} s, {left:.0f} s left"
        )
        sys.stderr.write(f"\r{line}  " if terminal else line + "\n")
        sys.stderr.flush()
        self._printed, self._shown = True, now
