"""A lock on a folder."""

import contextlib
import fcntl
import os
from pathlib import Path

from experiments.settings.command_line import IN_USE, CommandError


class WorkdirInUseError(CommandError):
    """Another process works in the folder."""

    exit_code = IN_USE


class FolderLock:
    """Keeps other processes out of a folder while it is entered.

    The operating system releases the lock when the process ends, however it ends.

    Args:
        path: The folder; made when the lock is entered.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._lock: int | None = None

    def __enter__(self) -> "FolderLock":
        self.path.mkdir(parents=True, exist_ok=True)
        lock = _open_itself(self.path / ".lock")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.read(lock, 32).decode(errors="replace").strip() or "unknown"
            os.close(lock)
            raise WorkdirInUseError(
                f"{self.path} is in use by process {owner}. Wait for it, or choose "
                "another --workdir."
            ) from None
        self._lock = lock
        with contextlib.suppress(OSError):  # a full disk: the lock holds all the same
            os.ftruncate(lock, 0)
            os.write(lock, f"{os.getpid()}\n".encode())
        return self

    def __exit__(self, *error: object) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _open_itself(path: Path) -> int:
    """Opens or makes a file, but not what a link of that name leads to.

    A folder from someone else may hold such a link, and the lock's content is
    overwritten.
    """
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
    except OSError as error:
        if not path.is_symlink():
            raise
        raise ValueError(
            f"{path} is a link, expected a file of the folder itself. Remove it, or "
            "choose another --workdir."
        ) from error
