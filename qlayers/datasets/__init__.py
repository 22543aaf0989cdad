"""Datasets with known factors of variation. This package needs TensorFlow."""

from qlayers.extras import require

require(
    "qlayers.datasets",
    "tensorflow",
    "tensorflow_datasets",
    "tensorflow_probability",
    "h5py",
    "PIL",
)


from qlayers.datasets.factor_dataset import FactorDataset
from qlayers.datasets.factor_space import FactorSpace
from qlayers.datasets.registry import load, names

__all__ = ["FactorDataset", "FactorSpace", "load", "names"]
