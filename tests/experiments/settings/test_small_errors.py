"""Numbers that are none are refused where they are given."""

import math

import pytest

from experiments.settings.hyperparameters import resolve_schedules
from qlayers.callbacks import CheckpointSelection
from tests.experiments.runs import tiny_config


@pytest.mark.parametrize(
    "text",
    [
        "cosine(1e-3,nan)",
        "cosine(inf,1e-3)",
        "exponential(1e-3,-inf)",
        "cosine(1e-3,high)",
        "cosine(1e-3,1e-5,inf)",
        "periodic_cosine(1e-3,1e-5,0)",
    ],
)
def test_schedule_ends_are_finite(text):
    with pytest.raises(ValueError, match="positive, finite numbers"):
        resolve_schedules({"learning_rate": text}, 10)


@pytest.mark.parametrize("threshold", [math.nan, math.inf])
def test_thresholds_are_finite(threshold):
    with pytest.raises(ValueError, match="finite"):
        tiny_config(psnr_threshold=threshold)
    with pytest.raises(ValueError, match="finite"):
        CheckpointSelection("best.keras", require={"psnr/psnr": threshold})
