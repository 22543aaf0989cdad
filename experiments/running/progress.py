"""One line that says how far training is."""

import sys
import time
from collections.abc import Mapping
from typing import TextIO


class Progress:
    """Prints steps, speed, time left and loss terms.

    On a terminal the line is rewritten in place; otherwise a new one is printed every
    `quiet_seconds`, so that log files stay short.

    Args:
        steps: Steps of the whole run.
        batch_size: Images in a step.
        start: Steps done before.
        stream: Text stream to print to; stdout by default.
        quiet_seconds: Least time between two lines outside a terminal.
    """

    def __init__(
        self,
        steps: int,
        batch_size: int,
        start: int = 0,
        stream: TextIO | None = None,
        quiet_seconds: float = 10.0,
    ) -> None:
        self.steps = steps
        self.batch_size = batch_size
        self.stream = stream or sys.stdout
        self.quiet_seconds = quiet_seconds
        self.images_per_second = 0.0
        self._first_step = self._last_step = start
        self._first_time = self._last_time = time.monotonic()
        self._printed = -float("inf")

    def update(self, step: int, terms: Mapping[str, float]) -> None:
        """Notes the step, and prints if it is time."""
        now = time.monotonic()
        elapsed = max(now - self._last_time, 1e-9)
        self.images_per_second = (step - self._last_step) * self.batch_size / elapsed
        self._last_step, self._last_time = step, now
        terminal = self.stream.isatty()
        recent = now - self._printed < self.quiet_seconds
        if recent and not terminal and step < self.steps:
            return
        self._printed = now
        line = self.line(step, terms, now)
        if terminal:
            self.stream.write(f"\r{line[:200]:<80}")
            if step >= self.steps:
                self.stream.write("\n")
        else:
            self.stream.write(line + "\n")
        self.stream.flush()

    def restart_clock(self) -> None:
        """Leaves out of the speed what was done since the last update."""
        self._last_time = time.monotonic()

    def line(self, step: int, terms: Mapping[str, float], now: float) -> str:
        """The text of the line."""
        done = step - self._first_step
        seconds = (now - self._first_time) / max(done, 1) * (self.steps - step)
        shown = "  ".join(f"{name} {value:.4g}" for name, value in terms.items())
        return (
            f"step {step}/{self.steps}  {self.images_per_second:.0f} images/s  "
            f"{_duration(seconds)} left  {shown}"
        )


def _duration(seconds: float) -> str:
    whole = round(seconds)
    hours, minutes = divmod(whole // 60, 60)
    if hours:
        return f"{hours} h {minutes:02d} min"
    return f"{minutes} min {whole % 60:02d} s" if minutes else f"{whole} s"
