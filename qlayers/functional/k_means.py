"""k-means clustering inside a graph."""

from keras import ops

from qlayers.backend import Tensor, as_float32, first_argmin

# The order of the vectors: their numbers times the first modulo the second, a prime.
_FACTOR, _PRIME = 31321, 65521


def k_means(
    x: Tensor,
    num_clusters: int,
    num_iterations: int = 10,
    seed: int = 0,
    weights: Tensor | None = None,
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
        weights: 1 for vectors that count and 0 for those that do not, `(samples,)`, as
            if these were not there; or None.

    Returns:
        float32 means of shape `(num_clusters, dim)`.

    Example:

    ```python
    k_means([[0.0], [0.2], [5.0]], num_clusters=2, seed=0)  # [[0.1], [5.0]], any order
    ```

    Reference:
        Lloyd 1982, Least squares quantization in PCM.
    """
    x = ops.stop_gradient(as_float32(ops.convert_to_tensor(x)))
    if weights is None:
        weights = ops.ones_like(x[:, 0])
    counts = ops.expand_dims(weights, -1) > 0
    x = ops.where(counts, x, 0.0)
    means = ops.take(x, _drawn(weights, num_clusters, seed), axis=0)

    def improve(step: Tensor, means: Tensor) -> tuple[Tensor, Tensor]:
        return step + 1, _moved_means(x, means, counts)

    return ops.while_loop(
        lambda step, means: step < num_iterations,
        improve,
        (ops.zeros((), dtype="int32"), means),
    )[1]


def _drawn(weights: Tensor, count: int, seed: int) -> Tensor:
    """Numbers of `count` vectors that count, none twice before all were drawn."""
    is_valid = ops.cast(weights > 0, "int32")
    number = ops.cumsum(is_valid, axis=0) - 1
    number = ops.mod(ops.mod(number, _PRIME) + (seed * 7919) % _PRIME, _PRIME)
    key = ops.mod(number * _FACTOR, _PRIME) + _PRIME * (1 - is_valid)
    place = ops.mod(ops.arange(count, dtype="int32"), ops.maximum(ops.sum(is_valid), 1))
    return ops.take(ops.argsort(key), place, axis=0)


def _moved_means(x: Tensor, means: Tensor, counts: Tensor) -> Tensor:
    half_squares = 0.5 * ops.sum(ops.square(means), axis=-1)
    # Half of |x - mean|^2 less what is the same for every mean.
    score = half_squares - ops.matmul(x, ops.transpose(means))
    member = ops.one_hot(first_argmin(score), means.shape[0], dtype="float32")
    member = ops.where(counts, member, 0.0)
    sizes = ops.expand_dims(ops.sum(member, axis=0), -1)
    middle = ops.matmul(ops.transpose(member), x) / ops.maximum(sizes, 1.0)
    return ops.where(sizes > 0, middle, means)
