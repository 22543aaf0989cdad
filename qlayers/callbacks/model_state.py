"""The state of a model that `fit` is training, for callbacks that use the model."""

import contextlib
from collections.abc import Iterator
from typing import Any

import keras


def synchronize(model: keras.Model) -> None:
    """Puts the current values into the variables.

    On JAX `fit` holds the state elsewhere while it runs. It takes what the variables
    hold after this, so that they may be changed.
    """
    jax_state_sync = getattr(model, "jax_state_sync", None)
    if jax_state_sync is not None:
        jax_state_sync()


@contextlib.contextmanager
def uncounted(model: keras.Model) -> Iterator[None]:
    """Within it the model may be called on inputs that are none of `fit`'s.

    Layers count what passes through them. Running means of losses, metrics and usage
    are afterwards what they were before.
    """
    synchronize(model)
    kept = [(v, keras.ops.convert_to_numpy(v)) for v in _metrics_variables(model)]
    try:
        yield
    finally:
        for variable, value in kept:
            variable.assign(value)


def _metrics_variables(model: keras.Model) -> list[Any]:
    variables = list(model.metrics_variables)
    # On JAX layers of qlayers show `fit` metrics without variables.
    for layer in model._flatten_layers():
        variables += [v for metric in layer._metrics for v in metric.variables]
    return list({id(variable): variable for variable in variables}.values())
