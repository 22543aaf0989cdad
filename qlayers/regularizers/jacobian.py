"""Orthogonality of a decoder's Jacobian."""

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from qlayers.backend import Tensor
from qlayers.functional.jacobian_orthogonality import (
    draw_halves,
    orthogonality_of_samples,
)
from qlayers.regularizers.hessian_base import BaseHessianPenalty
from qlayers.schedules import Schedulable


@keras.saving.register_keras_serializable(package="qlayers")
class JacobianOrthogonality(BaseHessianPenalty):
    """Wraps a decoder; asks that latents change the output in orthogonal directions.

    Called on latents it returns `decoder(z)` and in training adds `weight` times an
    estimate from the decoder's Jacobian `J`: with random signs on two random halves of
    the latents, `s` and `t`,

        normalised:      E[(Js · Jt)^2 / (|Js|^2 |Jt|^2)],      0 to 1,
        not normalised:  sum_{i != j} (J' J)[i, j]^2,           in expectation,

    both 0 exactly if all columns of `J` are orthogonal. The perturbations of a
    normalised penalty have the latents' standard deviations, so that rescaling a latent
    does not change it. Where the Hessian penalty asks that effects add up, this asks
    that they can be told apart in the output, dependent sources or not. Tracked as
    `<name>_jacobian_orthogonality`. The gradient is that of the finite differences; see
    `qlayers.functional.jacobian_orthogonality`.

    Args:
        decoder: Keras layer or model that maps `(batch, n)` to one or more tensors. It
            belongs to this layer: use the layer, not the decoder, in the model.
        weight: Weight of the penalty, a number or a schedule; 0 switches it off.
        num_perturbations: Number of random halves; each decodes four points a sample.
        epsilon: Step of the finite differences.
        normalized: Whether the penalty is a squared cosine.
        outputs: Names of inner layers whose outputs are regularized together. Default:
            the decoder's outputs.
        batch_fraction: Part of the batch, chosen at random, that is perturbed.
        step_interval: Compute the penalty only at every so many steps, with as many
            times the weight.
        **kwargs: `seed` and `at_inference` of the regularizers and those of
            `keras.layers.Layer`.

    Example:

    ```python
    outputs = qlayers.JacobianOrthogonality(decoder, weight=0.1)(z)
    ```

    Reference:
        Wei et al. 2021, Orthogonal Jacobian Regularization for Unsupervised
        Disentanglement in Image Generation; random Jacobian-vector products for
        identifiability without independent sources: arXiv 2606.21385.
    """

    may_read = ("continuous",)
    config_names = ("normalized",)
    term = "jacobian_orthogonality"
    fewest_perturbations = 1

    def __init__(
        self,
        decoder: keras.layers.Layer,
        weight: Schedulable,
        num_perturbations: int = 1,
        epsilon: float = 0.1,
        normalized: bool = True,
        outputs: Sequence[str] | None = None,
        batch_fraction: float = 1.0,
        step_interval: int = 1,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            decoder,
            weight,
            num_perturbations,
            epsilon,
            outputs,
            batch_fraction=batch_fraction,
            step_interval=step_interval,
            **kwargs,
        )
        self.normalized = bool(normalized)

    @property
    def _is_scaled(self) -> bool:
        return self.normalized

    def _draw(self, num_samples: Any, n: int) -> Tensor:
        return draw_halves(num_samples, n, self.num_perturbations, self.seed_generator)

    def _measure(self, own: Tensor, directions: Tensor) -> Tensor:
        settings = (self.epsilon, self.normalized)
        return ops.mean(
            orthogonality_of_samples(self._decode, own, directions, *settings)
        )

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        for name in ("aggregate", "directions"):
            del config[name]
        return config
