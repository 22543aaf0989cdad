"""Base of every layer that adds named loss terms."""

import threading
from typing import Any

import keras
from keras import ops

from qlayers.backend import Tensor, as_float32
from qlayers.jax_metrics import views_of
from qlayers.random_state import SavesRandomState
from qlayers.schedules import (
    Schedulable,
    check_schedulable,
    is_scheduled,
    serialize_schedulable,
    value_at,
)


class TermLayer(SavesRandomState, keras.layers.Layer):
    """A layer whose loss terms are weighted, annealed and visible one by one.

    Subclasses name their terms once, in the constructor, with `track_terms`, and add
    them in `call` with `add_term`. Every term gets a running mean of its *unweighted*
    value, which Keras shows in the progress bar and in the history as
    `<layer name>_<term name>`.

    Quantities declared with `schedulable` may be numbers or schedules. If one is a
    schedule, the layer counts its training calls and the schedule is read at that
    count, starting from 0. A loop that calls the layer more than once a step, and
    means the step, sets `layer.training_step` itself.

    Constructor arguments that the layer keeps under their own names stand in
    `config_names`, those of a subclass beside those of its bases: `get_config` needs no
    more of them.

    A layer that draws random numbers assigns `seed_generator`; its state is saved with
    the weights. Nothing here follows the dtype policy but the output: terms are
    computed in float32.
    """

    config_names: tuple[str, ...] = ()

    def __init__(self, **kwargs: Any) -> None:
        # Inputs arrive as they are: rounding them to half precision on entry would
        # move them to other codes.
        kwargs.setdefault("autocast", False)
        super().__init__(**kwargs)
        self._trackers: dict[str, keras.metrics.Metric] = {}
        self._schedulable_names: list[str] = []
        self.training_step: Any = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        of_thread = self._of_thread()
        before = of_thread.get("samples")
        of_thread["samples"] = _batch_size(*args, *kwargs.values())
        try:
            return super().__call__(*args, **kwargs)
        finally:
            of_thread["samples"] = before

    # `tf.distribute` runs the replicas of a step as threads that take turns whenever
    # replicas exchange something. Keras keeps the losses of a layer in one list, which
    # the next replica clears when its turn comes; so here each thread has its own.

    def _of_thread(self) -> dict[str, Any]:
        return self.__dict__.setdefault("_of_threads", threading.local()).__dict__

    @property
    def _losses(self) -> list[Tensor]:
        return self._of_thread().setdefault("losses", [])

    @_losses.setter
    def _losses(self, losses: list[Tensor]) -> None:
        self._losses[:] = losses

    # What Keras's JAX trainer needs; `qlayers.jax_metrics` says why.

    @property
    def variables(self) -> list[keras.Variable]:
        variables = super().variables
        if keras.backend.backend() != "jax":
            return variables
        return variables + [v for metric in self._metrics for v in metric.variables]

    @property
    def metrics(self) -> list[keras.metrics.Metric]:
        metrics = super().metrics
        if keras.backend.backend() != "jax":
            return metrics
        return views_of(metrics, self.__dict__.setdefault("_metric_views", {}))

    def schedulable(
        self, name: str, value: Any, minimum: float = 0.0, exclusive: bool = False
    ) -> Schedulable:
        """Checks a number or schedule and remembers it for the config."""
        self._schedulable_names.append(name)
        return check_schedulable(name, value, minimum, exclusive)

    @property
    def schedulable_names(self) -> tuple[str, ...]:
        """Names of the attributes that may be schedules; `value_of(name)` reads one."""
        return tuple(self._schedulable_names)

    def track_terms(self, *names: str) -> None:
        """Makes one running mean for each named term."""
        for name in names:
            self._trackers[name] = keras.metrics.Mean(name=f"{self.name}_{name}")

    def add_state(
        self, name: str, shape: tuple[int, ...] = (), initializer: Any = "zeros"
    ) -> keras.Variable:
        """Adds a float32 weight that no optimizer trains."""
        # Every replica assigns the same values; "mean" keeps their copies equal.
        return self.add_weight(
            name=name,
            shape=shape,
            dtype="float32",
            initializer=initializer,
            trainable=False,
            autocast=False,
            aggregation="mean",
        )

    def build_step(self, always: bool = False) -> None:
        """Creates the step counter if any quantity is scheduled, or `always`."""
        scheduled = (getattr(self, name) for name in self._schedulable_names)
        if always or any(is_scheduled(value) for value in scheduled):
            self.training_step = self.add_weight(
                name="training_step",
                shape=(),
                dtype="int32",
                initializer="zeros",
                trainable=False,
                aggregation="only_first_replica",
            )

    def value_of(self, name: str) -> Tensor | float:
        """The value of the schedulable attribute `name` at the current step."""
        return value_at(getattr(self, name), self.training_step)

    def advance_step(self, training: bool | None) -> None:
        """Counts one training call. To be called last in `call`."""
        if training and self.training_step is not None:
            self.training_step.assign(self.training_step + 1)

    def is_off(self, name: str) -> bool:
        """Whether a weight is the number 0, so that its term need not be computed."""
        value = getattr(self, name)
        return not is_scheduled(value) and value == 0.0

    def add_loss(self, loss: Any) -> None:
        """As in Keras, which adds up losses of the type `keras.config.floatx()`."""
        floatx = keras.config.floatx()
        super().add_loss([ops.cast(each, floatx) for each in keras.tree.flatten(loss)])

    def add_term(self, name: str, value: Tensor, weight: Tensor | float) -> None:
        """Tracks `value` and adds `weight * value` to the losses."""
        value = as_float32(value)
        self.show_term(name, ops.stop_gradient(value))
        self.add_loss(as_float32(weight) * value)

    def show_term(self, name: str, value: Tensor) -> None:
        """Tracks `value`, which counts as often as the batch has samples.

        Keras counts its own loss like this: a last, smaller batch counts for less.
        """
        samples = self._of_thread().get("samples")
        if samples is not None:
            samples = self._weight_of(as_float32(samples))
        self._trackers[name].update_state(value, sample_weight=samples)

    def _weight_of(self, samples: Tensor) -> Tensor:
        """How much a replica's term counts: it is a mean over its own samples."""
        return samples

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        for name in self._schedulable_names:
            config[name] = serialize_schedulable(getattr(self, name))
        for base in reversed(type(self).__mro__):
            for name in vars(base).get("config_names", ()):
                config[name] = getattr(self, name)
        return config


def _batch_size(*arguments: Any) -> Any:
    """First dimension of the first tensor; None where it is not known yet."""
    for value in arguments:
        if isinstance(value, keras.KerasTensor) or not hasattr(value, "shape"):
            continue
        return ops.shape(value)[0] if len(value.shape) else None
    return None
