"""From names to datasets."""

from collections.abc import Callable
from typing import Any

from qlayers.datasets.factor_dataset import FactorDataset


def _mini_shapes3d(
    image_size: int, data_dir: str | None, allow_partial: bool, **options: Any
) -> FactorDataset:
    from qlayers.datasets.mini_shapes3d import MiniShapes3D

    return MiniShapes3D(image_size, **options)


_MAKERS: dict[str, Callable[..., FactorDataset]] = {"mini_shapes3d": _mini_shapes3d}


def names() -> tuple[str, ...]:
    """Names that `load` accepts."""
    return tuple(_MAKERS)


def load(
    name: str,
    *,
    image_size: int = 64,
    data_dir: str | None = None,
    allow_partial: bool = False,
    **options: Any,
) -> FactorDataset:
    """Opens a dataset by name.

    Args:
        name: one of `names()`.
        image_size: side of the square images.
        data_dir: where prepared datasets and downloads are kept; the default of
            TensorFlow Datasets when `None`.
        allow_partial: accepts a file that holds only the first part of the grid or
            has other than the published size, for tests and samples. Otherwise that
            is an error.
        **options: further arguments of single datasets.

    Returns:
        A `FactorDataset`.

    Example:
        >>> load("mini_shapes3d").factor_sizes
        (10, 10, 10, 8, 4, 15)
    """
    if name not in _MAKERS:
        raise ValueError(
            f"Unknown dataset {name!r}; expected one of {', '.join(sorted(_MAKERS))}."
        )
    return _MAKERS[name](image_size, data_dir, allow_partial, **options)
