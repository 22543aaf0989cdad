"""Files that are either whole or not there."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from qlayers.metrics.metric_result import plain

PARTIAL = "partial-"


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Lets `write` make a temporary file, forces it to disk and moves it to `path`.

    A crash at any moment leaves the old file or the new one. If writing fails, for
    example because the disk is full, the temporary file is removed and the error goes
    on to the caller.

    Args:
        path: The file to make or replace.
        write: Called with the path of the temporary file, whose suffix is the same.
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
    sync_folder(path.parent)


def write_json(path: Path, value: Any) -> None:
    """Writes strict JSON, atomically; NaN becomes null."""
    text = json.dumps(plain(value), indent=2, allow_nan=False) + "\n"
    write_atomically(path, lambda partial: partial.write_text(text, encoding="utf-8"))


def read_json(path: Path) -> Any:
    """Reads JSON; a broken file is an error that names it."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not readable JSON: {error}.") from error


def sync_folder(folder: Path) -> None:
    """Makes renames in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
