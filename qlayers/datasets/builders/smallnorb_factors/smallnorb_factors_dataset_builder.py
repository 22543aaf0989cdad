"""SmallNORB as one grid of factors."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from qlayers.datasets.builders.factor_config import FactorConfig
from qlayers.datasets.builders.factor_grid_builder import Chunk, FactorGridBuilder
from qlayers.datasets.factor_space import FactorSpace, IntArray
from qlayers.datasets.readers import DatasetFileError, read_norb_matrix
from qlayers.datasets.resize import resize_bytes
from qlayers.datasets.spaces import SMALLNORB

_ROWS = 512
_FOLDER = "https://cs.nyu.edu/~ylclab/data/norb-v1.0-small/"
_STEMS = (
    "smallnorb-5x46789x9x18x6x2x96x96-training",
    "smallnorb-5x01235x9x18x6x2x96x96-testing",
)
_PARTS = ("dat", "cat", "info")
# Each file holds half of the toys; stereo pairs of 96x96 pixels.
_MAX_ROWS = 24_300
_MAX_PICTURE_BYTES = _MAX_ROWS * 2 * 96 * 96
_MAX_LABEL_BYTES = _MAX_ROWS * 4 * 4


class Builder(FactorGridBuilder):
    """Joins the training and test files, which hold different toys.

    Together they fill the grid of categories, toys, elevations, azimuths and lights.
    Only the first camera's picture is kept, resized from 96 to 64 pixels, as in
    Locatello et al. 2019. A given file stands for the six in its folder.
    """

    HOMEPAGE = _FOLDER
    HAS_DIRECT_DOWNLOAD = True
    LICENCE = "for research, with citation"
    BYTES_PER_IMAGE = 2600
    MILLISECONDS_PER_IMAGE = 0.9
    BUILDER_CONFIGS = [  # noqa: RUF012
        FactorConfig(
            name="full",
            description="Training and test images, 48,600 together.",
            space=SMALLNORB,
            image_shape=(64, 64, 1),
            file_name=f"{_STEMS[0]}-dat.mat.gz",
            url=_FOLDER,
            num_bytes=262_778_180,
            has_checksums=True,
        )
    ]

    @classmethod
    def published_files(cls, config: FactorConfig) -> dict[str, tuple[str, str]]:
        names = {f"{s}-{p}": f"{s}-{p}.mat.gz" for s in _STEMS for p in _PARTS}
        return {key: (name, _FOLDER + name) for key, name in names.items()}

    def _chunks(self, source: dict[str, Path]) -> Iterator[Chunk]:
        for stem in _STEMS:
            paths = {part: source[f"{stem}-{part}"] for part in _PARTS}
            pictures = read_norb_matrix(paths["dat"], _MAX_PICTURE_BYTES)
            sources = _sources(paths, self.space)
            if pictures.shape != (len(sources), 2, 96, 96) or pictures.dtype != "u1":
                raise DatasetFileError(
                    paths["dat"],
                    f"has shape {pictures.shape} and dtype {pictures.dtype}, expected "
                    f"({len(sources)}, 2, 96, 96) uint8 as its labels say.",
                )
            for first in range(0, len(sources), _ROWS):
                rows = slice(first, first + _ROWS)
                shown = resize_bytes(pictures[rows, 0, :, :, None], 64)
                yield self.space.index_of(sources[rows]), list(shown), sources[rows]


def _sources(paths: dict[str, Path], space: FactorSpace) -> IntArray:
    """Category, toy, elevation, azimuth and lighting of every picture."""
    category = read_norb_matrix(paths["cat"], _MAX_LABEL_BYTES)
    info = read_norb_matrix(paths["info"], _MAX_LABEL_BYTES)
    for path, array in ((paths["cat"], category), (paths["info"], info)):
        if not np.issubdtype(array.dtype, np.integer):
            raise DatasetFileError(path, f"has dtype {array.dtype}, expected integers.")
    if category.ndim != 1 or info.shape != (len(category), 4):
        raise DatasetFileError(
            paths["info"],
            f"has shape {info.shape}, expected ({category.shape[0]}, 4) as in "
            f"{paths['cat']}; the labels must agree.",
        )
    toy, elevation, azimuth, lighting = info.T
    sources = np.stack([category, toy, elevation, azimuth // 2, lighting], axis=1)
    if np.any(azimuth % 2) or np.any((sources < 0) | (sources >= space.sizes)):
        raise DatasetFileError(
            paths["info"],
            "holds labels outside the published ranges (azimuths are even numbers up "
            "to 34): this is another file.",
        )
    return sources.astype(np.int64)
