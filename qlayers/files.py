"""Files that are either whole or not there."""

import os
from collections.abc import Callable
from pathlib import Path

PARTIAL = "partial-"


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Lets `write` make a temporary file, forces it to disk and moves it to `path`.

    A crash at any moment leaves the old file or the new one. If writing fails, for
    example because the disk is full, the temporary file is removed and the error goes
    on to the caller.

    Args:
        path: The file to make or replace.
        write: Called with the path of the temporary file, whose suffix is the same.

    Example:
        >>> write_atomically(Path("notes.txt"), lambda path: path.write_text("done"))
    """
    partial = path.with_name(PARTIAL + path.name)
    try:
        write(partial)
        with open(partial, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(partial, path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def write_text(path: Path, text: str) -> None:
    """Writes text as UTF-8, atomically."""
    write_atomically(path, lambda partial: partial.write_text(text, encoding="utf-8"))


def _sync_folder(folder: Path) -> None:
    """Makes renames in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
