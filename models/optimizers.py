"""Optimizers with the papers' partition of weight decay."""

import functools
import inspect
from collections.abc import Callable
from typing import Any

import keras

from qlayers.schedules import (
    Schedulable,
    check_schedulable,
    is_scheduled,
    serialize_schedulable,
    value_at,
)

# Bias vectors, shifts of normalizations and codebooks are trained by plain Adam.
UNDECAYED = ("bias", "beta", "codebook")


def is_decayed(variable: Any) -> bool:
    """Whether the papers' partition has a variable among those that are regularized."""
    return not any(name in variable.name for name in UNDECAYED)


def make_adam(
    learning_rate: Any = 1e-3,
    weight_decay: Schedulable = 0.0,
    beta_1: float = 0.9,
    beta_2: float = 0.999,
    clip_value: float | None = None,
    clip_all: bool = False,
    name: str = "adam",
) -> keras.optimizers.Optimizer:
    """Adam, with decoupled weight decay on everything but biases and codebooks.

    Args:
        learning_rate: Number or schedule.
        weight_decay: Decay per step, times the learning rate. 0 makes plain Adam. A
            schedule that is 0 for the first half is one of QLAE's negative results.
        beta_1: Decay of the first moment.
        beta_2: Decay of the second moment.
        clip_value: Gradients are clipped elementwise to this size; None: not at all.
        clip_all: Whether gradients of biases and codebooks are clipped too, as in
            Tripod's public code. QLAE's clips what it decays.
        name: Name of the optimizer.

    Example:

    ```python
    model.compile(make_adam(1e-3, weight_decay=0.1))
    ```

    Reference:
        Loshchilov and Hutter 2019; Hsu et al. 2023, Algorithm 2 (the partition) and
        appendix B.4 (the schedule).
    """
    settings = {
        "learning_rate": learning_rate,
        "beta_1": beta_1,
        "beta_2": beta_2,
        "epsilon": 1e-8,
        "name": name,
    }
    clips_partly = clip_value is not None and not clip_all
    if not clips_partly:
        settings["clipvalue"] = clip_value
    if not clips_partly and not is_scheduled(weight_decay) and not weight_decay:
        return keras.optimizers.Adam(**settings)
    return PartitionedAdamW(
        weight_decay=weight_decay,
        clip_decayed=clip_value if clips_partly else None,
        **settings,
    )


@keras.saving.register_keras_serializable(package="models")
class PartitionedAdamW(keras.optimizers.AdamW):
    """AdamW that leaves biases and codebooks alone, also after it was saved.

    (Keras's own exclusions are not part of an optimizer's config.)

    Args:
        weight_decay: Number or schedule.
        clip_decayed: Gradients of what is decayed are clipped elementwise to this
            size; None: not at all.
        **settings: Arguments of `keras.optimizers.AdamW`.

    Example:

    ```python
    model.compile(PartitionedAdamW(learning_rate=1e-3, weight_decay=0.1))
    ```

    Reference:
        Hsu et al. 2023, Algorithm 2.
    """

    def __init__(
        self,
        *,
        weight_decay: Schedulable = 0.0,
        clip_decayed: float | None = None,
        **settings: Any,
    ) -> None:
        weight_decay = check_schedulable("weight_decay", weight_decay)
        super().__init__(weight_decay=weight_decay, **settings)
        self.clip_decayed = clip_decayed
        self.exclude_from_weight_decay(var_names=list(UNDECAYED))

    @property
    def weight_decay(self) -> Any:
        """The decay at the current step."""
        return value_at(self._decay, self.iterations)

    @weight_decay.setter
    def weight_decay(self, value: Any) -> None:
        self._decay = value

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "weight_decay": serialize_schedulable(self._decay),
            "clip_decayed": self.clip_decayed,
        }

    def apply(self, grads: Any, trainable_variables: Any = None) -> Any:
        if trainable_variables is None:
            trainable_variables = self._trainable_variables
        trainable_variables = list(trainable_variables)
        clipped = [
            self._clipped(gradient, variable)
            for gradient, variable in zip(grads, trainable_variables, strict=True)
        ]
        return super().apply(clipped, trainable_variables)

    def _clipped(self, gradient: Any, variable: Any) -> Any:
        limit = self.clip_decayed
        if gradient is None or limit is None or not is_decayed(variable):
            return gradient
        return keras.ops.clip(gradient, -limit, limit)


def adam_maker(**settings: Any) -> Callable[[], keras.optimizers.Optimizer]:
    """`make_adam` with arguments that are checked now and used later.

    Raises:
        TypeError: If `make_adam` does not know an argument.
    """
    inspect.signature(make_adam).bind(**settings)
    return functools.partial(make_adam, **settings)
