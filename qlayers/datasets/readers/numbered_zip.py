"""Zip archives with very many numbered members."""

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np

from qlayers.datasets.readers.damage import check_size, naming_damage
from qlayers.datasets.readers.dataset_file_error import DatasetFileError

_STORED, _DEFLATED = 0, 8
_NO_ENTRY = -1
_ENTRY_BYTES = 46


class _Entry(NamedTuple):
    """Where a member lies in the archive."""

    offset: int
    packed: int
    unpacked: int
    crc: int
    method: int


class NumberedZip:
    """Random access to members called `<prefix><number><suffix>`.

    Python's `zipfile` keeps about 650 bytes for each member, half a gigabyte for the
    737,280 pictures of Isaac3D. This class keeps 32 bytes for numbered members. It
    reads what zip archives of data are made of: stored and deflated members, zip64.

    Args:
        path: The archive.
        prefix: How the names of numbered members begin.
        suffix: How they end.
    """

    def __init__(self, path: str | Path, prefix: str, suffix: str) -> None:
        self.path = Path(path)
        self._prefix, self._suffix = prefix.encode(), suffix.encode()
        self._stream = self.path.open("rb")
        try:
            with naming_damage(self.path, "not a readable zip archive"):
                start, size, count = self._find_directory()
                self._stream.seek(start)
                self._collect(self._stream.read(size), count)
        except DatasetFileError:
            self._stream.close()
            raise

    def close(self) -> None:
        self._stream.close()

    def __len__(self) -> int:
        """Number of numbered members."""
        return int(np.sum(self._entries["offset"] != _NO_ENTRY))

    @property
    def other_names(self) -> list[str]:
        """Names of the members that are not numbered."""
        return list(self._others)

    def read_number(self, number: int, max_bytes: int) -> bytes:
        """Content of a numbered member; `KeyError` if there is none."""
        if number >= len(self._entries) or self._entries[number]["offset"] < 0:
            raise KeyError(number)
        name = f"{self._prefix.decode()}{number:06d}{self._suffix.decode()}"
        return self._read(name, _Entry(*self._entries[number].tolist()), max_bytes)

    def read_name(self, name: str, max_bytes: int) -> bytes:
        """Content of another member; `KeyError` if there is none.

        Args:
            name: Name of the member.
            max_bytes: More than this is refused before anything is unpacked.
        """
        return self._read(name, self._others[name], max_bytes)

    def _collect(self, directory: bytes, count: int) -> None:
        self._others: dict[str, _Entry] = {}
        kind = np.dtype(
            {
                "names": list(_Entry._fields),
                "formats": ["i8", "i8", "i8", "u4", "u2"],
            }
        )
        self._entries = np.zeros(count, kind)
        self._entries["offset"] = _NO_ENTRY
        for name, entry in self._walk(directory, count):
            digits = name[len(self._prefix) : len(name) - len(self._suffix)]
            if (
                name.startswith(self._prefix)
                and name.endswith(self._suffix)
                and digits.isdigit()
                and int(digits) < count
            ):
                self._entries[int(digits)] = entry
            else:
                self._others[name.decode("utf-8", "replace")] = entry

    def _walk(self, directory: bytes, count: int) -> Iterator[tuple[bytes, _Entry]]:
        position = 0
        for _ in range(count):
            fields = struct.unpack_from("<4s6H3L5H2L", directory, position)
            if fields[0] != b"PK\x01\x02":
                raise self._damaged("its directory is damaged")
            method, crc, packed, unpacked = fields[4], *fields[7:10]
            name_size, extra_size, comment_size = fields[10:13]
            offset = fields[16]
            name_start = position + _ENTRY_BYTES
            extra_start = name_start + name_size
            extra = directory[extra_start : extra_start + extra_size]
            unpacked, packed, offset = _large_sizes(extra, unpacked, packed, offset)
            yield (
                directory[name_start:extra_start],
                _Entry(offset, packed, unpacked, crc, method),
            )
            position = extra_start + extra_size + comment_size

    def _find_directory(self) -> tuple[int, int, int]:
        """Offset, size and number of entries of the central directory."""
        end = self._stream.seek(0, 2)
        tail_start = max(0, end - 65557)
        self._stream.seek(tail_start)
        tail = self._stream.read()
        found = tail.rfind(b"PK\x05\x06")
        if found < 0:
            raise self._damaged("it has no directory at its end")
        count, size, start = struct.unpack_from("<H2L", tail, found + 10)
        locator = tail[max(0, found - 20) : found]
        if locator[:4] == b"PK\x06\x07":
            self._stream.seek(struct.unpack_from("<Q", locator, 8)[0])
            record = self._stream.read(56)
            if record[:4] == b"PK\x06\x06":
                count, size, start = struct.unpack_from("<3Q", record, 32)
        # Before memory is taken: the file holds what its end says.
        if start + size > end or count * _ENTRY_BYTES > size:
            raise self._damaged("its directory is longer than the file")
        return start, size, count

    def _read(self, name: str, entry: _Entry, max_bytes: int) -> bytes:
        check_size(self.path, name, entry.unpacked, max_bytes)
        check_size(self.path, name, entry.packed, self.path.stat().st_size)
        with naming_damage(self.path, f"{name} cannot be unpacked"):
            content = _read_member(self._stream, entry)
            if len(content) != entry.unpacked or zlib.crc32(content) != entry.crc:
                raise zlib.error("content does not match its checksum")
            return content

    def _damaged(self, problem: str) -> DatasetFileError:
        return DatasetFileError(
            self.path, f"not a readable zip archive: {problem}; it may be truncated."
        )


def _large_sizes(
    extra: bytes, unpacked: int, packed: int, offset: int
) -> tuple[int, int, int]:
    """Replaces the sizes that do not fit 32 bits by those of the zip64 field."""
    position = 0
    while position + 4 <= len(extra):
        kind, size = struct.unpack_from("<2H", extra, position)
        if kind == 1:
            numbers = iter(struct.unpack_from(f"<{size // 8}Q", extra, position + 4))
            full = 0xFFFFFFFF
            unpacked = next(numbers, full) if unpacked == full else unpacked
            packed = next(numbers, full) if packed == full else packed
            offset = next(numbers, full) if offset == full else offset
        position += 4 + size
    return unpacked, packed, offset


def _read_member(stream: IO[bytes], entry: _Entry) -> bytes:
    stream.seek(entry.offset)
    header = stream.read(30)
    if header[:4] != b"PK\x03\x04":
        raise zlib.error("no member where the directory says")
    name_size, extra_size = struct.unpack_from("<2H", header, 26)
    stream.seek(entry.offset + 30 + name_size + extra_size)
    packed = stream.read(entry.packed)
    if len(packed) < entry.packed:
        raise zlib.error("it ends early")
    if entry.method == _STORED:
        return packed
    if entry.method == _DEFLATED:
        # Not a byte more than promised, whatever the stream unpacks to.
        return zlib.decompressobj(-zlib.MAX_WBITS).decompress(
            packed, entry.unpacked + 1
        )
    raise zlib.error(f"compression method {entry.method} is not supported")
