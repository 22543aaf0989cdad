"""A table that grows: one JSON object a line, cut back when a run resumes."""

import json
import os
from pathlib import Path
from typing import Any

from qlayers.files import write_text
from qlayers.metrics.metric_result import plain


class StepTable:
    """Rows with a `step`, appended during training.

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

    def append(self, row: dict[str, Any]) -> None:
        """Adds a row at the end."""
        line = json.dumps(plain(row), allow_nan=False) + "\n"
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(line)

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
