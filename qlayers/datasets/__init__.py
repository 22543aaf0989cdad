"""Datasets with known factors of variation. Loading one needs TensorFlow."""

from typing import TYPE_CHECKING, Any

from qlayers.extras import require

require(
    "qlayers.datasets",
    "tensorflow",
    "tensorflow_datasets",
    "tensorflow_probability",
    "h5py",
    "PIL",
)

from qlayers.datasets.builders.registration import register_builders
from qlayers.datasets.dataset_info import DatasetInfo
from qlayers.datasets.factor_space import FactorSpace
from qlayers.datasets.registry import info, load, names, register

if TYPE_CHECKING:
    from qlayers.datasets.factor_dataset import FactorDataset

__all__ = [
    "DatasetInfo",
    "FactorDataset",
    "FactorSpace",
    "info",
    "load",
    "names",
    "register",
]


register_builders()


def __getattr__(name: str) -> Any:
    # The base class imports TensorFlow, which facts about datasets do not need.
    if name != "FactorDataset":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from qlayers.datasets.factor_dataset import FactorDataset

    return FactorDataset
