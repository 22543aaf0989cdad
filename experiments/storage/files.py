"""JSON files that are either whole or not there."""

import json
from pathlib import Path
from typing import Any

from qlayers.files import write_text
from qlayers.metrics.metric_result import plain


def write_json(path: Path, value: Any) -> None:
    """Writes strict JSON, atomically; NaN becomes null."""
    write_text(path, json.dumps(plain(value), indent=2, allow_nan=False) + "\n")


def read_json(path: Path) -> Any:
    """Reads JSON; a broken file is an error that names it."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not readable JSON: {error}.") from error
