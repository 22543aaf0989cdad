"""JSON files that are either whole or not there."""

import json
from pathlib import Path
from typing import Any

from qlayers.files import DamagedFileError, write_text
from qlayers.metrics.metric_result import plain


def write_json(path: Path, value: Any) -> None:
    """Writes strict JSON, atomically; NaN becomes null."""
    write_text(path, json.dumps(plain(value), indent=2, allow_nan=False) + "\n")


def read_json(path: Path) -> Any:
    """Reads JSON; a broken file is a `DamagedFileError` that names it."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise DamagedFileError(path, f"it is no JSON ({error})") from error


def read_record(path: Path) -> dict[str, Any]:
    """Reads JSON that must be an object."""
    record = read_json(path)
    if not isinstance(record, dict):
        raise DamagedFileError(path, f"expected an object, found {record!r:.50}")
    return record
