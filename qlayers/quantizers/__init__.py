"""Layers that turn continuous latents into discrete ones, and one that does not."""

from qlayers.quantizers.categorical import CategoricalQuantizer as CategoricalQuantizer
from qlayers.quantizers.code_usage import CodeUsage as CodeUsage
from qlayers.quantizers.finite_scalar import (
    FiniteScalarQuantizer as FiniteScalarQuantizer,
)
from qlayers.quantizers.gaussian import GaussianLatent as GaussianLatent
from qlayers.quantizers.gumbel import GumbelQuantizer as GumbelQuantizer
from qlayers.quantizers.latent import LatentQuantizer as LatentQuantizer
from qlayers.quantizers.ordered_categorical import (
    OrderedCategoricalQuantizer as OrderedCategoricalQuantizer,
)
from qlayers.quantizers.vector import VectorQuantizer as VectorQuantizer
