"""Keras 3 layers for quantized, disentangled latent spaces.

`qlayers.metrics`, `.datasets`, `.callbacks` and `.testing` are imported when they are
first used: most of them need more than Keras and NumPy.
"""

import importlib
from typing import TYPE_CHECKING, Any

from qlayers import blocks, functional, quantizers, regularizers
from qlayers.quantizers import (
    CategoricalQuantizer,
    Codes,
    CodeUsage,
    FiniteScalarQuantizer,
    GaussianLatent,
    GumbelQuantizer,
    LatentQuantizer,
    Lookup,
    LookupFreeQuantizer,
    OrderedCategoricalQuantizer,
    ResidualQuantizer,
    SelfSizingQuantizer,
    VectorQuantizer,
)
from qlayers.regularizers import (
    ActivityEnergy,
    Cliff,
    HausdorffFactorizedSupport,
    HessianPenalty,
    IndependentSupport,
    JacobianOrthogonality,
    KernelMultiinformation,
    MinibatchTotalCorrelation,
    NormalizedHessianPenalty,
    TotalCorrelationDiscriminator,
)
from qlayers.version import __version__

if TYPE_CHECKING:
    from qlayers import callbacks, datasets, metrics, testing  # noqa: F401

_LAZY = ("callbacks", "datasets", "metrics", "testing")

__all__ = [
    "ActivityEnergy",
    "CategoricalQuantizer",
    "Cliff",
    "CodeUsage",
    "Codes",
    "FiniteScalarQuantizer",
    "GaussianLatent",
    "GumbelQuantizer",
    "HausdorffFactorizedSupport",
    "HessianPenalty",
    "IndependentSupport",
    "JacobianOrthogonality",
    "KernelMultiinformation",
    "LatentQuantizer",
    "Lookup",
    "LookupFreeQuantizer",
    "MinibatchTotalCorrelation",
    "NormalizedHessianPenalty",
    "OrderedCategoricalQuantizer",
    "ResidualQuantizer",
    "SelfSizingQuantizer",
    "TotalCorrelationDiscriminator",
    "VectorQuantizer",
    "__version__",
    "blocks",
    "functional",
    "quantizers",
    "regularizers",
]


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return importlib.import_module(f"qlayers.{name}")
    raise AttributeError(f"module 'qlayers' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_LAZY])
