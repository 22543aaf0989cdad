"""MPI3D, all four variants."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from qlayers.datasets.builders.factor_config import FactorConfig
from qlayers.datasets.builders.factor_grid_builder import Chunk, FactorGridBuilder
from qlayers.datasets.builders.row_checks import check_rows
from qlayers.datasets.readers import NpzRows
from qlayers.datasets.spaces import MPI3D_COMPLEX, MPI3D_SIMPLE

_ROWS = 512


def _simple_config(variant: str, description: str, md5: str | None) -> FactorConfig:
    return FactorConfig(
        name=variant,
        description=description,
        space=MPI3D_SIMPLE,
        file_name=f"mpi3d_{variant}.npz",
        url="https://huggingface.co/datasets/waleedgondal/mpi3d",
        num_bytes=12_740_198_656,
        md5=md5,
    )


class Builder(FactorGridBuilder):
    """Reads the .npz files row by row; they hold images only, in grid order."""

    HOMEPAGE = "https://github.com/rr-learning/disentanglement_dataset"
    LICENCE = "CC BY 4.0"
    BYTES_PER_IMAGE = 6500
    MILLISECONDS_PER_IMAGE = 0.6
    DEFAULT_BUILDER_CONFIG_NAME = "complex"
    BUILDER_CONFIGS = [  # noqa: RUF012
        FactorConfig(
            name="complex",
            description="Everyday objects before a real camera, 460,800 images.",
            space=MPI3D_COMPLEX,
            file_name="real3d_complicated_shapes_ordered.npz",
            url="https://drive.google.com/uc?id=1Tp8eTdHxgUMtsZv5uAoYAbJR1BOa_OQm",
            num_bytes=5_662_310_656,
        ),
        _simple_config(
            "toy", "Simplified renderings.", "55889cb7c7dfc655d6e0277beee88868"
        ),
        _simple_config(
            "realistic", "Realistic renderings.", "59a6225b88b635365f70c91b3e52f70f"
        ),
        # The file was replaced in 2025 after a corrupted upload; the checksum that
        # circulates is older than that.
        _simple_config("real", "Simple shapes before a real camera.", None),
    ]

    def _chunks(self, source: Path) -> Iterator[Chunk]:
        images = NpzRows(source, "images")
        check_rows(images, self.builder_config.image_shape, self.space)
        first = 0
        for pictures in images.chunks(_ROWS):
            index = np.arange(first, first + len(pictures))
            yield index, list(pictures), self.space.sources_of(index)
            first += len(pictures)
