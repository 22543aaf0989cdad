"""Keras callbacks: what to watch while a model trains."""

from qlayers.callbacks.metrics_callback import (
    CheckpointSelection as CheckpointSelection,
)
from qlayers.callbacks.metrics_callback import (
    DisentanglementMetrics as DisentanglementMetrics,
)
