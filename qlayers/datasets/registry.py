"""From names to datasets."""

from typing import TYPE_CHECKING, Any

from qlayers.datasets import spaces
from qlayers.datasets.dataset_info import DatasetInfo
from qlayers.datasets.factor_space import FactorSpace

if TYPE_CHECKING:
    from qlayers.datasets.factor_dataset import FactorDataset


def _open(name: str, builder_name: str, **options: Any) -> Any:
    from qlayers.datasets.file_datasets import open_file_dataset

    return open_file_dataset(name, builder_name, **options)


def _open_png(name: str, image_size: int, **options: Any) -> Any:
    # Larger images than 64 are made from the published 128, not from 64.
    options.setdefault("variant", "images64" if image_size <= 64 else "images128")
    return _open(name, name, image_size=image_size, **options)


def _open_color_dsprites(**options: Any) -> Any:
    from qlayers.datasets.color_dsprites import ColorDsprites

    return ColorDsprites(_open("dsprites", "dsprites_factors", **options))


def _open_smallnorb(include_instance: bool = False, **options: Any) -> Any:
    from qlayers.datasets.smallnorb import Smallnorb

    toys = _open("smallnorb", "smallnorb_factors", **options)
    return toys if include_instance else Smallnorb(toys)


def _from_files(
    name: str, space: FactorSpace, loader: Any = _open, **options: str
) -> DatasetInfo:
    return DatasetInfo(
        name, space.names, loader, files=True, options={"name": name, **options}
    )


_INFOS: dict[str, DatasetInfo] = {}


def register(record: DatasetInfo, *, replace: bool = False) -> DatasetInfo:
    """Makes a dataset known to `load` and to every launcher.

    Args:
        record: Record of the dataset.
        replace: Whether a dataset of the same name may be replaced.

    Returns:
        The record.

    Example:
        >>> register(DatasetInfo("bars", ("place", "standing", "grey"), loader=Bars))
        >>> load("bars", image_size=32)
    """
    if record.name in _INFOS and not replace:
        raise ValueError(
            f"There is a dataset {record.name!r} already. Choose another name, or pass "
            "`replace=True`."
        )
    _INFOS[record.name] = record
    return record


for _record in (
    DatasetInfo(
        "mini_shapes3d",
        spaces.SHAPES3D.names,
        "qlayers.datasets.mini_shapes3d:MiniShapes3D",
        stands_for="shapes3d",
    ),
    DatasetInfo(
        "circles",
        ("x_position", "y_position"),
        "qlayers.datasets.circles:Circles",
        continuous=True,
    ),
    DatasetInfo(
        "balls",
        ("ball1_x", "ball1_y", "ball2_x", "ball2_y"),
        "qlayers.datasets.balls:Balls",
        continuous=True,
    ),
    DatasetInfo(
        "grid2d",
        ("z1", "z2"),
        "qlayers.datasets.grid2d:Grid2D",
        continuous=True,
        images=False,
    ),
    _from_files("shapes3d", spaces.SHAPES3D, builder_name="shapes3d_factors"),
    _from_files("mpi3d", spaces.MPI3D_COMPLEX, builder_name="mpi3d"),
    _from_files("falcor3d", spaces.FALCOR3D, _open_png),
    _from_files("isaac3d", spaces.ISAAC3D, _open_png),
    _from_files("dsprites", spaces.DSPRITES, builder_name="dsprites_factors"),
    DatasetInfo(
        "color_dsprites", spaces.DSPRITES.names, _open_color_dsprites, files=True
    ),
    # The toy itself (instance) is drawn at random.
    DatasetInfo(
        "smallnorb",
        tuple(name for name in spaces.SMALLNORB.names if name != "instance"),
        _open_smallnorb,
        files=True,
    ),
    _from_files("cars3d", spaces.CARS3D, builder_name="cars3d"),
    # Your own images; their table says what the factors are.
    DatasetInfo(
        "folder",
        (),
        "qlayers.datasets.own_data:load_folder",
        files=True,
        own_images=True,
    ),
):
    register(_record)


def names() -> tuple[str, ...]:
    """Names that `load` accepts."""
    return tuple(_INFOS)


def info(name: str) -> DatasetInfo:
    """Facts about a dataset, without opening it.

    Args:
        name: One of `names()`.

    Example:
        >>> info("isaac3d").num_factors
        9
    """
    if name not in _INFOS:
        raise ValueError(
            f"Unknown dataset {name!r}; expected one of {', '.join(sorted(names()))}."
        )
    return _INFOS[name]


def load(
    name: str,
    *,
    image_size: int = 64,
    data_dir: str | None = None,
    allow_partial: bool = False,
    **options: Any,
) -> "FactorDataset":
    """Opens a dataset by name.

    `mini_shapes3d`, `circles`, `balls` and `grid2d` are generated and need no file.
    `folder` is a folder of your own images, see `from_folder`. The others are
    downloaded, or read from a file that you have downloaded, and prepared with
    TensorFlow Datasets the first time.

    Args:
        name: One of `names()`.
        image_size: Side of the square images; `grid2d` has none and ignores it.
        data_dir: Where prepared datasets and downloads are kept; the default of
            TensorFlow Datasets when `None`. For `folder`: the folder of images.
        allow_partial: Accepts a file that holds only the first part of the grid or
            has other than the published size, for tests and samples. Otherwise that
            is an error.
        **options: Further arguments of single datasets: `manual_dir`, `file` and
            `variant` for those from files (variants of `mpi3d`: "complex", "toy",
            "realistic", "real"), `include_instance` for `smallnorb`, `labels`, `fit`,
            `channels` and `on_bad_image` for `folder`, and the constructor arguments of
            the generated ones.

    Returns:
        A `FactorDataset`.

    Example:
        >>> load("mini_shapes3d").factor_sizes
        (10, 10, 10, 8, 4, 15)
        >>> load("mpi3d", data_dir="/data", manual_dir="/downloads", variant="toy")
    """
    files = {"data_dir": data_dir, "allow_partial": allow_partial}
    return info(name).load(image_size, files, **options)
