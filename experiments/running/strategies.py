"""Training on several devices or machines with `tf.distribute`."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from experiments.settings.config import RunConfig
from qlayers.backend import mirrored_strategy


def make_strategy(name: str) -> tf.distribute.Strategy | None:
    """The strategy of a name, or None for one device.

    `multiworker` reads the cluster from the environment variable `TF_CONFIG` and must
    be made before TensorFlow has run anything.
    """
    if name == "none":
        return None
    if name == "mirrored":
        return mirrored_strategy()
    return tf.distribute.MultiWorkerMirroredStrategy()


def is_chief(strategy: tf.distribute.Strategy | None) -> bool:
    """Whether this process writes the files of the run."""
    if not isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        return True
    return strategy.cluster_resolver.task_id in (0, None)


def check_replicas(config: RunConfig, strategy: tf.distribute.Strategy | None) -> None:
    """Raises a ValueError if the batch cannot be shared out evenly."""
    replicas = 1 if strategy is None else strategy.num_replicas_in_sync
    if config.batch_size % replicas:
        raise ValueError(
            f"`batch_size` is the global batch and must be a multiple of the "
            f"{replicas} replicas; received {config.batch_size}."
        )


def distribute(stream: tf.data.Dataset, strategy: tf.distribute.Strategy | None) -> Any:
    """Gives every replica its slice of each batch, the same at every start."""
    if strategy is None:
        return stream
    replicas = strategy.num_replicas_in_sync

    def part(context: tf.distribute.InputContext) -> tf.data.Dataset:
        workers = context.num_input_pipelines
        local = replicas // workers
        first = context.input_pipeline_id * local

        def slices(*batch: Any) -> tf.data.Dataset:
            nested = batch[0] if len(batch) == 1 else batch
            pieces = tf.nest.map_structure(
                lambda x: tf.stack(tf.split(x, replicas)[first : first + local]), nested
            )
            return tf.data.Dataset.from_tensor_slices(pieces)

        return stream.flat_map(slices)

    return strategy.distribute_datasets_from_function(part)


def make_step(
    model: Any, strategy: tf.distribute.Strategy | None
) -> tuple[Callable[[Any], Any], Callable[[Any], dict[str, Any]]]:
    """How to train one step, and how to read the running means after it.

    Keras's own step returns what the first replica saw, and fails with several workers
    (it reduces scalars along an axis). Here the means are read from the variables,
    summed over all replicas, and only when they are wanted.

    Args:
        model: Compiled model.
        strategy: The strategy that it was built under.

    Returns:
        `(step, read)`: `step(iterator)` trains, `read(what step returned)` gives the
        loss terms.
    """
    if strategy is None:
        model.make_train_function()
        return model.train_function, lambda logs: logs

    @tf.function
    def step(iterator: Any) -> None:
        strategy.run(
            tf.autograph.experimental.do_not_convert(model.train_step),
            args=(next(iterator),),
        )

    return step, lambda _: model.get_metrics_result()
