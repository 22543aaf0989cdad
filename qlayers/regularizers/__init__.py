"""Layers that shape a latent space by losses and otherwise leave it alone."""

from qlayers.regularizers.activity import ActivityEnergy
from qlayers.regularizers.cliff import Cliff
from qlayers.regularizers.hausdorff import (
    HausdorffFactorizedSupport,
)
from qlayers.regularizers.hessian import HessianPenalty
from qlayers.regularizers.independent_support import (
    IndependentSupport,
)
from qlayers.regularizers.jacobian import JacobianOrthogonality
from qlayers.regularizers.minibatch_total_correlation import (
    MinibatchTotalCorrelation,
)
from qlayers.regularizers.multiinformation import (
    KernelMultiinformation,
)
from qlayers.regularizers.normalized_hessian import (
    NormalizedHessianPenalty,
)
from qlayers.regularizers.total_correlation import (
    TotalCorrelationDiscriminator,
)

__all__ = [
    "ActivityEnergy",
    "Cliff",
    "HausdorffFactorizedSupport",
    "HessianPenalty",
    "IndependentSupport",
    "JacobianOrthogonality",
    "KernelMultiinformation",
    "MinibatchTotalCorrelation",
    "NormalizedHessianPenalty",
    "TotalCorrelationDiscriminator",
]
