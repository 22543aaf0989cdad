"""What the builders of the two NVIDIA sets share."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from qlayers.datasets.builders.factor_config import FactorConfig
from qlayers.datasets.builders.factor_grid_builder import Chunk, FactorGridBuilder
from qlayers.datasets.builders.row_checks import label_ranks
from qlayers.datasets.factor_space import FactorSpace
from qlayers.datasets.readers import DatasetFileError, PngArchive, naming_damage
from qlayers.datasets.resize import resize_bytes

_ROWS = 64
_LABEL_ROWS = 4096
_PUBLISHED_SIZE = 128


def png_grid_configs(
    space: FactorSpace, file_name: str, url: str, num_bytes: int
) -> list[FactorConfig]:
    """The two variants: as the papers use it, and as published."""
    published = {"file_name": file_name, "url": url, "num_bytes": num_bytes}
    return [
        FactorConfig(
            name="images64",
            description="Resized to 64x64 by antialiased bicubic interpolation.",
            space=space,
            image_shape=(64, 64, 3),
            **published,  # type: ignore[arg-type]
        ),
        FactorConfig(
            name="images128",
            description="128x128, as published.",
            space=space,
            image_shape=(128, 128, 3),
            **published,  # type: ignore[arg-type]
        ),
    ]


class PngGridBuilder(  # type: ignore[call-arg]
    FactorGridBuilder, skip_registration=True
):
    """Reads zip archives of PNG pictures with labels between 0 and 1.

    Subclasses set `FOLDER` and `LABELS_NAME`, the names inside the archive.
    """

    HOMEPAGE = "https://github.com/NVlabs/High-res-disentanglement-datasets"
    DEFAULT_BUILDER_CONFIG_NAME = "images64"
    FOLDER = ""
    LABELS_NAME = ""

    def _chunks(self, source: Path) -> Iterator[Chunk]:
        with PngArchive(source, self.FOLDER, self.LABELS_NAME) as archive:
            ranks = self._ranks(source, archive.read_labels(self.space.num_factors))
            for first in range(0, len(archive), _ROWS):
                index = np.arange(first, min(first + _ROWS, len(archive)))
                images = self._pictures(source, [archive.png(int(i)) for i in index])
                yield index, images, ranks[index].astype(np.int64)

    def _ranks(
        self, source: Path, labels: npt.NDArray[np.floating]
    ) -> npt.NDArray[np.int8]:
        """Value indices of all pictures, an eighth of the size of the labels."""
        columns, limit = self.space.num_factors, self.space.num_combinations
        if labels.shape[1] != columns or not 0 < len(labels) <= limit:
            raise DatasetFileError(
                source,
                f"{self.LABELS_NAME} has shape {labels.shape}, expected (n, {columns}) "
                f"with n up to {limit}: this is another archive.",
            )
        values = [np.linspace(0, 1, size) for size in self.space.sizes]
        ranks = np.empty(labels.shape, np.int8)
        for first in range(0, len(labels), _LABEL_ROWS):
            rows = slice(first, first + _LABEL_ROWS)
            ranks[rows] = label_ranks(source, labels[rows], values)
        return ranks

    def _pictures(self, source: Path, encoded: list[bytes]) -> list:
        """Decodes and resizes; pictures of the published size stay as they are."""
        with naming_damage(source, "a picture in it cannot be decoded"):
            pictures = [tf.io.decode_png(png, channels=3).numpy() for png in encoded]
        shapes = {picture.shape for picture in pictures}
        if shapes != {(_PUBLISHED_SIZE, _PUBLISHED_SIZE, 3)}:
            raise DatasetFileError(
                source,
                f"holds pictures of shape {sorted(shapes)}, expected "
                f"{_PUBLISHED_SIZE}x{_PUBLISHED_SIZE}: this is another archive.",
                "Use the downsampled one (down128).",
            )
        size = self.builder_config.image_shape[0]
        if size == _PUBLISHED_SIZE:
            return encoded
        return list(resize_bytes(np.stack(pictures), size))
