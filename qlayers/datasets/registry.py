"""From names to datasets."""

from collections.abc import Callable
from typing import Any

from qlayers.datasets.factor_dataset import FactorDataset


def _mini_shapes3d(image_size: int, **options: Any) -> FactorDataset:
    from qlayers.datasets.mini_shapes3d import MiniShapes3D

    return MiniShapes3D(image_size, **options)


def _circles(image_size: int, **options: Any) -> FactorDataset:
    from qlayers.datasets.circles import Circles

    return Circles(image_size, **options)


def _balls(image_size: int, **options: Any) -> FactorDataset:
    from qlayers.datasets.balls import Balls

    return Balls(image_size, **options)


def _grid2d(image_size: int, **options: Any) -> FactorDataset:
    from qlayers.datasets.grid2d import Grid2D

    return Grid2D(**options)


def _from_file(name: str, builder_name: str, **options: Any) -> Any:
    from qlayers.datasets.file_datasets import open_file_dataset

    return open_file_dataset(name, builder_name, **options)


def _shapes3d(**options: Any) -> FactorDataset:
    return _from_file("shapes3d", "shapes3d_factors", **options)


def _mpi3d(**options: Any) -> FactorDataset:
    return _from_file("mpi3d", "mpi3d", **options)


def _falcor3d(image_size: int, **options: Any) -> FactorDataset:
    options.setdefault("variant", _png_variant(image_size))
    return _from_file("falcor3d", "falcor3d", image_size=image_size, **options)


def _isaac3d(image_size: int, **options: Any) -> FactorDataset:
    options.setdefault("variant", _png_variant(image_size))
    return _from_file("isaac3d", "isaac3d", image_size=image_size, **options)


def _png_variant(image_size: int) -> str:
    """Larger images than 64 are made from the published 128, not from 64."""
    return "images64" if image_size <= 64 else "images128"


def _dsprites(**options: Any) -> FactorDataset:
    return _from_file("dsprites", "dsprites_factors", **options)


def _color_dsprites(**options: Any) -> FactorDataset:
    from qlayers.datasets.color_dsprites import ColorDsprites

    return ColorDsprites(_from_file("dsprites", "dsprites_factors", **options))


def _smallnorb(include_instance: bool = False, **options: Any) -> FactorDataset:
    from qlayers.datasets.smallnorb import Smallnorb

    toys = _from_file("smallnorb", "smallnorb_factors", **options)
    return toys if include_instance else Smallnorb(toys)


def _cars3d(**options: Any) -> FactorDataset:
    return _from_file("cars3d", "cars3d", **options)


_GENERATED: dict[str, Callable[..., FactorDataset]] = {
    "mini_shapes3d": _mini_shapes3d,
    "circles": _circles,
    "balls": _balls,
    "grid2d": _grid2d,
}

_FROM_FILES: dict[str, Callable[..., FactorDataset]] = {
    "shapes3d": _shapes3d,
    "mpi3d": _mpi3d,
    "falcor3d": _falcor3d,
    "isaac3d": _isaac3d,
    "dsprites": _dsprites,
    "color_dsprites": _color_dsprites,
    "smallnorb": _smallnorb,
    "cars3d": _cars3d,
}


def names() -> tuple[str, ...]:
    """Names that `load` accepts."""
    return (*_GENERATED, *_FROM_FILES)


def load(
    name: str,
    *,
    image_size: int = 64,
    data_dir: str | None = None,
    allow_partial: bool = False,
    **options: Any,
) -> FactorDataset:
    """Opens a dataset by name.

    `mini_shapes3d`, `circles`, `balls` and `grid2d` are generated and need no file.
    The others are downloaded, or read from a file that you have downloaded, and
    prepared with TensorFlow Datasets the first time.

    Args:
        name: one of `names()`.
        image_size: side of the square images; `grid2d` has none and ignores it.
        data_dir: where prepared datasets and downloads are kept; the default of
            TensorFlow Datasets when `None`.
        allow_partial: accepts a file that holds only the first part of the grid or
            has other than the published size, for tests and samples. Otherwise that
            is an error.
        **options: further arguments of single datasets: `manual_dir`, `file` and
            `variant` for those from files (variants of `mpi3d`: "complex", "toy",
            "realistic", "real"), `include_instance` for `smallnorb`, and the
            constructor arguments of the generated ones.

    Returns:
        A `FactorDataset`.

    Example:
        >>> load("mini_shapes3d").factor_sizes
        (10, 10, 10, 8, 4, 15)
        >>> load("mpi3d", data_dir="/data", manual_dir="/downloads", variant="toy")
    """
    if name in _GENERATED:
        return _GENERATED[name](image_size=image_size, **options)
    if name in _FROM_FILES:
        return _FROM_FILES[name](
            image_size=image_size,
            data_dir=data_dir,
            allow_partial=allow_partial,
            **options,
        )
    raise ValueError(
        f"Unknown dataset {name!r}; expected one of {', '.join(sorted(names()))}."
    )
