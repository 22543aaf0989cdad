"""Makes the builders known to TensorFlow Datasets, without importing it early."""

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

BUILDERS = (
    "cars3d",
    "dsprites_factors",
    "falcor3d",
    "isaac3d",
    "mpi3d",
    "shapes3d_factors",
    "smallnorb_factors",
)
_TFDS = "tensorflow_datasets"


def register_builders() -> None:
    """Registers the builders now, or as soon as TensorFlow Datasets is imported.

    It takes seconds to import, and facts about datasets do not need it.
    """
    if _TFDS in sys.modules:
        _import_builders()
    elif not any(isinstance(finder, _Watcher) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Watcher())


def _import_builders() -> None:
    for name in BUILDERS:
        importlib.import_module(
            f"qlayers.datasets.builders.{name}.{name}_dataset_builder"
        )


class _Watcher(importlib.abc.MetaPathFinder):
    """Waits for one import, lets the usual finders do it, and then goes away."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != _TFDS:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            usual: Any = spec.loader
            execute = usual.exec_module

            def execute_and_register(module: ModuleType) -> None:
                execute(module)
                _import_builders()

            usual.exec_module = execute_and_register
        return spec
