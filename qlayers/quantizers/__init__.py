"""Layers that turn continuous latents into discrete ones, and one that does not."""

from qlayers.quantizers.categorical import CategoricalQuantizer
from qlayers.quantizers.code_usage import CodeUsage
from qlayers.quantizers.codes import Codes
from qlayers.quantizers.finite_scalar import (
    FiniteScalarQuantizer,
)
from qlayers.quantizers.gaussian import GaussianLatent
from qlayers.quantizers.gumbel import GumbelQuantizer
from qlayers.quantizers.latent import LatentQuantizer
from qlayers.quantizers.lookup import Lookup
from qlayers.quantizers.lookup_free import LookupFreeQuantizer
from qlayers.quantizers.ordered_categorical import (
    OrderedCategoricalQuantizer,
)
from qlayers.quantizers.quantizer_method import QuantizerMethod
from qlayers.quantizers.residual import ResidualQuantizer
from qlayers.quantizers.self_sizing import SelfSizingQuantizer
from qlayers.quantizers.vector import VectorQuantizer

__all__ = [
    "CategoricalQuantizer",
    "CodeUsage",
    "Codes",
    "FiniteScalarQuantizer",
    "GaussianLatent",
    "GumbelQuantizer",
    "LatentQuantizer",
    "Lookup",
    "LookupFreeQuantizer",
    "OrderedCategoricalQuantizer",
    "QuantizerMethod",
    "ResidualQuantizer",
    "SelfSizingQuantizer",
    "VectorQuantizer",
]
