"""Factors of the published datasets, in the order of their files.

Sizes and orders follow the files, not the tables of papers: Hsu et al. 2023 (table 4)
and 2024 (table 3) give Shapes3D ten orientations and fifteen wall hues, the file has it
the other way round; the prose of the Isaac3D page lists its factors in another order
than its labels.
"""

import numpy as np

from qlayers.datasets.factor_space import FactorSpace
from qlayers.datasets.ray_casting import SHAPE_NAMES

HUE_NAMES = (
    "red",
    "orange",
    "lime",
    "green",
    "mint",
    "cyan",
    "azure",
    "blue",
    "violet",
    "pink",
)

# The numbers that the label array of 3dshapes.h5 holds, factor by factor.
SHAPES3D_VALUES = (
    *(np.arange(10) / 10,) * 3,
    np.linspace(0.75, 1.25, 8),
    np.arange(4.0),
    np.linspace(-30.0, 30.0, 15),
)

SHAPES3D = FactorSpace(
    names=("floor_hue", "wall_hue", "object_hue", "scale", "shape", "orientation"),
    sizes=(10, 10, 10, 8, 4, 15),
    values=(
        HUE_NAMES,
        HUE_NAMES,
        HUE_NAMES,
        tuple(f"{scale:.3f}" for scale in SHAPES3D_VALUES[3]),
        SHAPE_NAMES,
        tuple(f"{angle:+.1f}" for angle in SHAPES3D_VALUES[5]),
    ),
)

_MPI3D_NAMES = (
    "object_color",
    "object_shape",
    "object_size",
    "camera_height",
    "background_color",
    "horizontal_axis",
    "vertical_axis",
)
_MPI3D_REST = (
    ("small", "large"),
    ("top", "center", "bottom"),
    ("purple", "sea_green", "salmon"),
    (),
    (),
)

MPI3D_COMPLEX = FactorSpace(
    names=_MPI3D_NAMES,
    sizes=(4, 4, 2, 3, 3, 40, 40),
    values=(
        ("yellow", "green", "olive", "red"),
        ("coffee_cup", "tennis_ball", "croissant", "beer_cup"),
        *_MPI3D_REST,
    ),
)

MPI3D_SIMPLE = FactorSpace(
    names=_MPI3D_NAMES,
    sizes=(6, 6, 2, 3, 3, 40, 40),
    values=(
        ("white", "green", "red", "blue", "brown", "olive"),
        ("cone", "cube", "cylinder", "hexagonal", "pyramid", "sphere"),
        *_MPI3D_REST,
    ),
)

FALCOR3D = FactorSpace(
    names=(
        "lighting_intensity",
        "lighting_x_dir",
        "lighting_y_dir",
        "lighting_z_dir",
        "camera_x_pos",
        "camera_y_pos",
        "camera_z_pos",
    ),
    sizes=(5, 6, 6, 6, 6, 6, 6),
)

ISAAC3D = FactorSpace(
    names=(
        "object_shape",
        "robot_x",
        "robot_y",
        "camera_height",
        "object_scale",
        "lighting_intensity",
        "lighting_y_dir",
        "object_color",
        "wall_color",
    ),
    sizes=(3, 8, 5, 4, 4, 4, 6, 4, 4),
    values=(
        ("cube", "cone", "sphere"),
        *((),) * 7,
        ("green", "grey_green", "pale_lilac", "purple"),
    ),
)

DSPRITES = FactorSpace(
    names=("shape", "scale", "orientation", "x_position", "y_position"),
    sizes=(3, 6, 40, 32, 32),
    values=(
        ("square", "ellipse", "heart"),
        tuple(f"{scale:.1f}" for scale in np.linspace(0.5, 1.0, 6)),
        (),
        (),
        (),
    ),
)

# The toy itself (instance) is no factor of the benchmark, but part of the grid.
SMALLNORB = FactorSpace(
    names=("category", "instance", "elevation", "azimuth", "lighting"),
    sizes=(5, 10, 9, 18, 6),
    values=(("animal", "human", "airplane", "truck", "car"), (), (), (), ()),
)

CARS3D = FactorSpace(names=("elevation", "azimuth", "object"), sizes=(4, 24, 183))
