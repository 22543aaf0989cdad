"""Learned codebooks, and the revival of codes that nothing uses any more."""

from typing import Any

import keras
from keras import ops

from qlayers.backend import Tensor, gather_global_batch

# Infinities are treated as this number: every distance to a code stays finite.
LARGEST = 1e30


class Codebook:
    """The trained code values that a quantizer owns.

    The values are float32 under every dtype policy. A code that no input of the
    global batch was nearest to for `revive_after` training calls in a row is moved
    onto a random input of the batch, and has again `revive_after` calls to be used.
    The move goes into a second, untrained variable, the sum of the two being the
    table, so that the optimizer's state and the move cannot overwrite each other and
    the same code serves every backend.

    Args:
        owner: The quantizer. The variables are its weights, the draws its seed's.
        shape: `(rows, num_values, code_dim)`; latent `j` of `n` uses row `j`, or all
            use the only one.
        initializer: Initializer of the values.
        revive_after: Number of training calls, or None for no revival.

    Attributes:
        variable: The trained variable.
        idle_calls: For each code, the training calls since its last use; or None.
    """

    def __init__(
        self,
        owner: Any,
        shape: tuple[int, int, int],
        initializer: Any,
        revive_after: int | None = None,
    ) -> None:
        self.shape = shape
        self.revive_after = revive_after
        self.idle_calls: Any = None
        self._seed_generator = owner.seed_generator
        self._moved: Any = None
        self.variable = owner.add_weight(
            name="codebook",
            shape=shape,
            dtype="float32",
            initializer=initializer,
            autocast=False,
        )
        if revive_after is None:
            return
        # Every replica assigns the same values; "mean" keeps their copies equal.
        untrained = {"initializer": "zeros", "trainable": False, "aggregation": "mean"}
        self._moved = owner.add_weight(
            name="moved", shape=shape, dtype="float32", autocast=False, **untrained
        )
        self.idle_calls = owner.add_weight(
            name="idle_calls", shape=shape[:2], dtype="float32", **untrained
        )

    @property
    def table(self) -> Tensor:
        """The current code values, `(rows, num_values, code_dim)`."""
        if self._moved is None:
            return ops.convert_to_tensor(self.variable)
        return ops.add(self.variable, self._moved)

    def start(self, inputs: Tensor) -> None:
        """Called with the inputs of each training call, before codes are chosen."""

    def update(self, codes: Tensor, inputs: Tensor) -> None:
        """Called with the codes and inputs of each training call."""
        self.revive(codes, inputs)

    def revive(self, codes: Tensor, inputs: Tensor) -> None:
        """Moves idle codes onto random inputs. For training calls only.

        Args:
            codes: Codes in use, integers of shape `(..., n)`.
            inputs: The quantizer's inputs, of shape `(..., n * code_dim)`.
        """
        if self.revive_after is None:
            return
        rows, num_values, code_dim = self.shape
        codes = _gather_by_row(ops.reshape(codes, (-1, rows)))
        inputs = ops.reshape(ops.stop_gradient(inputs), (-1, rows, code_dim))
        is_used = _which_occur(codes, num_values)
        idle = ops.where(is_used, 0.0, self.idle_calls + 1.0)
        target = self._random_candidates(_gather_by_row(inputs))
        # A NaN or an infinity among the inputs must not become a code.
        is_usable = ops.all(ops.abs(target) < LARGEST, axis=-1)
        is_dead = ops.logical_and(idle >= self.revive_after, is_usable)
        move = ops.where(ops.expand_dims(is_dead, -1), target - self.table, 0.0)
        self._moved.assign(self._moved + ops.stop_gradient(move))
        self.idle_calls.assign(ops.where(is_dead, 0.0, idle))

    def _random_candidates(self, candidates: Tensor) -> Tensor:
        samples = ops.shape(candidates)[1]
        position = keras.random.uniform(self.shape[:2], seed=self._seed_generator)
        position = ops.floor(position * ops.cast(samples, "float32"))
        index = ops.minimum(ops.cast(position, "int32"), ops.cast(samples, "int32") - 1)
        return ops.take_along_axis(candidates, ops.expand_dims(index, -1), axis=1)


def _gather_by_row(x: Tensor) -> Tensor:
    """`(samples, rows, ...)` of this replica as `(rows, samples, ...)` of all."""
    return ops.transpose(gather_global_batch(x), (1, 0, *range(2, len(x.shape))))


def _which_occur(codes: Tensor, num_values: int) -> Tensor:
    """Boolean `(rows, num_values)`: which indices stand in each row of `codes`."""
    one_hot = ops.one_hot(codes, num_values, dtype="float32")
    return ops.max(one_hot, axis=1) > 0
