"""The maths of the layers as plain functions on tensors."""

from qlayers.functional.divergence import standard_normal_kl as standard_normal_kl
from qlayers.functional.divergence import uniform_kl as uniform_kl
from qlayers.functional.gumbel import gumbel_softmax as gumbel_softmax
from qlayers.functional.nearest_code import nearest_code as nearest_code
from qlayers.functional.nearest_code import nearest_vector as nearest_vector
from qlayers.functional.straight_through import straight_through as straight_through
