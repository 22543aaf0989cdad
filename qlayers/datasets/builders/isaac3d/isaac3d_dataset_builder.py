"""Isaac3D: a robot arm in a kitchen."""

from qlayers.datasets.builders.png_grid_builder import PngGridBuilder, png_grid_configs
from qlayers.datasets.spaces import ISAAC3D


class Builder(PngGridBuilder):
    """Reads `Isaac3D_down128.zip`."""

    LICENCE = "CC BY 4.0"
    BYTES_PER_IMAGE = 9000
    MILLISECONDS_PER_IMAGE = 1.6
    BUILDER_CONFIGS = png_grid_configs(
        ISAAC3D,
        "Isaac3D_down128.zip",
        "https://drive.google.com/uc?id=1OmQ1G2wnm6eTsSFGTKFZZAh5D3nQTW1B",
        13_000_000_000,
    )
    FOLDER = "Isaac3D_down128"
    LABELS_NAME = "labels.npy"
