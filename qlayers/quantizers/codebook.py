"""Learned codebooks, and the revival of codes that nothing uses any more."""

from typing import Any

import keras
from keras import ops

from qlayers.backend import Tensor, gather_global_batch
from qlayers.checks import check_count
from qlayers.quantizers.base import LARGEST, BaseQuantizer


class CodebookQuantizer(BaseQuantizer):
    """Base of the quantizers whose code values are trained.

    The codebook is float32 under every dtype policy. A code that no input of the
    global batch was nearest to for `revive_after` training calls in a row is moved
    onto a random input of the batch, and has again `revive_after` calls to be used.
    The move goes into a second, untrained variable, the sum of the two being the
    codebook, so that the optimizer's state and the move cannot overwrite each other
    and the same code serves every backend.

    Args:
        revive_after: Number of training calls, or None for no revival.
        **kwargs: Keyword arguments of `BaseQuantizer`.
    """

    def __init__(self, *, revive_after: int | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if revive_after is not None:
            revive_after = check_count("revive_after", revive_after)
        self.revive_after = revive_after
        self._moved: Any = None
        self._idle_calls: Any = None

    def add_codebook(self, shape: tuple[int, ...], initializer: Any) -> None:
        """Creates the codebook, `(rows, num_values, code_dim)`."""
        self.codebook = self.add_weight(
            name="codebook",
            shape=shape,
            dtype="float32",
            initializer=initializer,
            autocast=False,
        )
        if self.revive_after is None:
            return
        # Every replica assigns the same values; "mean" keeps their copies equal.
        untrained = {"initializer": "zeros", "trainable": False, "aggregation": "mean"}
        self._moved = self.add_weight(
            name="moved", shape=shape, dtype="float32", autocast=False, **untrained
        )
        self._idle_calls = self.add_weight(
            name="idle_calls", shape=shape[:2], dtype="float32", **untrained
        )

    @property
    def table(self) -> Tensor:
        """The current code values, `(rows, num_values, code_dim)`."""
        if self._moved is None:
            return ops.convert_to_tensor(self.codebook)
        return ops.add(self.codebook, self._moved)

    def revive(self, codes: Tensor, candidates: Tensor) -> None:
        """Moves idle codes onto random candidates. For training calls only.

        Args:
            codes: Codes in use, integers of shape `(rows, samples)`.
            candidates: Inputs, of shape `(rows, samples, code_dim)`.
        """
        codes = _gather_samples(codes)
        candidates = _gather_samples(ops.stop_gradient(candidates))
        is_used = _which_occur(codes, self.codebook.shape[1])
        idle = ops.where(is_used, 0.0, self._idle_calls + 1.0)
        target = self._random_candidates(candidates)
        # A NaN or an infinity among the inputs must not become a code.
        is_usable = ops.all(ops.abs(target) < LARGEST, axis=-1)
        is_dead = ops.logical_and(idle >= self.revive_after, is_usable)
        move = ops.where(ops.expand_dims(is_dead, -1), target - self.table, 0.0)
        self._moved.assign(self._moved + ops.stop_gradient(move))
        self._idle_calls.assign(ops.where(is_dead, 0.0, idle))

    def _random_candidates(self, candidates: Tensor) -> Tensor:
        rows, num_values = self.codebook.shape[:2]
        samples = ops.shape(candidates)[1]
        position = keras.random.uniform((rows, num_values), seed=self.seed_generator)
        position = ops.floor(position * ops.cast(samples, "float32"))
        index = ops.minimum(ops.cast(position, "int32"), ops.cast(samples, "int32") - 1)
        return ops.take_along_axis(candidates, ops.expand_dims(index, -1), axis=1)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "revive_after": self.revive_after}


def _gather_samples(x: Tensor) -> Tensor:
    """`x` of all replicas, whose samples lie along the second axis."""
    axes = (1, 0, *range(2, len(x.shape)))
    return ops.transpose(gather_global_batch(ops.transpose(x, axes)), axes)


def _which_occur(codes: Tensor, num_values: int) -> Tensor:
    """Boolean `(rows, num_values)`: which indices stand in each row of `codes`."""
    one_hot = ops.one_hot(codes, num_values, dtype="float32")
    return ops.max(one_hot, axis=1) > 0
