"""TensorFlow Datasets builders over the published files.

Importing this package registers them: `tfds.builder("mpi3d/toy")` works afterwards.
Three of them carry the suffix `_factors` because TensorFlow Datasets has builders of
the plain names, which a second registration would shadow.
"""

from qlayers.datasets.builders.factor_config import FactorConfig
from qlayers.datasets.builders.factor_grid_builder import FactorGridBuilder

__all__ = ["FactorConfig", "FactorGridBuilder"]
