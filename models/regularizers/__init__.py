"""Regularizers of the papers' baselines."""

from models.regularizers.capacity import CapacityPenalty
from models.regularizers.moments import MomentMatching

__all__ = ["CapacityPenalty", "MomentMatching"]
