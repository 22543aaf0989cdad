"""What is told to end saves its state first."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Any

from experiments.settings.command_line import Terminated


@contextlib.contextmanager
def _handling(handlers: dict[int, Any]) -> Iterator[None]:
    """Handles signals while it is entered; only the main thread can."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, f) for number, f in handlers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler or signal.SIG_DFL)


@contextlib.contextmanager
def signals_set(event: threading.Event) -> Iterator[list[int]]:
    """Sets an event at SIGTERM and at Ctrl-C; a second Ctrl-C interrupts as usual.

    Yields:
        The signals that came.
    """
    came: list[int] = []

    def note(number: int, frame: Any) -> None:
        came.append(number)
        event.set()
        if number == signal.SIGINT:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    with _handling({signal.SIGTERM: note, signal.SIGINT: note}):
        yield came


@contextlib.contextmanager
def sigterm_interrupts() -> Iterator[None]:
    """Raises `Terminated` at SIGTERM, so that what is under way is ended in order."""

    def interrupt(number: int, frame: Any) -> None:
        raise Terminated

    with _handling({signal.SIGTERM: interrupt}):
        yield
