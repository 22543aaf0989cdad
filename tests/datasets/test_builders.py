"""TFDS's own test case for every builder, on tiny files in the published layouts."""

import itertools
import tempfile
from pathlib import Path

import numpy as np
import tensorflow_datasets as tfds

from qlayers.datasets.builders import FactorConfig
from qlayers.datasets.builders.cars3d import cars3d_dataset_builder
from qlayers.datasets.builders.dsprites_factors import (
    dsprites_factors_dataset_builder,
)
from qlayers.datasets.builders.falcor3d import falcor3d_dataset_builder
from qlayers.datasets.builders.isaac3d import isaac3d_dataset_builder
from qlayers.datasets.builders.mpi3d import mpi3d_dataset_builder
from qlayers.datasets.builders.shapes3d_factors import (
    shapes3d_factors_dataset_builder,
)
from qlayers.datasets.builders.smallnorb_factors import (
    smallnorb_factors_dataset_builder,
)
from qlayers.datasets.factor_space import FactorSpace
from qlayers.datasets.spaces import (
    CARS3D,
    DSPRITES,
    FALCOR3D,
    ISAAC3D,
    MPI3D_COMPLEX,
    MPI3D_SIMPLE,
    SHAPES3D,
    SMALLNORB,
)
from tests.datasets import published_files

TRAINING = "smallnorb-5x46789x9x18x6x2x96x96-training"
TESTING = "smallnorb-5x01235x9x18x6x2x96x96-testing"


def tiny(
    space: FactorSpace, sizes: tuple[int, ...], name: str = "tiny", **settings
) -> FactorConfig:
    """A configuration whose grid is small enough to write whole."""
    return FactorConfig(name=name, space=FactorSpace(space.names, sizes), **settings)


class _Case(tfds.testing.DatasetBuilderTestCase):
    """Writes the files before the tests of a builder and removes them afterwards."""

    # Names of files, and what writes them.
    FILES = {}  # noqa: RUF012

    @classmethod
    def setUpClass(cls):
        cls._folder = tempfile.TemporaryDirectory()
        cls.EXAMPLE_DIR = cls._folder.name
        cls.write(Path(cls._folder.name))
        super().setUpClass()

    @classmethod
    def write(cls, folder):
        for name, write in cls.FILES.items():
            write(folder / name)

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        cls._folder.cleanup()


class Shapes3DTest(_Case):
    DATASET_CLASS = shapes3d_factors_dataset_builder.Builder
    BUILDER_CONFIG_NAMES_TO_TEST = [  # noqa: RUF012
        tiny(SHAPES3D, (1, 1, 1, 1, 1, 6), file_name="3dshapes.h5")
    ]
    SPLITS = {"train": 6}  # noqa: RUF012

    FILES = {"3dshapes.h5": published_files.write_shapes3d}  # noqa: RUF012


class Mpi3DTest(_Case):
    DATASET_CLASS = mpi3d_dataset_builder.Builder
    BUILDER_CONFIG_NAMES_TO_TEST = [  # noqa: RUF012
        tiny(
            MPI3D_COMPLEX,
            (1, 1, 1, 1, 1, 2, 3),
            file_name="real3d_complicated_shapes_ordered.npz",
        ),
        tiny(
            MPI3D_SIMPLE, (1, 1, 1, 1, 1, 1, 6), "tiny_toy", file_name="mpi3d_toy.npz"
        ),
    ]
    SPLITS = {"train": 6}  # noqa: RUF012
    FILES = dict.fromkeys(
        ("real3d_complicated_shapes_ordered.npz", "mpi3d_toy.npz"),
        published_files.write_npz,
    )


class Falcor3DTest(_Case):
    DATASET_CLASS = falcor3d_dataset_builder.Builder
    BUILDER_CONFIG_NAMES_TO_TEST = [  # noqa: RUF012
        tiny(FALCOR3D, (1, 1, 1, 1, 1, 1, 6), file_name="Falcor3D_down128.zip"),
        tiny(
            FALCOR3D,
            (1, 1, 1, 1, 1, 1, 6),
            file_name="Falcor3D_down128.zip",
            image_shape=(128, 128, 3),
            name="tiny128",
        ),
    ]
    SPLITS = {"train": 6}  # noqa: RUF012

    @staticmethod
    def write(folder):
        published_files.write_png_archive(
            folder / "Falcor3D_down128.zip",
            "Falcor3D_down128",
            "train-rec.labels",
            FALCOR3D.sizes,
            published_files.pictures(6, 128, 128, 3),
        )


class Isaac3DTest(_Case):
    DATASET_CLASS = isaac3d_dataset_builder.Builder
    BUILDER_CONFIG_NAMES_TO_TEST = [  # noqa: RUF012
        tiny(ISAAC3D, (1,) * 7 + (1, 4), file_name="Isaac3D_down128.zip")
    ]
    SPLITS = {"train": 4}  # noqa: RUF012

    @staticmethod
    def write(folder):
        published_files.write_png_archive(
            folder / "Isaac3D_down128.zip",
            "Isaac3D_down128",
            "labels.npy",
            ISAAC3D.sizes,
            published_files.pictures(4, 128, 128, 3),
        )


class DspritesTest(_Case):
    DATASET_CLASS = dsprites_factors_dataset_builder.Builder
    BUILDER_CONFIG_NAMES_TO_TEST = [  # noqa: RUF012
        tiny(
            DSPRITES,
            (1, 1, 1, 1, 6),
            file_name="dsprites.hdf5",
            image_shape=(64, 64, 1),
        )
    ]
    SPLITS = {"train": 6}  # noqa: RUF012

    FILES = {"dsprites.hdf5": published_files.write_dsprites_hdf5}  # noqa: RUF012


class SmallnorbTest(_Case):
    DATASET_CLASS = smallnorb_factors_dataset_builder.Builder
    BUILDER_CONFIG_NAMES_TO_TEST = [  # noqa: RUF012
        tiny(SMALLNORB, (2, 2, 1, 1, 3), image_shape=(64, 64, 1))
    ]
    SPLITS = {"train": 12}  # noqa: RUF012

    @staticmethod
    def write(folder):
        grid = np.array(list(itertools.product(range(2), [0, 1], [0], [0], range(3))))
        toys = {TRAINING: grid[grid[:, 1] == 1], TESTING: grid[grid[:, 1] == 0]}
        published_files.write_smallnorb(folder, toys)


class Cars3DTest(_Case):
    DATASET_CLASS = cars3d_dataset_builder.Builder
    BUILDER_CONFIG_NAMES_TO_TEST = [  # noqa: RUF012
        tiny(CARS3D, (4, 24, 2), file_name="nips2015-analogy-data.tar.gz")
    ]
    SPLITS = {"train": 192}  # noqa: RUF012

    FILES = {"nips2015-analogy-data.tar.gz": published_files.write_cars}  # noqa: RUF012


del _Case
