"""Codebooks of vectors: started from data, trained by gradients or moving averages."""

from typing import Any

from keras import ops

from qlayers.backend import (
    Tensor,
    count_integers,
    select,
    sum_by_integer,
    sum_over_replicas,
)
from qlayers.functional.k_means import k_means
from qlayers.quantizers.codebook import LARGEST, Codebook
from qlayers.regularizers.replicas import gather_samples

# Laplace smoothing of the counts, as in Sonnet's VectorQuantizerEMA.
_SMOOTHING = 1e-5


class VectorCodebook(Codebook):
    """One codebook of vectors, which may start from data.

    With `starts_from_data` the first training call whose inputs are all finite runs
    k-means on the vectors of the global batch; its means are the codes of that call
    already. If the batch holds fewer vectors than codes, some means are equal: revival
    then moves the idle ones onto vectors of later batches.

    Args:
        owner: The quantizer.
        *args: Further arguments of `Codebook`; the shape is `(1, num_codes, code_dim)`.
        starts_from_data: Whether k-means on the first training batch sets the values.
        **kwargs: Keyword arguments of `Codebook`.
    """

    def __init__(
        self, owner: Any, *args: Any, starts_from_data: bool = False, **kwargs: Any
    ) -> None:
        self._starts_from_data = starts_from_data
        super().__init__(owner, *args, **kwargs)
        if starts_from_data:
            self.is_started = owner.add_state("is_started")
            # A number, not the generator: no draw may stand inside a branch.
            self._seed = owner.seed or 0

    @property
    def is_moved(self) -> bool:
        return self._starts_from_data or super().is_moved

    def start(self, inputs: Tensor, weights: Tensor | None = None) -> None:
        if not self._starts_from_data or 0 in inputs.shape:
            return
        rows, num_codes, code_dim = self.shape
        samples = ops.reshape(ops.stop_gradient(inputs), (-1, code_dim))
        if weights is None:
            counts = ops.ones_like(samples[:, 0])
        else:
            slots = inputs.shape[-1] // code_dim
            counts = ops.repeat(ops.reshape(weights, (-1,)), slots)
        samples, counts = gather_samples(samples), gather_samples(counts)
        # Not "any(not(|x| < LARGEST))": TensorFlow turns that into |x| >= LARGEST,
        # which is false for a NaN.
        is_usable = ops.all(ops.abs(samples) < LARGEST, axis=-1)
        is_finite = ops.logical_and(
            ops.sum(counts) > 0, ops.sum(ops.where(is_usable, 0.0, counts)) == 0
        )
        is_due = ops.logical_and(self.is_started < 0.5, is_finite)
        means = ops.cond(
            is_due,
            lambda: k_means(samples, num_codes, seed=self._seed, weights=counts),
            lambda: ops.stop_gradient(self.table[0]),
        )
        self.place(ops.broadcast_to(is_due, (rows, num_codes)), means[None])
        is_due = ops.cast(is_due, "float32")
        is_started = ops.convert_to_tensor(self.is_started)
        self.is_started.assign(ops.maximum(is_started, is_due))


class MovingAverageCodebook(VectorCodebook):
    """A codebook whose vectors are moving averages of the inputs that chose them.

    With `n_i` the number and `s_i` the sum of the vectors of the global batch that
    chose code `i`,

        N_i <- decay * N_i + (1 - decay) * n_i
        m_i <- decay * m_i + (1 - decay) * s_i
        e_i <- m_i / N'_i,      N'_i = (N_i + eps) / (sum N + num_codes * eps) * sum N

    The counts `N` start from 1 and `m` from the first codes. Only `e` and `N` are kept:
    `m` is `e` times the smoothed count. So whatever moves a code, moves its average.

    Args:
        decay: Weight of what was before, below 1.
        owner: The quantizer.
        *args: Further arguments of `VectorCodebook`.
        **kwargs: Keyword arguments of `VectorCodebook`.
    """

    def __init__(self, decay: float, owner: Any, *args: Any, **kwargs: Any) -> None:
        self.decay = decay
        super().__init__(owner, *args, trainable=False, **kwargs)
        self.counts = owner.add_state("counts", self.shape[:2], "ones")

    @property
    def is_moved(self) -> bool:
        return False  # the variable itself is

    def update(
        self, codes: Tensor, inputs: Tensor, weights: Tensor | None = None
    ) -> None:
        _, num_codes, code_dim = self.shape
        x = ops.reshape(ops.stop_gradient(inputs), (-1, code_dim))
        flat = ops.reshape(codes, (-1,))
        # A NaN or an infinity among the inputs must not enter the averages.
        is_usable = ops.all(ops.abs(x) < LARGEST, axis=-1)
        flat = select(is_usable, flat, ops.full_like(flat, -1))
        counts = count_integers(flat + 1, num_codes + 1)[1:]
        counts = sum_over_replicas(counts)
        sums = sum_over_replicas(sum_by_integer(x, flat, num_codes))
        self._average(counts[None], sums[None])
        self.revive(codes, inputs, weights)

    def _average(self, counts: Tensor, sums: Tensor) -> None:
        before = ops.convert_to_tensor(self.counts)
        after = self.decay * before + (1.0 - self.decay) * counts
        average = self.decay * self.variable * _smoothed(before)
        average = average + (1.0 - self.decay) * sums
        self.variable.assign(average / _smoothed(after))
        self.counts.assign(after)

    def place(self, which: Tensor, target: Tensor) -> None:
        before = ops.convert_to_tensor(self.variable)
        counts = ops.convert_to_tensor(self.counts)
        self.variable.assign(ops.where(ops.expand_dims(which, -1), target, before))
        self.counts.assign(ops.where(which, 1.0, counts))


def _smoothed(counts: Tensor) -> Tensor:
    """Counts none of which is zero, of the same sum, `(rows, num_codes, 1)`."""
    total = ops.sum(counts, axis=-1, keepdims=True)
    share = (counts + _SMOOTHING) / (total + counts.shape[-1] * _SMOOTHING)
    return ops.expand_dims(share * total, -1)
