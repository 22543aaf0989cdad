"""Keras callbacks: what to watch while a model trains."""

from qlayers.extras import require

require("qlayers.callbacks", "tensorflow", "tensorboard")


from qlayers.callbacks.checkpoint_selection import (
    CheckpointSelection as CheckpointSelection,
)
from qlayers.callbacks.code_statistics import CodeStatistics as CodeStatistics
from qlayers.callbacks.disentanglement_metrics import (
    DisentanglementMetrics as DisentanglementMetrics,
)
from qlayers.callbacks.hyperparameter_summaries import (
    write_hyperparameter_columns as write_hyperparameter_columns,
)
from qlayers.callbacks.hyperparameter_summaries import (
    write_hyperparameters as write_hyperparameters,
)
from qlayers.callbacks.image_summaries import ImageSummaries as ImageSummaries
from qlayers.callbacks.projector_files import ProjectorFiles as ProjectorFiles
from qlayers.callbacks.score_summaries import ScoreSummaries as ScoreSummaries
from qlayers.callbacks.size_adaptation import SizeAdaptation as SizeAdaptation
from qlayers.callbacks.step_callback import StepCallback as StepCallback
from qlayers.callbacks.stop_on_non_finite import StopOnNonFinite as StopOnNonFinite
from qlayers.callbacks.training_scalars import TrainingScalars as TrainingScalars

__all__ = [
    "CheckpointSelection",
    "CodeStatistics",
    "DisentanglementMetrics",
    "ImageSummaries",
    "ProjectorFiles",
    "ScoreSummaries",
    "SizeAdaptation",
    "StepCallback",
    "StopOnNonFinite",
    "TrainingScalars",
    "write_hyperparameter_columns",
    "write_hyperparameters",
]
