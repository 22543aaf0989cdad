"""One replica's part of what concerns the batch of all replicas together."""

from keras import ops

from qlayers.backend import Tensor, gather_global_batch, num_replicas, sum_over_replicas


def gather_samples(own: Tensor) -> Tensor:
    """The samples of all replicas together.

    Args:
        own: This replica's samples, on the first axis.
    """
    # Gathering forgets the sizes of the other axes.
    return ops.reshape(gather_global_batch(own), (-1, *own.shape[1:]))


def part_of_replica(of_all: Tensor, own: Tensor) -> Tensor:
    """The rows of `of_all`, one per sample of the global batch, that match `own`.

    Args:
        of_all: Tensor with the global batch on its first axis.
        own: Tensor with this replica's batch on its first axis.
    """
    if num_replicas() == 1:
        return of_all
    import tensorflow as tf

    size = tf.shape(own)[0]
    sizes = gather_global_batch(tf.expand_dims(size, 0))
    position = tf.distribute.get_replica_context().replica_id_in_sync_group
    start = tf.reduce_sum(tf.where(tf.range(tf.shape(sizes)[0]) < position, sizes, 0))
    return of_all[start : start + size]


def share_of_samples(own: Tensor) -> Tensor | float:
    """This replica's number of samples in units of the average replica's.

    A mean over a replica's samples, times this, averaged over replicas, is the mean
    over all samples, also when the replicas' batches differ in size.
    """
    if num_replicas() == 1:
        return 1.0
    size = ops.cast(ops.shape(own)[0], "float32")
    return num_replicas() * size / sum_over_replicas(size)
