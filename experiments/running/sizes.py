"""Sizes of latents that were found in training, as a score of the run."""

from collections.abc import Sequence
from dataclasses import dataclass

from qlayers.metrics import MetricResult


@dataclass(frozen=True, eq=False, kw_only=True)
class SizesResult(MetricResult):
    """How many latents are left, and how many values each has.

    Attributes:
        active_latents: Latents with more than one value.
        values_left: Values of these latents together.
        sizes: Values of each latent; 1 for a latent that is gone.
    """

    title = "Sizes"
    score_names = ("active_latents", "values_left")

    active_latents: int
    values_left: int
    sizes: tuple[int, ...]

    @classmethod
    def of(cls, sizes: Sequence[int]) -> "SizesResult":
        """The result for the sizes of a quantizer."""
        active = [size for size in sizes if size > 1]
        return cls(
            active_latents=len(active),
            values_left=sum(active),
            sizes=tuple(sizes),
            settings={"latents": len(sizes)},
        )

    def _details(self) -> list[str]:
        return ["values: " + ", ".join(map(str, self.sizes))]
