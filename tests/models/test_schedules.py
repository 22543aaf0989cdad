"""Schedules that Keras lacks."""

import keras
import numpy as np
import pytest

from models.schedules import PeriodicCosine
from models.updates_per_step import UpdatesPerStep, over_steps


def test_periodic_cosine_is_pytorchs_beyond_its_first_half():
    torch = pytest.importorskip("torch", reason="PyTorch's schedule is the reference")
    weight = torch.zeros(1, requires_grad=True)
    optimizer = torch.optim.Adam([weight], lr=1e-3)
    theirs = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 50, eta_min=1.25e-6)
    ours = PeriodicCosine(1e-3, 1.25e-6, 50)
    for step in range(120):
        expected = optimizer.param_groups[0]["lr"]
        np.testing.assert_allclose(float(ours(step)), expected, rtol=1e-3, atol=1e-9)
        optimizer.step()
        theirs.step()


def test_periodic_cosine_survives_serialization():
    schedules = keras.optimizers.schedules
    made = PeriodicCosine(1e-3, 1e-6, 7)
    restored = schedules.deserialize(schedules.serialize(made))
    assert restored.get_config() == made.get_config()
    with pytest.raises(ValueError, match="num_steps"):
        PeriodicCosine(1e-3, 1e-6, 0)


def test_updates_of_one_step_read_the_schedule_at_that_step():
    schedules = keras.optimizers.schedules
    falling = schedules.PolynomialDecay(1.0, 4, 0.0)  # 1, 3/4, 1/2, 1/4, 0
    made = over_steps(falling, 3)
    restored = schedules.deserialize(schedules.serialize(made))
    for schedule in (made, restored):
        found = [float(schedule(np.int64(update))) for update in range(9)]
        np.testing.assert_allclose(found, [1.0] * 3 + [0.75] * 3 + [0.5] * 3)
    assert over_steps(0.1, 3) == 0.1
    with pytest.raises(ValueError, match="num_updates"):
        UpdatesPerStep(falling, 0)
