"""Writes a trained model for others: one small file and its card."""

import io
import json
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np

from models.latent_model import LatentModel
from models.pretrained import CARD_FILE, MODEL_FILE, file_checksum
from qlayers.files import write_atomically, write_text

_WEIGHTS, _METADATA = "model.weights.h5", "metadata.json"
# Data sets of fewer numbers are not worth a compression of their own.
_SMALL = 256
# A fixed date, so that the same weights give the same file.
_DATE = (1980, 1, 1, 0, 0, 0)


def save_pretrained(
    model: LatentModel,
    folder: str | os.PathLike[str],
    card: Mapping[str, Any] | None = None,
    *,
    precision: Literal["half", "single"] = "half",
) -> dict[str, Any]:
    """Writes `model.keras` and `card.json`, which `load_pretrained` reads.

    Half precision stores weights in 16 bits, where none of them overflows; a loaded
    model computes in float32 as before. Score the loaded model: rounding can move
    images that lie between two codes.

    Args:
        model: A model made by `models.build`.
        folder: Where to write; made if it is not there.
        card: What a reader should know: data, recipe, scores, licence.
            `experiments.explore` needs `method`, `dataset` and `image_size`.
        precision: How floats are stored.

    Returns:
        The card that was written: yours, with the file's size and checksum.

    Example:

    ```python
    card = models.save_pretrained(model, "published", {"licence": "CC0-1.0"})
    models.load_pretrained("published").reconstruct(images)
    ```
    """
    target = Path(folder).expanduser()
    target.mkdir(parents=True, exist_ok=True)
    file = target / MODEL_FILE

    def write(partial: Path) -> None:
        model.save(partial, include_optimizer=False)
        _pack(partial, np.float16 if precision == "half" else np.float32)

    write_atomically(file, write)
    written = {
        **(card or {}),
        "precision": precision,
        "bytes": file.stat().st_size,
        "checksum": file_checksum(file),
    }
    write_text(target / CARD_FILE, json.dumps(written, indent=2) + "\n")
    return written


def _pack(path: Path, dtype: type[np.floating[Any]]) -> None:
    """Writes a `.keras` file again: compressed, its floats in another precision."""
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    parts[_WEIGHTS] = _cast(parts[_WEIGHTS], dtype)
    parts[_METADATA] = _without_date(parts[_METADATA])
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in parts.items():
            entry = zipfile.ZipInfo(name, _DATE)
            archive.writestr(entry, content, zipfile.ZIP_DEFLATED, 9)


def _without_date(content: bytes) -> bytes:
    facts = json.loads(content)
    return json.dumps({**facts, "date_saved": None}).encode()


def _cast(content: bytes, dtype: type[np.floating[Any]]) -> bytes:
    """The HDF5 file with its floats cast, except those that would overflow."""
    import h5py

    target = io.BytesIO()
    with h5py.File(io.BytesIO(content), "r") as old, h5py.File(target, "w") as new:
        new.attrs.update(old.attrs)

        def copy(name: str, item: Any) -> None:
            if isinstance(item, h5py.Group):
                made = new.require_group(name)
            else:
                made = _compressed(new, name, _rounded(item[()], dtype))
            made.attrs.update(item.attrs)

        old.visititems(copy)
    return target.getvalue()


def _compressed(file: Any, name: str, values: Any) -> Any:
    """A data set whose bytes of equal rank lie together: a tenth less for floats."""
    if np.size(values) < _SMALL:
        return file.create_dataset(name, data=values)
    return file.create_dataset(
        name, data=values, chunks=np.shape(values), compression=9, shuffle=True
    )


def _rounded(values: Any, dtype: type[np.floating[Any]]) -> Any:
    array = np.asarray(values)
    if array.dtype.kind != "f":
        return values
    with np.errstate(over="ignore"):
        rounded = array.astype(dtype)
    lost = np.isfinite(array) & ~np.isfinite(rounded)
    return array if lost.any() else rounded
