"""TensorFlow Datasets builders over the published files.

`import qlayers.datasets` registers them: `tfds.builder("mpi3d/toy")` works afterwards.
Three of them carry the suffix `_factors` because TensorFlow Datasets has builders of
the plain names, which a second registration would shadow.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from qlayers.datasets.builders.factor_config import FactorConfig
    from qlayers.datasets.builders.factor_grid_builder import FactorGridBuilder

__all__ = ["FactorConfig", "FactorGridBuilder"]


def __getattr__(name: str) -> Any:
    # Both import TensorFlow Datasets, which the registration does not.
    if name == "FactorConfig":
        from qlayers.datasets.builders.factor_config import FactorConfig

        return FactorConfig
    if name == "FactorGridBuilder":
        from qlayers.datasets.builders.factor_grid_builder import FactorGridBuilder

        return FactorGridBuilder
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
