"""Metrics inside layers, under Keras's JAX trainer.

That trainer takes the state apart: a step is handed the variables of layers, from which
the forward pass reads and to which it writes, and apart from these the variables of
metrics, which it may not touch. A metric that a layer updates in its `call` is thus out
of reach. So on JAX the layers of this package count the variables of their metrics
among their own, and show Keras views of the metrics that own none.
"""

from collections.abc import Iterable
from typing import Any

import keras
import numpy as np

from qlayers.backend import Tensor


class MetricView(keras.metrics.Metric):
    """Shows a metric without owning its variables.

    While a compiled step runs, the state is not to be seen and the result is NaN, which
    is what the progress bar shows during an epoch. At the end of the epoch, in the
    history and wherever else it is read, the result is the metric's.

    Args:
        metric: The metric to show.
    """

    def __init__(self, metric: keras.metrics.Metric) -> None:
        super().__init__(name=metric.name)
        # Not through setattr, which would make the metric's variables this one's.
        self.__dict__["_shown"] = metric

    def update_state(self, *args: Any, **kwargs: Any) -> None:
        self.__dict__["_shown"].update_state(*args, **kwargs)

    def reset_state(self) -> None:
        self.__dict__["_shown"].reset_state()

    def result(self) -> Tensor | dict[str, Tensor]:
        metric = self.__dict__["_shown"]
        if _are_readable(metric.variables):
            return metric.result()
        if not getattr(metric, "is_counted", True):
            return {}
        names = getattr(metric, "result_names", None)
        return np.nan if names is None else dict.fromkeys(names(), np.nan)


def views_of(
    metrics: Iterable[keras.metrics.Metric], known: dict[int, MetricView]
) -> list[keras.metrics.Metric]:
    """One view for each metric, always the same one.

    Args:
        metrics: Metrics; those that are views already are kept.
        known: Views made so far, by the identity of what they show.
    """
    views: list[keras.metrics.Metric] = []
    for metric in metrics:
        if isinstance(metric, MetricView):
            views.append(metric)
            continue
        if id(metric) not in known:
            known[id(metric)] = MetricView(metric)
        views.append(known[id(metric)])
    return views


def _are_readable(variables: Iterable[keras.Variable]) -> bool:
    """False while the trainer has taken the values out of the variables."""
    try:
        for variable in variables:
            _ = variable.value
    except Exception:
        return False
    return True
