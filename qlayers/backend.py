"""The few questions that `keras.ops` cannot answer the same way everywhere."""

import functools
from typing import Any, TypeAlias

import keras
from keras import ops

Tensor: TypeAlias = Any
"""A tensor of the active backend, a KerasTensor or an array."""


def is_eager(x: Tensor) -> bool:
    """Whether the values of `x` can be looked at now (no graph, no tracing)."""
    if isinstance(x, keras.KerasTensor):
        return False
    backend = keras.backend.backend()
    if backend == "tensorflow":
        import tensorflow as tf

        return tf.executing_eagerly()
    if backend == "jax":
        import jax

        return not isinstance(x, jax.core.Tracer)
    import torch

    is_meta = isinstance(x, torch.Tensor) and x.device.type == "meta"
    return not is_meta and not torch.compiler.is_compiling()


@functools.cache
def mirrored_strategy() -> Any:
    """`tf.distribute` over all GPUs, or all CPUs; one object for the process.

    A second one would use the collective keys of the first again, which TensorFlow
    answers with "Shape mismatch in the collective".
    """
    import tensorflow as tf

    devices = tf.config.list_logical_devices("GPU")
    devices = devices or tf.config.list_logical_devices("CPU")
    return tf.distribute.MirroredStrategy([device.name for device in devices])


def num_replicas() -> int:
    """Number of `tf.distribute` replicas that run the current call together."""
    if keras.backend.backend() != "tensorflow":
        return 1
    import tensorflow as tf

    context = tf.distribute.get_replica_context()
    return 1 if context is None else context.num_replicas_in_sync


def gather_global_batch(x: Tensor) -> Tensor:
    """Concatenates `x` of all replicas along the batch axis.

    Batch statistics must not depend on how many devices share a batch. The gradient
    of the gathering sums what every replica sends back, so that a loss computed from
    the gathered tensor on each replica and averaged over replicas (which is what Keras
    does with `add_loss`) has the gradient of the same loss on one device.
    """
    if num_replicas() == 1:
        return x
    import tensorflow as tf

    return tf.distribute.get_replica_context().all_gather(x, axis=0)


def sum_over_replicas(x: Tensor) -> Tensor:
    """Adds up `x` of all replicas."""
    if num_replicas() == 1:
        return x
    import tensorflow as tf

    context = tf.distribute.get_replica_context()
    return context.all_reduce(tf.distribute.ReduceOp.SUM, x)


def read_variable(variable: Any) -> Tensor:
    """The value of a variable as a tensor, read at this place.

    `keras.ops.convert_to_tensor` gives TensorFlow's variable itself, which each
    operation reads again. Where an optimizer changes the variable in the same graph,
    TensorFlow 2.21 forgets to wait for reads that no gradient passes through, and some
    of them come too late. A read that a gradient passes through comes in time: let the
    others share it.
    """
    if keras.backend.backend() != "tensorflow":
        return ops.convert_to_tensor(variable)
    import tensorflow as tf

    return tf.identity(variable)


def first_argmin(x: Tensor) -> Tensor:
    """int32 index of the smallest entry along the last axis, the first of several.

    `keras.ops.argmin` would order -0.0 before 0.0, so that the two were no tie, and on
    TensorFlow that costs more than the search itself.
    """
    backend = keras.backend.backend()
    if isinstance(x, keras.KerasTensor):
        return ops.cast(ops.argmin(x, axis=-1), "int32")
    if backend == "tensorflow":
        import tensorflow as tf

        return tf.argmin(x, axis=-1, output_type="int32")
    if backend == "jax":
        import jax

        return jax.numpy.argmin(x, axis=-1).astype("int32")
    import torch

    return torch.argmin(x, dim=-1).to(torch.int32)


def select(condition: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Entries of `x` where the condition holds, of `y` elsewhere; all of one shape.

    What `keras.ops.where` uses on TensorFlow allows for other shapes, and takes three
    times as long.
    """
    tensors = (condition, x, y)
    is_symbolic = any(isinstance(each, keras.KerasTensor) for each in tensors)
    if keras.backend.backend() != "tensorflow" or is_symbolic:
        return ops.where(condition, x, y)
    import tensorflow as tf

    return tf.raw_ops.Select(condition=condition, x=x, y=y)


def sum_by_integer(x: Tensor, integers: Tensor, size: int) -> Tensor:
    """Sums of the rows that have the same integer, float32 `(size, dim)`.

    Args:
        x: Rows of shape `(samples, dim)`.
        integers: int32 `(samples,)`, below `size`; rows with -1 are left out, NaN
            included.
        size: Number of sums.
    """
    if keras.backend.backend() == "tensorflow" and not isinstance(x, keras.KerasTensor):
        import tensorflow as tf

        # Reads every row once, where a product with one-hot vectors does `size` times.
        return tf.math.unsorted_segment_sum(x, integers, size)
    x = ops.where(ops.expand_dims(integers, -1) < 0, 0.0, x)
    member = ops.one_hot(integers, size, dtype="float32")
    return ops.matmul(ops.transpose(member), x)


def count_integers(x: Tensor, size: int) -> Tensor:
    """How often each number below `size` occurs, float32 `(size,)`.

    Args:
        x: Integers from 0 to `size - 1`, of shape `(samples,)`.
        size: Number of counts.
    """
    if keras.backend.backend() == "tensorflow" and not isinstance(x, keras.KerasTensor):
        import tensorflow as tf

        # One operation instead of ones and their sums by segments.
        no_weights = tf.zeros((0,), "float32")
        return tf.raw_ops.Bincount(arr=x, size=size, weights=no_weights)
    ones = ops.ones_like(x, dtype="float32")
    return ops.segment_sum(ones, x, num_segments=size)


def take_rows(table: Tensor, index: Tensor) -> Tensor:
    """Rows of a table at integer positions, of any shape, none of them negative.

    `keras.ops.take` looks for negative positions, which on TensorFlow costs three
    passes over them, as much as the taking.
    """
    if keras.backend.backend() != "tensorflow" or isinstance(index, keras.KerasTensor):
        return ops.take(table, index, axis=0)
    import tensorflow as tf

    return tf.gather(table, index)


def take_numbers(numbers: Tensor, index: Tensor) -> Tensor:
    """Entries of a vector at integer positions of any shape, none of them negative."""
    if keras.backend.backend() != "torch":
        return take_rows(numbers, index)
    # PyTorch's exporter to ONNX knows how to take rows of a matrix only.
    return ops.take(ops.expand_dims(numbers, -1), index, axis=0)[..., 0]


def as_float32(x: Tensor) -> Tensor:
    """`x` as a float32 tensor, whatever the dtype policy."""
    return ops.cast(x, "float32")
