"""What the commands share: readable errors and exit codes."""

import contextlib
import errno
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from absl import app, flags, logging

from experiments.settings.environment import load_tensorflow

# Flags that are defined here belong to the command: its --help lists them.
flags.disclaim_key_flags()

BAD_USAGE, IN_USE, DIVERGED, UNWRITABLE = 2, 3, 4, 5
INTERRUPTED, TERMINATED = 130, 143  # 128 + the number of the signal


class CommandError(RuntimeError):
    """An error that ends a command with an exit code of its own."""

    exit_code = 1


class Terminated(KeyboardInterrupt):
    """SIGTERM, where it must end more than this process."""


class _FullDiskStream:
    """A text stream whose readers lose lines where there is no room for them.

    Output often goes to a file on the disk that is full: it must not end the run.
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with self._forgiving():
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with self._forgiving():
            self._stream.flush()

    @contextlib.contextmanager
    def _forgiving(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def launch(main: Callable[[Sequence[str]], int | None]) -> None:
    """Runs a command; errors that a user can fix are one line long."""

    def guarded(arguments: Sequence[str]) -> int | None:
        if len(arguments) > 1:
            return _complain(f"Unexpected arguments: {' '.join(arguments[1:])}.")
        sys.stdout, sys.stderr = (
            _FullDiskStream(sys.stdout),
            _FullDiskStream(sys.stderr),
        )
        if not flags.FLAGS["verbosity"].present:
            logging.set_verbosity(logging.ERROR)  # TFDS tells what concerns nobody
        try:
            load_tensorflow()
            return main(arguments)
        except (ValueError, TypeError, FloatingPointError, OSError) as error:
            if flags.FLAGS.debug:
                raise
            return _complain(str(error))
        except CommandError as error:
            print(error, file=sys.stderr)
            return error.exit_code
        except KeyboardInterrupt as error:
            print("\nInterrupted; the same command goes on.", file=sys.stderr)
            return TERMINATED if isinstance(error, Terminated) else INTERRUPTED

    flags.DEFINE_bool("debug", False, "Show where an error was raised.")
    app.run(guarded)


def define_workdir(text: str, unless: Callable[[], bool] = lambda: False) -> None:
    """Defines the flag that every command on runs needs.

    Args:
        text: Help of the flag.
        unless: Whether the command needs no folder this time.
    """
    flags.DEFINE_string("workdir", None, text)
    flags.register_validator(
        "workdir",
        lambda value: bool(value) or unless(),
        message="Name a folder, for example --workdir=runs/first.",
    )


def exit_code(outcome: str) -> int | None:
    """What a process returns for an outcome of `TrainingRun.run`."""
    codes = {"stopped": TERMINATED, "interrupted": INTERRUPTED, "diverged": DIVERGED}
    return codes.get(outcome)


def _complain(text: str) -> int:
    print(f"{text}\n--help lists all flags.", file=sys.stderr)
    return BAD_USAGE
