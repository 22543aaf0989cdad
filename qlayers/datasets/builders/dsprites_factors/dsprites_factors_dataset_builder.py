"""dSprites with sources and image numbers."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from qlayers.datasets.builders.factor_config import FactorConfig
from qlayers.datasets.builders.factor_grid_builder import Chunk, FactorGridBuilder
from qlayers.datasets.builders.row_checks import check_rows, check_same_length
from qlayers.datasets.factor_space import FactorSpace, IntArray
from qlayers.datasets.readers import DatasetFileError, Hdf5Rows, NpzRows
from qlayers.datasets.spaces import DSPRITES

_ROWS = 4096
_FILE_NAME = "dsprites_ndarray_co1sh3sc6or40x32y32_64x64.hdf5"


class Builder(FactorGridBuilder):
    """Reads the HDF5 file.

    A partial file, given as `file`, may also be the .npz twin or a complete sub-grid
    with fewer values per factor.
    """

    HOMEPAGE = "https://github.com/deepmind/dsprites-dataset"
    HAS_DIRECT_DOWNLOAD = True
    LICENCE = "Apache-2.0"
    BYTES_PER_IMAGE = 400
    MILLISECONDS_PER_IMAGE = 0.3
    BUILDER_CONFIGS = [  # noqa: RUF012
        FactorConfig(
            name="full",
            description="All 737,280 images.",
            space=DSPRITES,
            image_shape=(64, 64, 1),
            file_name=_FILE_NAME,
            url=(
                "https://github.com/deepmind/dsprites-dataset/blob/master/"
                f"{_FILE_NAME}?raw=true"
            ),
            num_bytes=28_024_106,
            sha256="729fa22e884c9c500e1f17415d580746b4c5894fbbb780a1319bbcfa39a745bb",
        )
    ]

    def __init__(self, *, config: Any = None, **kwargs: Any) -> None:
        if isinstance(config, FactorConfig) and config.partial and config.file:
            # The number of values decides the features, so it must be known first.
            path = Path(config.file)
            space = _sub_grid(path, _open(path)[1])
            config = dataclasses.replace(config, space=space)
        super().__init__(config=config, **kwargs)

    def _chunks(self, source: Path) -> Iterator[Chunk]:
        images, classes = _open(source)
        check_rows(images, (64, 64), self.space)
        check_same_length(images, classes)
        ranks = _ranks(classes)
        first = 0
        for pictures in images.chunks(_ROWS):
            if pictures.max() > 1:
                raise DatasetFileError(source, "pixels are neither 0 nor 1.")
            index = np.arange(first, first + len(pictures))
            shown = list(pictures[..., None] * np.uint8(255))
            yield index, shown, ranks[index]
            first += len(pictures)


def _open(path: Path) -> tuple[Any, Any]:
    """Images and classes of either file format."""
    reader: Any = NpzRows if path.suffix == ".npz" else Hdf5Rows
    images = reader(path, "imgs")
    classes = reader(
        path, "latents_classes" if reader is NpzRows else "latents/classes"
    )
    columns = classes.shape[1] if len(classes.shape) == 2 else 0
    if columns not in (5, 6) or not np.issubdtype(classes.dtype, np.integer):
        raise DatasetFileError(
            path,
            f"{classes.key!r} has shape {classes.shape} and dtype {classes.dtype}, "
            "expected (n, 6) integers: this is another file.",
        )
    return images, classes


def _ranks(classes: Any) -> IntArray:
    """Value indices (n, 5), without the colour, of which there is only one."""
    # Six columns of eight bytes, as published.
    table = classes.read(max_bytes=DSPRITES.num_combinations * 6 * 8)
    return table[:, -5:].astype(np.int64)


def _sub_grid(path: Path, classes: Any) -> FactorSpace:
    """The factors of a file that may hold fewer values of each."""
    ranks = _ranks(classes)
    if not len(ranks) or np.any((ranks < 0) | (ranks >= DSPRITES.sizes)):
        raise DatasetFileError(
            path,
            f"its classes are none, or outside the sizes {DSPRITES.sizes}: this is "
            "another file.",
        )
    sizes = tuple(int(size) for size in ranks.max(axis=0) + 1)
    if len(ranks) <= np.prod(sizes) and sizes != DSPRITES.sizes:
        if len(ranks) < np.prod(sizes):
            raise DatasetFileError(
                path,
                f"{len(ranks)} images do not fill a grid of {sizes}.",
                "Use the published file or a complete sub-grid.",
            )
        return FactorSpace(DSPRITES.names, sizes)
    return DSPRITES
