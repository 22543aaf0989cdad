"""Gradients of NumPy functions by central differences, in float64."""

from collections.abc import Callable

import numpy as np


def finite_differences(
    function: Callable[[np.ndarray], float], x: np.ndarray, step: float = 1e-5
) -> np.ndarray:
    """Gradient of a scalar function at `x`."""
    x = np.asarray(x, "float64")
    gradient = np.zeros_like(x)
    for place in np.ndindex(*x.shape):
        shift = np.zeros_like(x)
        shift[place] = step
        gradient[place] = (function(x + shift) - function(x - shift)) / (2 * step)
    return gradient
