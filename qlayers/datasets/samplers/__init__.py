"""Ways to draw factor combinations; each batch is a pure function of seed and step."""

from qlayers.datasets.samplers.correlated_sampler import CorrelatedSampler
from qlayers.datasets.samplers.fixed_factor_sampler import FixedFactorSampler
from qlayers.datasets.samplers.restricted_sampler import RestrictedSampler
from qlayers.datasets.samplers.sampler import Sampler, random_generator
from qlayers.datasets.samplers.shuffled_sampler import ShuffledSampler
from qlayers.datasets.samplers.subset_sampler import SubsetSampler
from qlayers.datasets.samplers.uniform_sampler import UniformSampler

__all__ = [
    "CorrelatedSampler",
    "FixedFactorSampler",
    "RestrictedSampler",
    "Sampler",
    "ShuffledSampler",
    "SubsetSampler",
    "UniformSampler",
    "random_generator",
]
