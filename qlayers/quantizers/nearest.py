"""Nearest-code quantizers with a quantization and a commitment loss."""

from typing import Any

from keras import ops

from qlayers.backend import Tensor
from qlayers.checks import check_choice
from qlayers.functional import straight_through
from qlayers.quantizers.base import batch_mean
from qlayers.quantizers.codebook import CodebookQuantizer
from qlayers.schedules import Schedulable


class NearestCodeQuantizer(CodebookQuantizer):
    """Base of the quantizers that train their codebook by a loss of its own.

    Args:
        quantize_weight: Weight of `||stop_gradient(x) - z||^2`.
        commit_weight: Weight of `||x - stop_gradient(z)||^2`.
        loss_reduction: `"sum"` or `"mean"` over the last axis.
        **kwargs: Keyword arguments of `CodebookQuantizer`.
    """

    def __init__(
        self,
        *,
        quantize_weight: Schedulable,
        commit_weight: Schedulable,
        loss_reduction: str,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.quantize_weight = self.schedulable("quantize_weight", quantize_weight)
        self.commit_weight = self.schedulable("commit_weight", commit_weight)
        self.loss_reduction = check_choice(
            "loss_reduction", loss_reduction, ("sum", "mean")
        )
        for term in ("quantize", "commit"):
            if not self.is_off(f"{term}_weight"):
                self.track_terms(f"{term}_loss")

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        x = self._prepare(inputs)
        codes = self._codes(x)
        z = self._values_of(ops.maximum(codes, 0))
        self._add_loss_of("quantize", ops.stop_gradient(x) - z)
        self._add_loss_of("commit", x - ops.stop_gradient(z))
        if training and self.revive_after is not None:
            self.revive(*self._in_rows(codes, x))
        return self._finish(straight_through(x, z), codes, training)

    def _add_loss_of(self, term: str, error: Tensor) -> None:
        if not self.is_off(f"{term}_weight"):
            value = batch_mean(ops.square(error), self.loss_reduction)
            self.add_term(f"{term}_loss", value, self.now(f"{term}_weight"))

    def _in_rows(self, codes: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        """Codes `(rows, samples)` and inputs `(rows, samples, code_dim)`."""
        rows, _, code_dim = self.codebook.shape
        codes = ops.transpose(ops.reshape(codes, (-1, rows)))
        x = ops.reshape(x, (-1, rows, code_dim))
        return codes, ops.transpose(x, (1, 0, 2))

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "loss_reduction": self.loss_reduction}
