"""Cliff: axis-aligned steps in the density of the latents."""

from typing import Any

import keras

from qlayers.backend import Tensor
from qlayers.checks import check_choice, check_count, check_number
from qlayers.functional.cliff_terms import TERMS, cliff_terms
from qlayers.regularizers.base import LatentRegularizer
from qlayers.schedules import Schedulable


@keras.saving.register_keras_serializable(package="qlayers")
class Cliff(LatentRegularizer):
    """Asks for steep steps in the latents' density, at places that do not move.

    Adds `weight` times

        univariate_weight * univariate    steps in each latent's own density,
        + bivariate_weight * bivariate    at the same place whatever the others are,
        + uniform_weight * uniform        and no collapse onto a few points,

    and returns the latents as they are. `qlayers.functional.cliff_terms` has the
    formulas. Tracked as `<name>_univariate`, `<name>_bivariate` and `<name>_uniform`;
    a term whose weight is the number 0 is neither computed nor shown.

    Args:
        weight: Weight of the whole, a number or a schedule; 0 switches it off.
        univariate_weight: Weight of the entropies of the density's slopes.
        bivariate_weight: Weight of the divergences between conditional slopes.
        uniform_weight: Weight of the divergence from the uniform distribution.
        bandwidth: Standard deviation of the kernels on the standardised latents, a
            number or a schedule: wide kernels smooth the criterion's landscape.
        num_grid: Number of points of the integrals.
        grid_limit: Integrals run from `-grid_limit` to `grid_limit`.
        num_conditions: Number of samples whose values condition the others.
        uniform_dimensions: 1: each latent is compared with a uniform distribution. 2:
            each pair of latents is, which also asks for a factorized support
            (appendix F.5).
        **kwargs: `seed` and `at_inference` of the regularizers and those of
            `keras.layers.Layer`.

    Input and output shape: `(..., n)`.

    Example:

    ```python
    z = qlayers.Cliff(weight=0.1)(keras.layers.Dense(10)(features))
    ```

    Reference:
        Barin-Pacela et al. 2025, Quantized Disentanglement: A Practical Approach,
        sections 2.1 to 2.4, appendix B; default weights of its appendix F.4; F.5.
    """

    reads = ("continuous",)
    config_names = (
        "num_grid",
        "grid_limit",
        "num_conditions",
        "uniform_dimensions",
    )

    def __init__(
        self,
        weight: Schedulable = 1.0,
        univariate_weight: Schedulable = 0.5,
        bivariate_weight: Schedulable = 1.0,
        uniform_weight: Schedulable = 0.7,
        bandwidth: Schedulable = 0.1,
        num_grid: int = 100,
        grid_limit: float = 5.0,
        num_conditions: int = 20,
        uniform_dimensions: int = 1,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.weight = self.schedulable("weight", weight)
        self.univariate_weight = self.schedulable(
            "univariate_weight", univariate_weight
        )
        self.bivariate_weight = self.schedulable("bivariate_weight", bivariate_weight)
        self.uniform_weight = self.schedulable("uniform_weight", uniform_weight)
        self.bandwidth = self.schedulable("bandwidth", bandwidth, exclusive=True)
        self.num_grid = check_count("num_grid", num_grid, minimum=2)
        self.grid_limit = check_number("grid_limit", grid_limit, exclusive=True)
        self.num_conditions = check_count("num_conditions", num_conditions)
        self.uniform_dimensions = check_choice(
            "uniform_dimensions", uniform_dimensions, (1, 2)
        )
        self.track_terms(*self._active_terms())

    def _active_terms(self) -> list[str]:
        if self.is_off("weight"):
            return []
        return [term for term in TERMS if not self.is_off(f"{term}_weight")]

    def add_terms(self, z: Tensor, weights: Tensor | None = None) -> None:
        values = cliff_terms(
            z,
            bandwidth=self.value_of("bandwidth"),
            num_grid=self.num_grid,
            grid_limit=self.grid_limit,
            num_conditions=self.num_conditions,
            seed=self.seed_generator,
            terms=self._active_terms(),
            weights=weights,
            uniform_dimensions=self.uniform_dimensions,
        )
        self.add_weighted(values, scale=self.value_of("weight"))
