"""Learned codebooks, and the revival of codes that nothing uses any more."""

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
from keras import ops

from qlayers.backend import (
    Tensor,
    count_integers,
    gather_global_batch,
    read_variable,
    take_rows,
)
from qlayers.masks import valid_first

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
        trainable: Whether gradients train the values.

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
        trainable: bool = True,
    ) -> None:
        self.shape = shape
        self.revive_after = revive_after
        self.idle_calls: Any = None
        self._seed_generator = owner.seed_generator
        self._moved: Any = None
        self._reads = threading.local()  # replicas are threads
        self.variable = owner.add_weight(
            name="codebook",
            shape=shape,
            dtype="float32",
            initializer=initializer,
            autocast=False,
            trainable=trainable,
            aggregation="none" if trainable else "mean",
        )
        if self.is_moved:
            self._moved = owner.add_state("moved", shape)
        if revive_after is not None:
            self.idle_calls = owner.add_state("idle_calls", shape[:2])

    @property
    def is_moved(self) -> bool:
        """Whether something else than the optimizer moves values of the variable."""
        return self.revive_after is not None

    @property
    def table(self) -> Tensor:
        """The current code values, `(rows, num_values, code_dim)`."""
        shared = getattr(self._reads, "table", None)
        return self._read() if shared is None else shared

    @contextlib.contextmanager
    def read_once(self) -> Iterator[None]:
        """Within, `table` is one tensor; `qlayers.backend.read_variable` says why."""
        self._reads.table = self._read()
        try:
            yield
        finally:
            self._reads.table = None

    def _read(self) -> Tensor:
        table = read_variable(self.variable)
        return table if self._moved is None else ops.add(table, self._moved)

    def start(self, inputs: Tensor, weights: Tensor | None = None) -> None:
        """Called with the inputs of each training call, before codes are chosen."""

    def update(
        self, codes: Tensor, inputs: Tensor, weights: Tensor | None = None
    ) -> None:
        """Called with the codes and inputs of each training call.

        Args:
            codes: Codes in use, `(..., n)`; -1 where masked.
            inputs: The quantizer's inputs, `(..., n * code_dim)`.
            weights: Weights of the samples, 0 where masked; or None.
        """
        self.revive(codes, inputs, weights)

    def revive(
        self, codes: Tensor, inputs: Tensor, weights: Tensor | None = None
    ) -> None:
        """Moves idle codes onto random inputs. For training calls only.

        Args:
            codes: Codes in use, integers of shape `(..., n)`.
            inputs: The quantizer's inputs, of shape `(..., n * code_dim)`.
            weights: Weights of the samples, 0 where masked; or None.
        """
        if self.revive_after is None:
            return
        rows, num_values, code_dim = self.shape
        if weights is not None:
            weights = ops.broadcast_to(ops.expand_dims(weights, -1), ops.shape(codes))
            weights = _gather_by_row(ops.reshape(weights, (-1, rows)))
        codes = _gather_by_row(ops.reshape(codes, (-1, rows)))
        inputs = ops.reshape(ops.stop_gradient(inputs), (-1, rows, code_dim))
        is_used = _which_occur(codes, rows, num_values)
        idle = ops.where(is_used, 0.0, self.idle_calls + 1.0)
        target = self._random_candidates(_gather_by_row(inputs), weights)
        # A NaN or an infinity among the inputs must not become a code.
        is_usable = ops.all(ops.abs(target) < LARGEST, axis=-1)
        if weights is not None:
            is_any = ops.sum(weights, axis=1, keepdims=True) > 0
            is_usable = ops.logical_and(is_usable, is_any)
        is_dead = ops.logical_and(idle >= self.revive_after, is_usable)
        self.place(is_dead, target)
        self.idle_calls.assign(ops.where(is_dead, 0.0, idle))

    def place(self, which: Tensor, target: Tensor) -> None:
        """Moves values.

        Args:
            which: Boolean `(rows, num_values)`.
            target: Where they go, `(rows, num_values, code_dim)`.
        """
        move = ops.where(ops.expand_dims(which, -1), target - self.table, 0.0)
        self._moved.assign(self._moved + ops.stop_gradient(move))

    def _random_candidates(self, candidates: Tensor, weights: Tensor | None) -> Tensor:
        samples = ops.shape(candidates)[1]
        if weights is not None:
            samples = ops.maximum(ops.sum(weights, axis=1, keepdims=True), 1.0)
        position = keras.random.uniform(
            self.shape[:2], dtype="float32", seed=self._seed_generator
        )
        position = ops.floor(position * ops.cast(samples, "float32"))
        index = ops.minimum(ops.cast(position, "int32"), ops.cast(samples, "int32") - 1)
        if weights is not None:
            index = ops.take_along_axis(valid_first(weights), index, axis=1)
        # By whole rows of one long table: number by number takes 20 times as long.
        first = ops.arange(self.shape[0], dtype="int32") * ops.shape(candidates)[1]
        rows = ops.reshape(candidates, (-1, self.shape[2]))
        return take_rows(rows, index + ops.expand_dims(first, -1))


def _gather_by_row(x: Tensor) -> Tensor:
    """`(samples, rows, ...)` of this replica as `(rows, samples, ...)` of all."""
    of_all = gather_global_batch(x)
    if x.shape[1] == 1:
        return ops.reshape(of_all, (1, -1, *x.shape[2:]))
    return ops.transpose(of_all, (1, 0, *range(2, len(x.shape))))


def _which_occur(codes: Tensor, rows: int, num_values: int) -> Tensor:
    """Boolean `(rows, num_values)`: which indices stand in each row of `codes`."""
    width = num_values + 1
    # The first cell of each row takes -1, which is not a code.
    first_codes = np.arange(rows, dtype="int32")[:, None] * width + 1
    cells = ops.reshape(ops.add(ops.cast(codes, "int32"), first_codes), (-1,))
    counts = ops.reshape(count_integers(cells, rows * width), (rows, width))
    return counts[:, 1:] > 0
