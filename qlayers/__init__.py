"""Keras 3 layers for quantized, disentangled latent spaces."""

from qlayers import blocks as blocks
from qlayers import functional as functional
from qlayers import quantizers as quantizers
from qlayers import regularizers as regularizers
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
from qlayers.regularizers import ActivityEnergy as ActivityEnergy
from qlayers.regularizers import Cliff as Cliff
from qlayers.regularizers import (
    HausdorffFactorizedSupport as HausdorffFactorizedSupport,
)
from qlayers.regularizers import HessianPenalty as HessianPenalty
from qlayers.regularizers import IndependentSupport as IndependentSupport
from qlayers.regularizers import KernelMultiinformation as KernelMultiinformation
from qlayers.regularizers import MinibatchTotalCorrelation as MinibatchTotalCorrelation
from qlayers.regularizers import NormalizedHessianPenalty as NormalizedHessianPenalty
from qlayers.regularizers import (
    TotalCorrelationDiscriminator as TotalCorrelationDiscriminator,
)
from qlayers.version import __version__ as __version__
