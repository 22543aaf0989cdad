"""Cars3D: 183 car models from 96 views."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from qlayers.datasets.builders.factor_config import FactorConfig
from qlayers.datasets.builders.factor_grid_builder import Chunk, FactorGridBuilder
from qlayers.datasets.factor_space import FactorSpace
from qlayers.datasets.readers import CarsArchive, DatasetFileError
from qlayers.datasets.resize import resize_bytes
from qlayers.datasets.spaces import CARS3D


class Builder(FactorGridBuilder):
    """Reads the archive one car at a time and resizes from 128 to 64 pixels."""

    HOMEPAGE = "http://www.scottreed.info/"
    HAS_DIRECT_DOWNLOAD = True
    LICENCE = "not stated by its authors"
    BYTES_PER_IMAGE = 6500
    MILLISECONDS_PER_IMAGE = 1.5
    BUILDER_CONFIGS = [  # noqa: RUF012
        FactorConfig(
            name="full",
            description="All 17,568 images.",
            space=CARS3D,
            file_name="nips2015-analogy-data.tar.gz",
            url="http://www.scottreed.info/files/nips2015-analogy-data.tar.gz",
            md5="4e866a7919c1beedf53964e6f7a23686",
        )
    ]

    def __init__(self, *, config: Any = None, **kwargs: Any) -> None:
        if isinstance(config, FactorConfig) and config.partial and config.file:
            # Fewer cars make a smaller grid, and its size decides the features.
            cars = len(CarsArchive(config.file))
            space = FactorSpace(CARS3D.names, (*CARS3D.sizes[:2], cars))
            config = dataclasses.replace(config, space=space)
        super().__init__(config=config, **kwargs)

    def _chunks(self, source: Path) -> Iterator[Chunk]:
        archive = CarsArchive(source)
        if len(archive) != self.space.sizes[2]:
            raise DatasetFileError(
                source,
                f"lists {len(archive)} cars, the published archive "
                f"{self.space.sizes[2]}: this is another archive.",
            )
        for car, views in archive.cars():
            elevations, azimuths = views.shape[:2]
            angles = np.indices((elevations, azimuths)).reshape(2, -1)
            sources = np.column_stack([*angles, np.full(angles.shape[1], car)])
            images = resize_bytes(views.reshape(-1, *views.shape[2:]), 64)
            yield self.space.index_of(sources), list(images), sources
