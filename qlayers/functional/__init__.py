"""The maths of the layers as plain functions on tensors."""

from qlayers.functional.activity_energy import activity_energy as activity_energy
from qlayers.functional.cliff_terms import cliff_terms as cliff_terms
from qlayers.functional.divergence import standard_normal_kl as standard_normal_kl
from qlayers.functional.divergence import uniform_kl as uniform_kl
from qlayers.functional.gumbel import gumbel_softmax as gumbel_softmax
from qlayers.functional.hausdorff_factorized_support import (
    hausdorff_factorized_support as hausdorff_factorized_support,
)
from qlayers.functional.hessian_penalty import hessian_penalty as hessian_penalty
from qlayers.functional.independent_support import (
    independent_support as independent_support,
)
from qlayers.functional.jacobian_orthogonality import (
    jacobian_orthogonality as jacobian_orthogonality,
)
from qlayers.functional.k_means import k_means as k_means
from qlayers.functional.kernel_multiinformation import (
    kernel_multiinformation as kernel_multiinformation,
)
from qlayers.functional.minibatch_total_correlation import (
    minibatch_total_correlation as minibatch_total_correlation,
)
from qlayers.functional.nearest_code import nearest_code as nearest_code
from qlayers.functional.nearest_code import nearest_vector as nearest_vector
from qlayers.functional.permute_latents import permute_latents as permute_latents
from qlayers.functional.rotate_through import rotate_through as rotate_through
from qlayers.functional.standardize import standard_deviation as standard_deviation
from qlayers.functional.standardize import standardize as standardize
from qlayers.functional.straight_through import straight_through as straight_through
from qlayers.functional.unit_vectors import unit_vectors as unit_vectors

__all__ = [
    "activity_energy",
    "cliff_terms",
    "gumbel_softmax",
    "hausdorff_factorized_support",
    "hessian_penalty",
    "independent_support",
    "jacobian_orthogonality",
    "k_means",
    "kernel_multiinformation",
    "minibatch_total_correlation",
    "nearest_code",
    "nearest_vector",
    "permute_latents",
    "rotate_through",
    "standard_deviation",
    "standard_normal_kl",
    "standardize",
    "straight_through",
    "uniform_kl",
    "unit_vectors",
]
