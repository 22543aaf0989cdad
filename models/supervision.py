"""Supervised losses on a few labelled images."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from keras import ops

from qlayers.backend import Tensor, num_replicas
from qlayers.checks import check_choice, check_count, check_number

_KINDS = ("cross_entropy", "bce", "l2", "l2_sigmoid", "l2_scaled")


@dataclass(frozen=True)
class Supervision:
    """A loss that ties the first latents to known factors.

    Labels are integers of shape `(batch, factors)`; factor `i` belongs to latent `i`.

    - `"cross_entropy"` (categorical quantizers): of the category that a label's bin
      falls on. With `active_values`, label `v` is the `v`-th active category of its
      latent; otherwise the factor's values are spread evenly over all categories. A
      factor with more values than categories is cut into bins of equal width.
    - `"bce"` (Gaussian latents): sigmoid of the mean against `label / size`.
    - `"l2"` (Gaussian latents): squared distance of the mean to `label / size`.
    - `"l2_sigmoid"`: the same for the sigmoid of the mean.
    - `"l2_scaled"`: squared distance of the mean times one learned scale, which starts
      at 1, to the label itself. The last two are disentanglement_lib's.

    All are summed over factors, and averaged or summed over images.

    Attributes:
        kind: One of the above.
        weight: Weight in the total loss.
        sizes: Number of values of each factor.
        reduction: `"mean"` over labelled images, or their `"sum"`, which is what
            disentanglement_lib takes: with a batch of 64 it weighs 64 times as much.

    Reference:
        Friede et al. 2023, appendix 3; Locatello et al. 2020.
    """

    kind: str
    weight: float
    sizes: tuple[int, ...]
    reduction: str = "mean"

    def __post_init__(self) -> None:
        check_choice("kind", self.kind, _KINDS)
        check_number("weight", self.weight)
        check_choice("reduction", self.reduction, ("mean", "sum"))
        sizes = tuple(check_count("sizes", size, minimum=2) for size in self.sizes)
        object.__setattr__(self, "sizes", sizes)

    @property
    def learns_scale(self) -> bool:
        """Whether the loss has a scale of the latents to learn."""
        return self.kind == "l2_scaled"

    def __call__(
        self, quantizer: Any, features: Tensor, labels: Tensor, scale: Any = 1.0
    ) -> Tensor:
        """The unweighted loss.

        Args:
            quantizer: The model's quantizer.
            features: What the quantizer reads, of the labelled images.
            labels: Integers `(batch, factors)`.
            scale: Factor of the means, if the loss learns one.
        """
        per_image = self.per_image(quantizer, features, labels, scale)
        if self.reduction == "mean":
            return ops.mean(per_image)
        # A replica's terms are divided by the number of replicas; a sum must not be.
        return num_replicas() * ops.sum(per_image)

    def per_image(
        self, quantizer: Any, features: Tensor, labels: Tensor, scale: Any = 1.0
    ) -> Tensor:
        """The unweighted loss of each image, summed over factors; see `__call__`."""
        if self.kind == "cross_entropy":
            return _cross_entropy(quantizer, features, labels, self.sizes)
        moments = _asked(quantizer, "moments", self.kind, "GaussianLatent")
        mean = moments(features)[0][:, : len(self.sizes)]
        labels = ops.cast(labels, "float32")
        if self.learns_scale:
            return ops.sum(ops.square(mean * scale - labels), axis=-1)
        target = labels / np.asarray(self.sizes, "float32")
        if self.kind == "l2_sigmoid":
            mean = ops.sigmoid(mean)
        if self.kind in ("l2", "l2_sigmoid"):
            return ops.sum(ops.square(mean - target), axis=-1)
        return ops.sum(ops.softplus(mean) - target * mean, axis=-1)


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
            # Neighbouring values share a category: bins of equal width.
            spread = np.arange(size) * len(active) // size
        else:
            spread = np.rint(np.linspace(0, len(active) - 1, size)).astype(int)
        table[i, :size] = np.asarray(active)[spread]
    return table


def _cross_entropy(quantizer: Any, features: Tensor, labels: Tensor, sizes: Any) -> Any:
    logits_of = _asked(quantizer, "logits", "cross_entropy", "categorical quantizer")
    table = category_table(quantizer, sizes)
    count = len(sizes)
    offsets = np.arange(count, dtype="int32") * table.shape[1]
    flat = ops.convert_to_tensor(table.reshape(-1))
    targets = ops.take(flat, ops.cast(labels, "int32") + offsets, axis=0)
    logits = logits_of(features)[..., :count, :]
    log_q = ops.log_softmax(logits, axis=-1)
    one_hot = ops.one_hot(targets, quantizer.num_values, dtype="float32")
    # Excluded categories have log-probabilities near -inf; none is a target.
    picked = ops.where(one_hot > 0, log_q, ops.zeros_like(log_q))
    return -ops.sum(picked, axis=(-2, -1))


def _asked(quantizer: Any, method: str, kind: str, example: str) -> Callable[..., Any]:
    """The quantizer's method of that name, or an error that says who has one."""
    if not hasattr(quantizer, method):
        raise ValueError(
            f"Supervision {kind!r} needs a quantizer with `{method}`, such as a "
            f"{example}. Received: {quantizer!r}."
        )
    return getattr(quantizer, method)
