"""Your own images as a dataset: arrays, or a folder with a table."""

import csv
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from qlayers.datasets.factor_columns import code_columns
from qlayers.datasets.image_files import Fit, check_fit, read_picture
from qlayers.datasets.readers import DatasetFileError, naming_damage
from qlayers.datasets.table_dataset import TableDataset

OnBadImage = Literal["error", "skip"]

DEFAULT_TABLE = "labels.csv"
_FILE_COLUMNS = ("file", "filename", "file_name", "image", "path")
_SHOWN_NAMES = 5


def from_arrays(
    images: npt.ArrayLike,
    sources: Any = None,
    names: Sequence[str] | None = None,
    *,
    name: str = "arrays",
) -> TableDataset:
    """A dataset of images that are in memory.

    Args:
        images: (n, height, width) or (n, height, width, channels), with 1 or 3
            channels: Bytes, or numbers in [0, 1], which are rounded to bytes.
        sources: What made each image, (n, factors): integers, other numbers or words.
            `None` for images without labels. Numbers with more than 64 different values
            in a column are cut into 10 bins of nearly equal counts.
        names: Names of the factors.
        name: A name for messages.

    Returns:
        A `TableDataset`, which is a `FactorDataset`. Not every combination of factors
        needs an image.

    Example:
        >>> images = np.random.default_rng(0).integers(0, 256, (6, 32, 32, 3), np.uint8)
        >>> kinds = [["cat"], ["dog"], ["cat"], ["dog"], ["cat"], ["cow"]]
        >>> dataset = from_arrays(images, kinds, names=["species"])
        >>> dataset.factor_sizes
        (3,)
    """
    pixels = _as_bytes(np.asarray(images))
    if sources is None:
        if names:
            raise ValueError(f"`names` need `sources`; received names={list(names)}.")
        return TableDataset(name, pixels)
    # As objects: among words NumPy would make a missing label the word "nan".
    table = np.asarray(sources, None if hasattr(sources, "dtype") else object)
    if table.ndim != 2 or len(table) != len(pixels) or not table.shape[1]:
        raise ValueError(
            f"`sources` must have shape ({len(pixels)}, factors), one row an image; "
            f"received shape {table.shape}."
        )
    chosen = list(names or (f"factor_{i}" for i in range(table.shape[1])))
    if len(chosen) != table.shape[1]:
        raise ValueError(
            f"`names` must name the {table.shape[1]} columns of `sources`, received "
            f"{chosen}."
        )
    ranks, space = code_columns(list(table.T), chosen)
    return TableDataset(name, pixels, ranks, space)


def from_folder(
    folder: str | Path,
    table: str | Path | None = DEFAULT_TABLE,
    *,
    image_size: int = 64,
    fit: Fit = "crop",
    channels: int = 3,
    on_bad_image: OnBadImage = "error",
) -> TableDataset:
    """A dataset of the pictures in a folder.

    The table is a CSV file whose first line names its columns: one called `file` with
    paths inside the folder, and one for each factor, of words or numbers. Only pictures
    in the table are used. Without a table all pictures below the folder are used, and
    have no labels.

    All pictures are read, made square and kept in memory: 12 kB each at 64x64.

    Args:
        folder: The folder.
        table: The table, in the folder or elsewhere. `labels.csv` need not exist; any
            other name must. `None` uses no labels.
        image_size: Side of the images.
        fit: How other shapes become square: "crop" cuts off what is beyond the middle
            square, "pad" adds black borders, "stretch" changes the proportions.
        channels: 3 for colours, 1 for grey.
        on_bad_image: "error" refuses the folder if a picture cannot be read, "skip"
            leaves it out and says so.

    Returns:
        A `TableDataset`, which is a `FactorDataset`; `skipped` names what was left out.

    Example:
        >>> dataset = from_folder("photos", table="labels.csv", on_bad_image="skip")
        >>> dataset.factor_names
    """
    root = Path(folder).expanduser()
    _check_arguments(root, image_size, fit, channels, on_bad_image)
    found = _find_table(root, table)
    names: list[str] = []
    if found is None:
        paths, rows = _pictures_below(root), None
    else:
        paths, names, rows = _read_table(root, found)
    images, kept, skipped = _read_all(
        paths, on_bad_image, size=image_size, fit=fit, channels=channels
    )
    if not names or rows is None:
        return TableDataset(root.name, images, skipped=skipped)
    columns = [[rows[i][j] for i in kept] for j in range(len(names))]
    ranks, space = code_columns(columns, names)
    return TableDataset(root.name, images, ranks, space, skipped)


def load_folder(
    image_size: int,
    data_dir: str | None,
    allow_partial: bool = False,
    labels: str | None = DEFAULT_TABLE,
    **options: Any,
) -> TableDataset:
    """`from_folder` as `load("folder", data_dir=...)` calls it."""
    if not data_dir:
        raise ValueError("The dataset `folder` needs `data_dir`, the folder of images.")
    return from_folder(data_dir, labels, image_size=image_size, **options)


