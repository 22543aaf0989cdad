"""The energy of latents and of their negative part."""

import numpy as np
import pytest
from keras import ops

from qlayers.functional import activity_energy
from tests.gradients import as_float64, gradient_of

pytestmark = pytest.mark.backends
Z = np.array([[1.0, -2.0], [0.5, 3.0]], "float32")


def test_values():
    values = activity_energy(Z)
    np.testing.assert_allclose(as_float64(values["activity"]), 14.25 / 4)
    np.testing.assert_allclose(as_float64(values["nonnegative"]), 0.5)


def test_gradients():
    gradient = gradient_of(lambda z: activity_energy(z)["activity"], Z)
    np.testing.assert_allclose(gradient, 2 * Z / 4)
    gradient = gradient_of(lambda z: activity_energy(z)["nonnegative"], Z)
    np.testing.assert_allclose(gradient, [[0, -0.25], [0, 0]])


def test_half_precision_inputs_are_squared_in_full():
    large = ops.cast(np.full((2, 2), 300.0), "float16")
    np.testing.assert_allclose(as_float64(activity_energy(large)["activity"]), 9e4)
