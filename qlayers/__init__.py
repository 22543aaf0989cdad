"""Keras 3 layers for quantized, disentangled latent spaces."""

from qlayers import functional as functional
from qlayers import quantizers as quantizers
from qlayers.quantizers import CategoricalQuantizer as CategoricalQuantizer
from qlayers.quantizers import CodeUsage as CodeUsage
from qlayers.quantizers import FiniteScalarQuantizer as FiniteScalarQuantizer
from qlayers.quantizers import GaussianLatent as GaussianLatent
from qlayers.quantizers import GumbelQuantizer as GumbelQuantizer
from qlayers.quantizers import LatentQuantizer as LatentQuantizer
from qlayers.quantizers import (
    OrderedCategoricalQuantizer as OrderedCategoricalQuantizer,
)
from qlayers.quantizers import VectorQuantizer as VectorQuantizer
from qlayers.version import __version__ as __version__
