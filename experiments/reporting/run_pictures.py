"""Pictures of a run's folder, and of no other place."""

import base64
from pathlib import Path
from typing import Any

from experiments.storage.files import read_json
from experiments.storage.run_directory import RunDirectory

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_LARGEST = 16 * 2**20
_MOST = {"side": 1024, "latents": 4096, "steps": 4096}


def picture_uri(directory: RunDirectory, name: Any) -> str | None:
    """A PNG file of a run's `pictures` as text for a page.

    A run's files may come from anyone: a name that leads out of the folder, through
    `..` or a link, and a file that is no PNG give None.

    Args:
        directory: Folder of the run.
        name: Name of the file.

    Example:

    ```python
    picture_uri(RunDirectory("runs/qlae-0"), "base-0.png")  # "data:image/png;..."
    ```
    """
    if not isinstance(name, str) or Path(name).name != name or "\0" in name:
        return None
    path = (directory.pictures / name).resolve()
    inside = path.is_relative_to(directory.path.resolve())
    if not inside or not path.is_file() or path.stat().st_size > _LARGEST:
        return None
    content = path.read_bytes()
    if not content.startswith(_SIGNATURE):
        return None
    return "data:image/png;base64," + base64.b64encode(content).decode("ascii")


def read_index(directory: RunDirectory) -> dict[str, Any] | None:
    """What `pictures/index.json` says; None without one or if it makes no sense.

    Args:
        directory: Folder of the run.

    Example:

    ```python
    index = read_index(RunDirectory("runs/qlae-0"))
    ```
    """
    path = (directory.pictures / "index.json").resolve()
    if not path.is_relative_to(directory.path.resolve()) or not path.is_file():
        return None
    try:
        return _checked(read_json(path))
    except (KeyError, TypeError, ValueError):
        return None


def _checked(index: Any) -> dict[str, Any]:
    sizes = {name: _count(index[name], most) for name, most in _MOST.items()}
    latents, steps = sizes["latents"], sizes["steps"]
    values = index.get("values", [steps] * latents)
    sprites = [[str(name) for name in pair] for pair in index["sprites"]]
    codes = [[_count(k, steps, 0) for k in row] for row in index["codes"]]
    rows = [[_count(value, steps) for value in values], *codes]
    if any(len(row) != latents for row in rows) or len(codes) != len(sprites):
        raise ValueError("index.json contradicts itself.")
    if any(len(pair) != 2 for pair in sprites):
        raise ValueError("A base image has one sprite.")
    return {
        **sizes,
        "values": rows[0],
        "codes": codes,
        "sprites": sprites,
        "frequencies": _shares(index.get("frequencies"), latents),
        "sources": [str(name) for name in index.get("sources", [])],
    }


def _shares(rows: Any, latents: int) -> list[list[float]] | None:
    if rows is None:
        return None
    checked = [[float(share) for share in row] for row in rows]
    if len(checked) != latents or not all(checked):
        raise ValueError("index.json has shares of other latents.")
    return checked


def _count(value: Any, most: int, least: int = 1) -> int:
    if not isinstance(value, int) or not least <= value <= most:
        raise ValueError(f"{value!r} is not between {least} and {most}.")
    return value
