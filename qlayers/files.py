"""Files that are either whole or not there."""

import contextlib
import io
import os
from collections.abc import Callable
from pathlib import Path

PARTIAL = "partial-"


class DamagedFileError(ValueError):
    """A file cannot be read, or says what it cannot mean.

    Args:
        path: The file.
        problem: What is wrong with it.

    Example:
        >>> str(DamagedFileError(Path("a.json"), "it is empty"))
        'a.json is damaged: it is empty'
    """

    def __init__(self, path: Path, problem: object) -> None:
        super().__init__(f"{path} is damaged: {problem}")
        self.path = path


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
    # Processes that write the same file do not write into one another's.
    partial = path.with_name(f"{PARTIAL}{os.getpid()}-{path.name}")
    try:
        write(partial)
        with open(partial, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(partial, path)
    except OSError as error:
        _remove(partial)
        raise naming(path, error) from error
    except BaseException:
        _remove(partial)
        raise
    _sync_folder(path.parent)


def _remove(partial: Path) -> None:
    with contextlib.suppress(OSError):  # the error before it says more
        partial.unlink(missing_ok=True)


def naming(path: Path, error: OSError) -> OSError:
    """An error like this one whose text names the file that could not be written.

    Example:
        >>> str(naming(Path("a.npz"), OSError(28, "No space left on device")))
        "[Errno 28] No space left on device: 'a.npz'"
    """
    if error.errno is None:
        return OSError(f"{path}: {error}")
    return OSError(error.errno, error.strerror or "not written", str(path))


def write_bytes(path: Path, content: bytes | bytearray | memoryview) -> None:
    """Writes bytes, atomically."""
    write_atomically(path, lambda partial: partial.write_bytes(content))


def write_text(path: Path, text: str) -> None:
    """Writes text as UTF-8, atomically."""
    write_bytes(path, text.encode("utf-8"))


class KerasFile(io.BytesIO):
    """A file in memory that Keras takes for one on disk.

    On a disk that fills up, HDF5 does not only fail: it may end the process when it
    closes the file. In memory it has room.

    Args:
        name: Name of the file, whose ending tells Keras what to write.

    Example:
        >>> file = KerasFile("encoder.keras")
        >>> model.save(file)
        >>> write_bytes(Path("encoder.keras"), file.getbuffer())
    """

    def __init__(self, name: str, content: bytes = b"") -> None:
        super().__init__(content)
        self._name = name

    def __str__(self) -> str:
        return self._name


def _sync_folder(folder: Path) -> None:
    """Makes renames in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
