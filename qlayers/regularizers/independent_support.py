"""Independence of support."""

from typing import Any

import keras

from qlayers.backend import Tensor
from qlayers.checks import check_count, check_number
from qlayers.functional.independent_support import independent_support
from qlayers.regularizers.base import LatentRegularizer
from qlayers.schedules import Schedulable


@keras.saving.register_keras_serializable(package="qlayers")
class IndependentSupport(LatentRegularizer):
    """Asks that the latents fill the box that they span.

    Adds `weight` times the distance from the farthest of `num_samples` random points
    in the (trimmed) box of the batch to its nearest sample, and returns the latents as
    they are. Tracked as `<name>_support_gap`.

    Args:
        weight: Weight of the term, a number or a schedule; 0 switches it off.
        num_samples: Number of points drawn in each call.
        trim: Fraction of the values at each end of a latent, and of the farthest
            points, that is left out, from 0 to below 0.5.
        **kwargs: `seed` and `at_inference` of the regularizers and those of
            `keras.layers.Layer`.

    Input and output shape: `(..., n)`.

    Example:

    ```python
    z = qlayers.IndependentSupport(1.0)(z)
    ```

    Reference:
        Wang and Jordan 2021, Desiderata for Representation Learning: A Causal
        Perspective (IOSS).
    """

    reads = ("continuous",)
    config_names = ("num_samples", "trim")

    def __init__(
        self,
        weight: Schedulable,
        num_samples: int = 10000,
        trim: float = 0.01,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.weight = self.schedulable("weight", weight)
        self.num_samples = check_count("num_samples", num_samples)
        self.trim = check_number("trim", trim)
        if self.trim >= 0.5:
            raise ValueError(
                "`trim` must be below 0.5: no values are left otherwise. "
                f"Received: {trim!r}."
            )
        if not self.is_off("weight"):
            self.track_terms("support_gap")

    def add_terms(self, z: Tensor, weights: Tensor | None = None) -> None:
        value = independent_support(
            z,
            self.num_samples,
            self.trim,
            seed=self.seed_generator,
            weights=weights,
        )
        self.add_term("support_gap", value, self.value_of("weight"))
