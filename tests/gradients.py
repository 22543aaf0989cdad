"""Gradients of a layer on the active backend, as NumPy arrays."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np


@dataclass(frozen=True)
class Gradients:
    """What a layer returned and what came back.

    Attributes:
        outputs: The layer's outputs as float64 arrays.
        inputs: Gradient of the loss in the inputs.
        variables: Gradient in each trainable variable of the layer, by name.
    """

    outputs: list[np.ndarray]
    inputs: np.ndarray
    variables: dict[str, np.ndarray]


def gradients(
    layer: Any,
    x: np.ndarray,
    downstream: Callable[[Any], Any] | None = None,
    add_losses: bool = False,
    **call_args: Any,
) -> Gradients:
    """Differentiates `downstream(first output) + the layer's own losses`.

    Args:
        layer: A built layer.
        x: Inputs.
        downstream: Scalar function of the first output; default: none of it.
        add_losses: Whether the layer's losses count.
        **call_args: Passed to the layer.
    """

    def total(outputs: list[Any], losses: list[Any]) -> Any:
        value = downstream(outputs[0]) if downstream else 0.0 * _sum(outputs[0])
        return value + sum(losses) if add_losses else value

    differentiate = {
        "tensorflow": _tensorflow_gradients,
        "jax": _jax_gradients,
        "torch": _torch_gradients,
    }[keras.backend.backend()]
    outputs, dx, dv = differentiate(layer, x, total, call_args)
    names = [variable.name for variable in layer.trainable_variables]
    return Gradients(
        outputs=[as_float64(output) for output in outputs],
        inputs=_dense(dx, x.shape),
        variables={
            name: _dense(gradient, variable.shape)
            for name, gradient, variable in zip(
                names, dv, layer.trainable_variables, strict=True
            )
        },
    )


def gradient_of(function: Callable[[Any], Any], x: np.ndarray) -> np.ndarray:
    """Gradient of a scalar function of one tensor."""
    backend = keras.backend.backend()
    if backend == "tensorflow":
        import tensorflow as tf

        tensor = tf.constant(x)
        with tf.GradientTape() as tape:
            tape.watch(tensor)
            value = function(tensor)
        return _dense(tape.gradient(value, tensor), x.shape)
    if backend == "jax":
        import jax

        return as_float64(jax.grad(function)(jax.numpy.asarray(x)))
    import torch

    tensor = torch.tensor(x, requires_grad=True)
    value = function(tensor)
    if value.requires_grad:  # else nothing leads back to the tensor
        value.backward()
    return _dense(tensor.grad, x.shape)


def as_float64(x: Any) -> np.ndarray:
    return np.asarray(keras.ops.convert_to_numpy(x), dtype="float64")


def _sum(x: Any) -> Any:
    return keras.ops.sum(x)


def _as_list(outputs: Any) -> list[Any]:
    return list(outputs) if isinstance(outputs, tuple | list) else [outputs]


def _dense(gradient: Any, shape: Any) -> np.ndarray:
    """No gradient at all counts as zeros."""
    if gradient is None:
        return np.zeros(tuple(shape))
    if hasattr(gradient, "detach"):
        gradient = gradient.detach()
    return as_float64(gradient)


def _tensorflow_gradients(layer: Any, x: np.ndarray, total: Any, call_args: Any) -> Any:
    import tensorflow as tf

    tensor = tf.constant(x)
    with tf.GradientTape() as tape:
        tape.watch(tensor)
        outputs = _as_list(layer(tensor, **call_args))
        value = total(outputs, layer.losses)
    variables = [variable.value for variable in layer.trainable_variables]
    dx, dv = tape.gradient(value, (tensor, variables))
    return outputs, dx, [None if g is None else tf.convert_to_tensor(g) for g in dv]


def _jax_gradients(layer: Any, x: np.ndarray, total: Any, call_args: Any) -> Any:
    import jax

    trainable = [variable.value for variable in layer.trainable_variables]
    fixed = [variable.value for variable in layer.non_trainable_variables]

    def value_of(tensor: Any, variables: Any) -> Any:
        outputs, _, losses = layer.stateless_call(
            variables, fixed, tensor, return_losses=True, **call_args
        )
        outputs = _as_list(outputs)
        return total(outputs, losses), outputs

    (dx, dv), outputs = jax.grad(value_of, argnums=(0, 1), has_aux=True)(
        jax.numpy.asarray(x), trainable
    )
    return outputs, dx, dv


def _torch_gradients(layer: Any, x: np.ndarray, total: Any, call_args: Any) -> Any:
    import torch

    parameters = [variable.value for variable in layer.trainable_variables]
    for parameter in parameters:
        parameter.grad = None
    tensor = torch.tensor(x, requires_grad=True)
    outputs = _as_list(layer(tensor, **call_args))
    total(outputs, layer.losses).backward()
    outputs = [output.detach() for output in outputs]
    return outputs, tensor.grad, [parameter.grad for parameter in parameters]
