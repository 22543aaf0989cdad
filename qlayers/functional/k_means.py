"""k-means clustering inside a graph."""

from keras import ops

from qlayers.backend import Tensor, first_argmin

# The order of the vectors: their numbers times the first modulo the second, a prime.
_FACTOR, _PRIME = 31321, 65521


def k_means(
    x: Tensor, num_clusters: int, num_iterations: int = 10, seed: int = 0
) -> Tensor:
    """Means of clusters of vectors, by Lloyd's iterations.

    The first means are vectors drawn without replacement, or, if there are fewer
    vectors than means, each vector as often as needed. The draw is by integer
    arithmetic, so that every backend and compiler draws the same. In an iteration every
    vector joins its nearest mean, and each mean moves to the middle of its vectors; a
    mean without any stays. No gradient passes.

    Args:
        x: Vectors of shape `(samples, dim)`, at least one, all finite.
        num_clusters: Number of means.
        num_iterations: Number of iterations.
        seed: Integer that the draw depends on.

    Returns:
        Means of shape `(num_clusters, dim)`.

    Example:

    ```python
    k_means([[0.0], [0.2], [5.0]], num_clusters=2, seed=0)  # [[0.1], [5.0]], any order
    ```

    Reference:
        Lloyd 1982, Least squares quantization in PCM.
    """
    x = ops.stop_gradient(ops.convert_to_tensor(x))
    samples = ops.shape(x)[0]
    number = ops.mod(ops.arange(samples, dtype="int32"), _PRIME)
    number = ops.mod(number + (seed * 7919) % _PRIME, _PRIME)
    order = ops.argsort(ops.mod(number * _FACTOR, _PRIME))
    place = ops.mod(ops.arange(num_clusters, dtype="int32"), samples)
    means = ops.take(x, ops.take(order, place, axis=0), axis=0)

    def improve(step: Tensor, means: Tensor) -> tuple[Tensor, Tensor]:
        return step + 1, _moved_means(x, means)

    return ops.while_loop(
        lambda step, means: step < num_iterations,
        improve,
        (ops.zeros((), dtype="int32"), means),
    )[1]


def _moved_means(x: Tensor, means: Tensor) -> Tensor:
    half_squares = 0.5 * ops.sum(ops.square(means), axis=-1)
    # Half of |x - mean|^2 less what is the same for every mean.
    score = half_squares - ops.matmul(x, ops.transpose(means))
    member = ops.one_hot(first_argmin(score), means.shape[0], dtype="float32")
    counts = ops.expand_dims(ops.sum(member, axis=0), -1)
    middle = ops.matmul(ops.transpose(member), x) / ops.maximum(counts, 1.0)
    return ops.where(counts > 0, middle, means)
