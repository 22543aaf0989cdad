"""TensorFlow Datasets builders over the published files.

`import qlayers.datasets` registers them: `tfds.builder("mpi3d/toy")` works afterwards.
Three of them carry the suffix `_factors` because TensorFlow Datasets has builders of
the plain names, which a second registration would shadow.
"""

# First of all: its import registers the builders, which must not be half imported then.
import tensorflow_datasets  # noqa: F401

from qlayers.datasets.builders.factor_config import FactorConfig
from qlayers.datasets.builders.factor_grid_builder import FactorGridBuilder

__all__ = ["FactorConfig", "FactorGridBuilder"]
