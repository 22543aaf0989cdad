"""Training on several devices or machines with `tf.distribute`."""

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
