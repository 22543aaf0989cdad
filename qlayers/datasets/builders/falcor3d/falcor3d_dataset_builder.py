"""Falcor3D: lights and cameras in a living room."""

from qlayers.datasets.builders.png_grid_builder import PngGridBuilder, png_grid_configs
from qlayers.datasets.spaces import FALCOR3D


class Builder(PngGridBuilder):
    """Reads `Falcor3D_down128.zip`."""

    LICENCE = "CC BY 4.0"
    BYTES_PER_IMAGE = 8500
    MILLISECONDS_PER_IMAGE = 1.6
    BUILDER_CONFIGS = png_grid_configs(
        FALCOR3D,
        "Falcor3D_down128.zip",
        "https://drive.google.com/uc?id=1XAQfFK1x6cpN1eiovbP0hVfLTm5SsSoJ",
        3_700_000_000,
    )
    FOLDER = "Falcor3D_down128"
    # A .npy file despite its name.
    LABELS_NAME = "train-rec.labels"
