"""How the loop trains: one step at a time, or several in one compiled call."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

Rows = list[Mapping[str, Any]]


class TrainingStep:
    """Trains a compiled model, `steps_per_call` steps at most in one call.

    Several steps in a call leave Python out between them, which is what small networks
    on a fast device wait for. They are the same steps, bit for bit.

    Keras's own step returns what the first replica saw, and fails with several workers
    (it reduces scalars along an axis). Under a strategy the running means are therefore
    read from the variables, summed over all replicas, and only when they are wanted.

    Args:
        model: Compiled model.
        strategy: The strategy that it was built under, or None.
        steps_per_call: Steps that a call may take.
    """

    def __init__(
        self, model: Any, strategy: Any = None, steps_per_call: int = 1
    ) -> None:
        self.model = model
        self._rows: Rows = []
        several = steps_per_call > 1
        if strategy is not None:
            self._call = _of_replicas(model, strategy, several)
        elif several:
            self._call = _of_several_steps(model)
        else:
            model.make_train_function()
            self._call = lambda iterator, count: [model.train_function(iterator)]

    def train(self, iterator: Any, count: int = 1) -> Rows:
        """Takes steps.

        Args:
            iterator: Iterator over batches.
            count: How many; 1 unless `steps_per_call` is larger.

        Returns:
            The running means after each step; an empty list under a strategy.
        """
        self._rows = self._call(iterator, count)
        return self._rows

    def means(self) -> Mapping[str, Any]:
        """The running means after the last step."""
        return self._rows[-1] if self._rows else self.model.get_metrics_result()


def _of_several_steps(model: Any) -> Callable[[Any, int], Rows]:
    """Steps in a loop of the graph; the means of each come back together."""
    # A function of its own: traced once, although the loop's body calls it too.
    step = tf.function(
        model.train_step,
        jit_compile=True if model.jit_compile else None,
        autograph=False,
    )

    @tf.function(autograph=False)
    def steps(iterator: Any, count: Any) -> dict[str, Any]:
        means = step.get_concrete_function(iterator.element_spec).structured_outputs
        rows = {
            name: tf.TensorArray(mean.dtype, count, element_shape=mean.shape)
            for name, mean in means.items()
        }

        def body(i: Any, rows: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
            found = step(next(iterator))
            return i + 1, {name: rows[name].write(i, found[name]) for name in rows}

        start = tf.constant(0), rows
        _, rows = tf.while_loop(
            lambda i, _: i < count, body, start, parallel_iterations=1
        )
        return {name: array.stack() for name, array in rows.items()}

    def call(iterator: Any, count: int) -> Rows:
        table = steps(iterator, tf.constant(count))
        found = {name: np.asarray(column) for name, column in table.items()}
        return [
            {name: column[i] for name, column in found.items()} for i in range(count)
        ]

    return call


def _of_replicas(
    model: Any, strategy: Any, several: bool
) -> Callable[[Any, int], Rows]:
    train_step = tf.autograph.experimental.do_not_convert(model.train_step)

    @tf.function
    def step(iterator: Any) -> None:
        strategy.run(train_step, args=(next(iterator),))

    @tf.function
    def steps(iterator: Any, count: Any) -> None:
        for _ in tf.range(count):
            strategy.run(train_step, args=(next(iterator),))

    def call(iterator: Any, count: int) -> Rows:
        if several:
            steps(iterator, tf.constant(count))
        else:
            step(iterator)
        return []

    return call
