"""Datasets with known factors of variation. Loading one needs TensorFlow."""

import importlib
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

from qlayers.datasets.dataset_info import DatasetInfo
from qlayers.datasets.factor_space import FactorSpace
from qlayers.datasets.registration import register_builders
from qlayers.datasets.registry import info, load, names, register

if TYPE_CHECKING:
    from qlayers.datasets.factor_dataset import FactorDataset
    from qlayers.datasets.own_data import from_arrays, from_folder
    from qlayers.datasets.table_dataset import TableDataset

__all__ = [
    "DatasetInfo",
    "FactorDataset",
    "FactorSpace",
    "TableDataset",
    "from_arrays",
    "from_folder",
    "info",
    "load",
    "names",
    "register",
]


register_builders()


# They import TensorFlow, which facts about datasets do not need.
_WITH_TENSORFLOW = {
    "FactorDataset": "factor_dataset",
    "TableDataset": "table_dataset",
    "from_arrays": "own_data",
    "from_folder": "own_data",
}


def __getattr__(name: str) -> Any:
    if name not in _WITH_TENSORFLOW:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(f"qlayers.datasets.{_WITH_TENSORFLOW[name]}")
    return getattr(module, name)
