"""Checks that come before any reading."""

import functools
import hashlib
from collections.abc import Sequence
from pathlib import Path

from qlayers.datasets.readers.dataset_file_error import DatasetFileError

_BLOCK = 1 << 20


def check_is_data(path: str | Path) -> None:
    """Refuses missing and empty files and web pages saved under a data file's name."""
    path = Path(path)
    if not path.is_file():
        raise DatasetFileError(
            path, "there is no such file.", "Put the published file there."
        )
    with path.open("rb") as stream:
        head = stream.read(512)
    if not head:
        raise DatasetFileError(path, "the file is empty.")
    text = head.lstrip().lower()
    if text.startswith((b"<!doctype", b"<html", b"<?xml", b"<head")):
        raise DatasetFileError(
            path,
            "this is a web page, not data: the server answered with a notice (a "
            "quota, a virus-scan question or a log-in).",
            "Open the download link in a browser, confirm the download and put the "
            "data file there.",
        )


def check_digest(path: str | Path, algorithm: str, expected: str) -> None:
    """Compares a file with its published checksum, reading it in blocks.

    Args:
        path: The file.
        algorithm: A name `hashlib` knows, such as "md5" or "sha256".
        expected: The published hexadecimal digest.
    """
    found = _hash(Path(path), algorithm)
    if found != expected:
        raise DatasetFileError(
            path,
            f"its {algorithm} is {found}, the published one is {expected}: the file is "
            "damaged or another release.",
        )


def content_digest(paths: Sequence[Path]) -> str:
    """A hexadecimal digest of files: of their content, or of the name if missing."""
    whole = hashlib.sha256()
    for path in paths:
        if path.is_file():
            state = path.stat()
            whole.update(_known_hash(path, state.st_size, state.st_mtime_ns).encode())
        else:
            whole.update(f"missing {path.name}".encode())
    return whole.hexdigest()


@functools.lru_cache(maxsize=32)
def _known_hash(path: Path, size: int, modified: int) -> str:
    """Computed once for a file that does not change."""
    return _hash(path, "sha256")


def _hash(path: Path, algorithm: str) -> str:
    digest = hashlib.new(algorithm)
    with path.open("rb") as stream:
        while block := stream.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()
