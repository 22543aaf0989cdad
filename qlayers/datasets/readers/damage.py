"""One boundary between foreign bytes and the rest of the program."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from qlayers.datasets.readers.dataset_file_error import DatasetFileError


@contextlib.contextmanager
def naming_damage(path: str | Path, problem: str) -> Iterator[None]:
    """Turns whatever a parser raises into a `DatasetFileError` that names the file.

    Parsers of damaged bytes raise nearly anything: an unpacked header can ask for a
    negative seek, an unknown compression or more memory than there is. All of it means
    the same to the user.

    Args:
        path: The file.
        problem: What could not be read, such as "not a readable .npz file".
    """
    try:
        yield
    except DatasetFileError:
        raise
    except Exception as error:
        shown = " ".join(str(error).split()) or type(error).__name__
        raise DatasetFileError(
            path, f"{problem} ({shown}): it is damaged or truncated."
        ) from error


def check_size(path: str | Path, what: str, found: int, limit: int) -> None:
    """Refuses what would take far more memory than any published file needs.

    Args:
        path: The file.
        what: The part of it, for the message.
        found: Bytes that it claims to unpack to.
        limit: Bytes that the published file needs at most.
    """
    if not 0 <= found <= limit:
        raise DatasetFileError(
            path,
            f"{what} claims to hold {found:,} bytes, the published file has at most "
            f"{limit:,}: this is another file.",
        )
