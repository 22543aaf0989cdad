"""A table that grows: one JSON object a line, cut back when a run resumes."""

import contextlib
import json
import os
from pathlib import Path
from typing import Any

from qlayers.files import naming, write_text
from qlayers.metrics.metric_result import plain


class StepTable:
    """Rows with a `step`, appended during training.

    Rows that cannot be written stay in memory and are tried again with the next one.

    Args:
        path: The file, made at the first row.

    Example:

    ```python
    rows = StepTable(Path("history.jsonl"))
    rows.append({"step": 100, "loss": 0.5})
    rows.cut_after(100)
    ```
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._waiting = b""

    def append(self, row: dict[str, Any]) -> None:
        """Adds a row at the end, now or when there is room."""
        line = json.dumps(plain(row), allow_nan=False) + "\n"
        self._waiting += line.encode()
        with contextlib.suppress(OSError):  # `flush` says it before a checkpoint
            self.flush()

    def flush(self) -> None:
        """Writes the rows that wait, all or none.

        Raises:
            OSError: There is no room; the error names the file.
        """
        if not self._waiting:
            return
        try:
            _append(self.path, self._waiting)
        except OSError as error:
            raise naming(self.path, error) from error
        self._waiting = b""

    def read(self) -> list[dict[str, Any]]:
        """All whole rows; a last line that a crash cut off is left out."""
        if not self.path.exists():
            return []
        rows: list[dict[str, Any]] = []
        for line in self.path.read_bytes().splitlines():
            try:
                row = json.loads(line)
            except (ValueError, RecursionError):
                break
            if not isinstance(row, dict) or not isinstance(row.get("step"), int):
                break
            rows.append(row)
        return rows

    def cut_after(self, step: int) -> None:
        """Drops rows of later steps than `step`, which will be made again."""
        if not self.path.exists():
            return
        kept = [row for row in self.read() if row["step"] <= step]
        text = "".join(json.dumps(row, allow_nan=False) + "\n" for row in kept)
        write_text(self.path, text)

    def sync(self) -> None:
        """Forces what was appended to disk."""
        if self.path.exists():
            with open(self.path, "rb+") as file:
                os.fsync(file.fileno())


def _append(path: Path, content: bytes) -> None:
    """Adds bytes to a file; if that fails, the file is as before."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        end, written = os.fstat(file).st_size, 0
        try:
            while written < len(content):
                written += os.write(file, content[written:])
        except OSError:
            os.ftruncate(file, end)
            raise
    finally:
        os.close(file)
