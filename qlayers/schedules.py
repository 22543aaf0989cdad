"""Quantities that are a number or a Keras schedule over training steps."""

from typing import Any, TypeAlias

import keras
from keras import ops

from qlayers.backend import Tensor
from qlayers.checks import check_number

LearningRateSchedule = keras.optimizers.schedules.LearningRateSchedule
Schedulable: TypeAlias = float | keras.optimizers.schedules.LearningRateSchedule
"""A float, or a `LearningRateSchedule` whose value at a training step is meant."""


def check_schedulable(
    name: str, value: Any, minimum: float = 0.0, exclusive: bool = False
) -> Schedulable:
    """Returns a float or a schedule; a serialized schedule is restored.

    Args:
        name: Name of the argument, for the message.
        value: Number, `LearningRateSchedule`, or the serialized form of one.
        minimum: Smallest number allowed. The values of a schedule are not checked.
        exclusive: Whether `minimum` itself is refused.
    """
    if isinstance(value, dict):
        value = keras.optimizers.schedules.deserialize(value)
    if isinstance(value, LearningRateSchedule):
        return value
    try:
        return check_number(name, value, minimum, exclusive)
    except ValueError as error:
        raise ValueError(
            f"{error} A `keras.optimizers.schedules.LearningRateSchedule` is also "
            "accepted."
        ) from None


def serialize_schedulable(value: Schedulable) -> Any:
    """The form of a schedulable quantity that goes into a layer's config."""
    if isinstance(value, LearningRateSchedule):
        return keras.optimizers.schedules.serialize(value)
    return value


def is_scheduled(value: Schedulable) -> bool:
    """Whether the quantity changes with the training step."""
    return isinstance(value, LearningRateSchedule)


def value_at(value: Schedulable, step: Tensor) -> Tensor | float:
    """The quantity at a training step: a float, or a float32 scalar tensor."""
    if isinstance(value, LearningRateSchedule):
        return ops.cast(value(step), "float32")
    return value