def _as_bytes(images: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    if images.ndim == 3:
        images = images[..., None]
    if images.ndim != 4 or images.shape[-1] not in (1, 3) or 0 in images.shape:
        raise ValueError(
            "`images` must have shape (n, height, width) or (n, height, width, 1 or "
            f"3), received shape {images.shape}."
        )
    if images.dtype == np.uint8:
        return images
    if not np.issubdtype(images.dtype, np.floating):
        raise ValueError(f"`images` must be uint8 or real, received {images.dtype}.")
    if not (images.min() >= 0 and images.max() <= 1):
        raise ValueError(
            "Real `images` must be in [0, 1], received "
            f"{images.min():g} to {images.max():g}."
        )
    return np.rint(images * 255).astype(np.uint8)


def _check_arguments(
    root: Path, image_size: int, fit: str, channels: int, on_bad_image: str
) -> None:
    if not root.is_dir():
        raise DatasetFileError(
            root, "there is no such folder.", "Name the folder of your images."
        )
    if image_size < 4:
        raise ValueError(f"`image_size` must be at least 4, received {image_size}.")
    check_fit(fit)
    if channels not in (1, 3):
        raise ValueError(f"`channels` must be 1 or 3, received {channels}.")
    if on_bad_image not in ("error", "skip"):
        raise ValueError(
            f"`on_bad_image` must be 'error' or 'skip', received {on_bad_image!r}."
        )


def _find_table(root: Path, table: str | Path | None) -> Path | None:
    if table is None:
        return None
    for path in (root / table, Path(table).expanduser()):
        if path.is_file():
            return path
    if str(table) == DEFAULT_TABLE:
        return None
    raise DatasetFileError(
        root / table, "there is no such file.", "Name the table of labels."
    )


def _pictures_below(root: Path) -> list[Path]:
    from PIL import Image

    endings = set(Image.registered_extensions())
    paths = sorted(
        path
        for path in root.rglob("*")
        if path.suffix.lower() in endings and path.is_file()
    )
    if not paths:
        raise DatasetFileError(
            root,
            "there is no picture in this folder or below it.",
            "Name the folder of your images.",
        )
    return paths


def _read_table(root: Path, path: Path) -> tuple[list[Path], list[str], list[Any]]:
    """Paths of the pictures, names of the factors and the cells of the factors."""
    with (
        naming_damage(path, "not a readable table"),
        path.open(newline="", encoding="utf-8-sig") as stream,
    ):
        lines = [
            (number, [cell.strip() for cell in line])
            for number, line in enumerate(csv.reader(stream), start=1)
            if any(cell.strip() for cell in line)
        ]
    header = lines[0][1] if lines else []
    lowered = [name.lower() for name in header]
    column = next((lowered.index(n) for n in _FILE_COLUMNS if n in lowered), None)
    if column is None or len(set(header)) != len(header) or "" in header:
        raise _bad_table(
            path,
            "its first line must name the columns, one of them 'file'; it has "
            f"{header[:10]}.",
        )
    if len(lines) < 2:
        raise _bad_table(path, "it lists no pictures.")
    names = [name for i, name in enumerate(header) if i != column]
    paths, rows = [], []
    for number, cells in lines[1:]:
        if len(cells) != len(header) or "" in cells:
            raise _bad_table(
                path, f"line {number} has a missing or an extra cell: {cells}."
            )
        paths.append(_inside(root, path, cells[column]))
        rows.append([cell for i, cell in enumerate(cells) if i != column])
    return paths, names, rows


def _inside(root: Path, table: Path, name: str) -> Path:
    path = root / name
    if not path.resolve().is_relative_to(root.resolve()):
        raise _bad_table(table, f"it names {name!r}, which is outside of {root}.")
    return path


def _bad_table(path: Path, problem: str) -> DatasetFileError:
    return DatasetFileError(path, problem, "Mend the table.")


def _read_all(
    paths: Sequence[Path], on_bad_image: str, **settings: Any
) -> tuple[npt.NDArray[np.uint8], list[int], tuple[str, ...]]:
    """Images, positions of those that could be read, and names of the others."""
    size, channels = settings["size"], settings["channels"]
    images = np.empty((len(paths), size, size, channels), np.uint8)
    kept: list[int] = []
    skipped: list[str] = []
    for number, path in enumerate(paths):
        try:
            images[len(kept)] = read_picture(path, **settings)
            kept.append(number)
        except DatasetFileError as error:
            if on_bad_image == "error":
                reason = " ".join(str(error.__cause__ or error).split())
                raise DatasetFileError(
                    path,
                    f"cannot be read as an image ({reason}).",
                    "Remove it, or choose on_bad_image='skip'.",
                ) from error
            skipped.append(str(path))
    if not kept:
        raise DatasetFileError(
            paths[0].parent, "none of its pictures can be read.", "Look at the files."
        )
    if skipped:
        _tell_skipped(skipped, len(paths))
    return images[: len(kept)], kept, tuple(skipped)


def _tell_skipped(skipped: Sequence[str], count: int) -> None:
    shown = ", ".join(skipped[:_SHOWN_NAMES])
    more = ", ..." if len(skipped) > _SHOWN_NAMES else ""
    print(
        f"Left out {len(skipped)} of {count} pictures that cannot be read: "
        f"{shown}{more}",
        file=sys.stderr,
    )
