"""Layers that shape a latent space by losses and otherwise leave it alone."""

from qlayers.regularizers.activity import ActivityEnergy as ActivityEnergy
from qlayers.regularizers.cliff import Cliff as Cliff
from qlayers.regularizers.hausdorff import (
    HausdorffFactorizedSupport as HausdorffFactorizedSupport,
)
from qlayers.regularizers.hessian import HessianPenalty as HessianPenalty
from qlayers.regularizers.independent_support import (
    IndependentSupport as IndependentSupport,
)
from qlayers.regularizers.minibatch_total_correlation import (
    MinibatchTotalCorrelation as MinibatchTotalCorrelation,
)
from qlayers.regularizers.multiinformation import (
    KernelMultiinformation as KernelMultiinformation,
)
from qlayers.regularizers.normalized_hessian import (
    NormalizedHessianPenalty as NormalizedHessianPenalty,
)
from qlayers.regularizers.total_correlation import (
    TotalCorrelationDiscriminator as TotalCorrelationDiscriminator,
)
