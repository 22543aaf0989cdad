"""Shapes3D with sources and image numbers."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from qlayers.datasets.builders.factor_config import FactorConfig
from qlayers.datasets.builders.factor_grid_builder import Chunk, FactorGridBuilder
from qlayers.datasets.builders.row_checks import (
    check_rows,
    check_same_length,
    label_ranks,
)
from qlayers.datasets.readers import Hdf5Rows
from qlayers.datasets.spaces import SHAPES3D, SHAPES3D_VALUES

_ROWS = 512


class Builder(FactorGridBuilder):
    """Reads `3dshapes.h5` in chunks.

    TFDS ships a builder `shapes3d`, which loads the file whole (5.9 GB) and stores
    neither image numbers nor the order of the factors; hence this one. What the other
    has prepared is still understood, see `qlayers.datasets.load`.
    """

    HOMEPAGE = "https://github.com/deepmind/3d-shapes"
    HAS_DIRECT_DOWNLOAD = True
    LICENCE = "Apache-2.0"
    BYTES_PER_IMAGE = 3800
    MILLISECONDS_PER_IMAGE = 0.9
    BUILDER_CONFIGS = [  # noqa: RUF012
        FactorConfig(
            name="full",
            description="All 480,000 images.",
            space=SHAPES3D,
            file_name="3dshapes.h5",
            url="https://storage.googleapis.com/3d-shapes/3dshapes.h5",
            num_bytes=267_573_662,
            sha256="0a0f6ed98baff276a50f3a081a7434d788da63cb135a98189b2a5b5769be1785",
        )
    ]

    def _chunks(self, source: Path) -> Iterator[Chunk]:
        images = Hdf5Rows(source, "images")
        labels = Hdf5Rows(source, "labels")
        check_rows(images, self.builder_config.image_shape, self.space)
        check_rows(labels, (self.space.num_factors,), self.space, np.floating)
        check_same_length(images, labels)
        values = labels.read(max_bytes=self.space.num_combinations * 6 * 8)
        ranks = label_ranks(source, values, SHAPES3D_VALUES)
        first = 0
        for pictures in images.chunks(_ROWS):
            index = np.arange(first, first + len(pictures))
            yield index, list(pictures), ranks[index]
            first += len(pictures)
