"""Nearest-code quantizers with a quantization and a commitment loss."""

from typing import Any, Literal

from keras import ops

from qlayers.backend import Tensor
from qlayers.checks import check_choice, check_optional_count
from qlayers.functional import straight_through
from qlayers.masks import mask_codes
from qlayers.quantizers.base import BaseQuantizer, batch_mean
from qlayers.quantizers.codebook import Codebook
from qlayers.schedules import Schedulable


class NearestCodeQuantizer(BaseQuantizer):
    """Base of the quantizers that train their codebook by a loss of its own.

    Args:
        quantize_weight: Weight of `||stop_gradient(x) - z||^2`.
        commit_weight: Weight of `||x - stop_gradient(z)||^2`.
        loss_reduction: `"sum"` or `"mean"` over the last axis.
        revive_after: Training calls after which an unused code is moved, or None.
        **kwargs: Keyword arguments of `BaseQuantizer`.
    """

    config_names: tuple[str, ...] = ("loss_reduction", "revive_after")

    def __init__(
        self,
        *,
        quantize_weight: Schedulable,
        commit_weight: Schedulable,
        loss_reduction: Literal["sum", "mean"],
        revive_after: int | None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.quantize_weight = self.schedulable("quantize_weight", quantize_weight)
        self.commit_weight = self.schedulable("commit_weight", commit_weight)
        self.loss_reduction = check_choice(
            "loss_reduction", loss_reduction, ("sum", "mean")
        )
        self.revive_after = check_optional_count("revive_after", revive_after)
        for term in ("quantize", "commit"):
            if not self.is_off(f"{term}_weight"):
                self.track_terms(f"{term}_loss")

    def add_codebook(self, shape: tuple[int, int, int], initializer: Any) -> None:
        """Creates the codebook, `(rows, num_values, code_dim)`."""
        self._codebook = Codebook(self, shape, initializer, self.revive_after)
        self.codebook = self._codebook.variable

    @property
    def table(self) -> Tensor:
        """The current code values, `(rows, num_values, code_dim)`."""
        return self._codebook.table

    def call(
        self, inputs: Tensor, training: bool | None = None, mask: Tensor | None = None
    ) -> Tensor:
        x = self._prepare(inputs)
        weights = self._sample_weights(mask, x)
        learns = self.learns(training)
        if learns:
            self._codebook.start(x, weights)
        with self._codebook.read_once():
            codes = self._codes(x)
            z = self._values_of(ops.maximum(codes, 0))
            if learns:
                self._codebook.update(mask_codes(codes, weights), x, weights)
        self._add_loss_of("quantize", ops.stop_gradient(x) - z, weights)
        self._add_loss_of("commit", x - ops.stop_gradient(z), weights)
        return self._finish(self._with_gradient(x, z), codes, training, weights)

    def _with_gradient(self, x: Tensor, z: Tensor) -> Tensor:
        """Returns `z` with the gradient that reaches the inputs."""
        return straight_through(x, z)

    def _add_loss_of(
        self, term: str, error: Tensor, weights: Tensor | None = None
    ) -> None:
        if not self.is_off(f"{term}_weight"):
            value = batch_mean(ops.square(error), self.loss_reduction, weights)
            self.add_term(f"{term}_loss", value, self.value_of(f"{term}_weight"))
