"""Says how far a preparation is."""

import sys
import time
from collections.abc import Callable
from typing import IO

_SECONDS_BETWEEN_LINES = 10.0


class PreparationProgress:
    """Prints lines such as "shapes3d: 48,000 of 480,000 images, 9 min left".

    Lines, not a bar: they can be read in the log of a job.

    Args:
        name: What is being prepared.
        total: Number of images; `None` if it is not known.
        clock: Seconds, from any start.
        stream: Where to print; standard error by default.
    """

    def __init__(
        self,
        name: str,
        total: int | None,
        clock: Callable[[], float] = time.monotonic,
        stream: IO[str] | None = None,
    ) -> None:
        self._name = name
        self._total = total
        self._clock = clock
        self._stream = stream
        self._begin = self._last = clock()
        self._done = 0

    def advance(self, count: int) -> None:
        """Notes `count` more images, and prints a line now and then."""
        self._done += count
        now = self._clock()
        if now - self._last >= _SECONDS_BETWEEN_LINES:
            self._last = now
            self._print(f"{self._share()} images{self._time_left(now)}")

    def finish(self) -> None:
        """Tells those who have waited that the last part begins."""
        if self._last > self._begin:
            self._print(f"all {self._done:,} images read, writing them in random order")

    def _share(self) -> str:
        return f"{self._done:,}" + (f" of {self._total:,}" if self._total else "")

    def _time_left(self, now: float) -> str:
        if not self._total:
            return ""
        seconds = (now - self._begin) / self._done * (self._total - self._done)
        if seconds < 90:
            return f", {seconds:.0f} s left"
        return f", {seconds / 60:.0f} min left"

    def _print(self, text: str) -> None:
        print(f"{self._name}: {text}", file=self._stream or sys.stderr, flush=True)
