"""Supervised losses on a few labelled images."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from keras import ops

import qlayers
from qlayers.backend import Tensor, as_float32
from qlayers.checks import check_choice, check_count, check_number
from qlayers.quantizers.logits import LogitsQuantizer

_KINDS = ("cross_entropy", "bce", "l2")


@dataclass(frozen=True)
class Supervision:
    """A loss that ties the first latents to known factors.

    Labels are integers of shape `(batch, factors)`; factor `i` belongs to latent `i`.

    - `"cross_entropy"` (categorical quantizers): of the category that a label's bin
      falls on. With `active_values`, label `v` is the `v`-th active category of its
      latent; otherwise the factor's values are spread evenly over all categories.
    - `"bce"` (Gaussian latents): sigmoid of the mean against `label / size`.
    - `"l2"` (Gaussian latents): squared distance of the mean to `label / size`.

    All are summed over factors and averaged over images.

    Attributes:
        kind: One of the above.
        weight: Weight in the total loss.
        sizes: Number of values of each factor.

    Reference:
        Friede et al. 2023, appendix 3; Locatello et al. 2020.
    """

    kind: str
    weight: float
    sizes: tuple[int, ...]

    def __post_init__(self) -> None:
        check_choice("kind", self.kind, _KINDS)
        check_number("weight", self.weight)
        sizes = tuple(check_count("sizes", size, minimum=2) for size in self.sizes)
        object.__setattr__(self, "sizes", sizes)

    def __call__(self, quantizer: Any, features: Tensor, labels: Tensor) -> Tensor:
        """The unweighted loss.

        Args:
            quantizer: The model's quantizer.
            features: What the quantizer reads, of the labelled images.
            labels: Integers `(batch, factors)`.
        """
        if self.kind == "cross_entropy":
            return _cross_entropy(quantizer, features, labels, self.sizes)
        if not isinstance(quantizer, qlayers.GaussianLatent):
            raise ValueError(
                f"Supervision {self.kind!r} needs a GaussianLatent. Received: "
                f"{quantizer!r}."
            )
        count = len(self.sizes)
        mean = as_float32(ops.split(features, 2, axis=-1)[0])[:, :count]
        target = ops.cast(labels, "float32") / np.asarray(self.sizes, "float32")
        if self.kind == "l2":
            return ops.mean(ops.sum(ops.square(mean - target), axis=-1))
        return ops.mean(ops.sum(ops.softplus(mean) - target * mean, axis=-1))


def category_table(quantizer: Any, sizes: Any) -> np.ndarray:
    """Category of every label of every factor, `(factors, max(sizes))`.

    Entries beyond a factor's size are 0.
    """
    table = np.zeros((len(sizes), max(sizes)), dtype="int32")
    for i, size in enumerate(sizes):
        active = list(range(quantizer.num_values))
        categories = getattr(quantizer, "active_categories", None)
        if categories is not None:
            active = categories[i]
        if size > len(active):
            raise ValueError(
                f"Factor {i} has {size} values, but its latent only {len(active)} "
                "categories."
            )
        spread = np.rint(np.linspace(0, len(active) - 1, size)).astype(int)
        table[i, :size] = np.asarray(active)[spread]
    return table


def _cross_entropy(quantizer: Any, features: Tensor, labels: Tensor, sizes: Any) -> Any:
    if not isinstance(quantizer, LogitsQuantizer):
        raise ValueError(
            "Supervision 'cross_entropy' needs a categorical quantizer. Received: "
            f"{quantizer!r}."
        )
    table = category_table(quantizer, sizes)
    count = len(sizes)
    offsets = np.arange(count, dtype="int32") * table.shape[1]
    flat = ops.convert_to_tensor(table.reshape(-1))
    targets = ops.take(flat, ops.cast(labels, "int32") + offsets, axis=0)
    logits = quantizer.logits(features)[..., :count, :]
    log_q = ops.log_softmax(logits, axis=-1)
    one_hot = ops.one_hot(targets, quantizer.num_values, dtype="float32")
    # Excluded categories have log-probabilities near -inf; none is a target.
    picked = ops.where(one_hot > 0, log_q, ops.zeros_like(log_q))
    return -ops.mean(ops.sum(picked, axis=(-2, -1)))
