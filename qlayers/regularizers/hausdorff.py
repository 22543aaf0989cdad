"""Hausdorff factorized support."""

from typing import Any

import keras

from qlayers.backend import Tensor
from qlayers.checks import check_count
from qlayers.functional.hausdorff_factorized_support import (
    hausdorff_factorized_support,
)
from qlayers.regularizers.base import LatentRegularizer
from qlayers.schedules import Schedulable


@keras.saving.register_keras_serializable(package="qlayers")
class HausdorffFactorizedSupport(LatentRegularizer):
    """Asks that the support of every pair of latents be a product set.

    Adds `weight` times the sum, over random pairs of latents, of the squared Hausdorff
    distance between the batch and all combinations of its two coordinates, and returns
    the latents as they are. Correlated latents are fine, missing combinations are not.
    The work grows with the cube of the batch size in the worst case, the memory with
    its square. Tracked as `<name>_hausdorff`.

    Args:
        weight: Weight of the term, a number or a schedule; 0 switches it off.
        num_pairs: Number of pairs in each call, drawn anew.
        **kwargs: `seed` and `at_inference` of the regularizers and those of
            `keras.layers.Layer`.

    Input and output shape: `(..., n)` with at least two latents. The method uses the
    posterior means of a variational autoencoder.

    Example:

    ```python
    mean = qlayers.HausdorffFactorizedSupport(100.0)(mean)
    ```

    Reference:
        Roth et al. 2023, Disentanglement of Correlated Factors via Hausdorff
        Factorized Support.
    """

    reads = ("continuous",)
    config_names = ("num_pairs",)

    def __init__(self, weight: Schedulable, num_pairs: int = 25, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.weight = self.schedulable("weight", weight)
        self.num_pairs = check_count("num_pairs", num_pairs)
        if not self.is_off("weight"):
            self.track_terms("hausdorff")

    def build(self, input_shape: Any) -> None:
        super().build(input_shape)
        if input_shape[-1] < 2:
            raise ValueError(
                "HausdorffFactorizedSupport compares pairs of latents and needs at "
                f"least two. Received an input of shape {tuple(input_shape)}."
            )

    def add_terms(self, z: Tensor, weights: Tensor | None = None) -> None:
        # Copies stand for masked samples: the set of values is the same.
        value = hausdorff_factorized_support(
            z, self.num_pairs, seed=self.seed_generator
        )
        self.add_term("hausdorff", value, self.value_of("weight"))
