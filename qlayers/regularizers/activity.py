"""The constraints of biological autoencoders."""

from typing import Any

import keras

from qlayers.backend import Tensor
from qlayers.functional.activity_energy import activity_energy
from qlayers.regularizers.base import LatentRegularizer
from qlayers.schedules import Schedulable


@keras.saving.register_keras_serializable(package="qlayers")
class ActivityEnergy(LatentRegularizer):
    """Asks for little and nonnegative activity of the latents.

    Adds `activity_weight * mean(z^2) + nonnegative_weight * mean(max(-z, 0))` and
    returns the latents as they are. The third constraint of the method, small weights,
    is the optimizer's weight decay (1e-4 in the public code). Tracked as
    `<name>_activity` and `<name>_nonnegative`.

    Args:
        activity_weight: Weight of the energy, a number or a schedule.
        nonnegative_weight: Weight of the negative part, a number or a schedule.
        **kwargs: `at_inference` of the regularizers and those of `keras.layers.Layer`.

    Input and output shape: `(..., n)`.

    Example:

    ```python
    z = qlayers.ActivityEnergy(0.01)(keras.layers.Dense(12)(features))
    ```

    Reference:
        Whittington et al. 2023, Disentanglement with Biological Constraints; with the
        weights of Hsu et al. 2023, appendix.
    """

    weight_names = ("activity_weight", "nonnegative_weight")

    def __init__(
        self,
        activity_weight: Schedulable,
        nonnegative_weight: Schedulable = 1.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.activity_weight = self.schedulable("activity_weight", activity_weight)
        self.nonnegative_weight = self.schedulable(
            "nonnegative_weight", nonnegative_weight
        )
        for term in ("activity", "nonnegative"):
            if not self.is_off(f"{term}_weight"):
                self.track_terms(term)

    def add_terms(self, z: Tensor, weights: Tensor | None = None) -> None:
        values = activity_energy(z, weights)
        self.add_weighted(
            {name: v for name, v in values.items() if not self.is_off(f"{name}_weight")}
        )
