"""How evenly, and how many of, the codes of each latent are used."""

import warnings
from collections.abc import Sequence
from typing import Any, Literal

import keras
import numpy as np
from keras import ops

from qlayers.backend import Tensor, count_integers, is_eager
from qlayers.checks import check_choice, check_codes, check_count

# Below this share of codes in use the owner's advice is given,
_IDLE = 0.1
# once so many samples for each code have been counted.
_ENOUGH = 4


@keras.saving.register_keras_serializable(package="qlayers")
class CodeUsage(keras.metrics.Metric):
    """Perplexity of the codes of each latent and the share of codes used.

    Codes are counted since the last reset, which in `fit` is the start of the epoch.
    The perplexity of a latent is `exp(entropy)` of its code frequencies: between 1
    (one code only) and the number of its codes (all equally often). The usage is the
    share of its codes that occurred at all.

    Threads that call one metric at the same time outside `fit` may lose counts; give
    each thread a metric of its own.

    The result is a dict, which Keras merges into the logs: the means over latents as
    `<name>_perplexity` and `<name>_usage`, and with `detail="per_latent"` also
    `<name>_perplexity_<j>` and `<name>_usage_<j>` for every latent `j`.

    Args:
        num_values: Number of codes of each latent, as a sequence.
        detail: `"mean"` or `"per_latent"`.

    Example:

    ```python
    usage = CodeUsage(num_values=[4, 4], name="z")
    usage.update_state([[0, 1], [0, 2]])
    usage.result()["z_perplexity"]  # 1.5
    ```
    """

    def __init__(
        self,
        num_values: Any,
        detail: Literal["mean", "per_latent"] = "mean",
        name: str = "codes",
        **kwargs: Any,
    ) -> None:
        super().__init__(name=name, **kwargs)
        if not isinstance(num_values, Sequence | np.ndarray) or len(num_values) == 0:
            raise ValueError(
                "`num_values` must list the number of codes of each latent. "
                f"Received: {num_values!r}."
            )
        self.num_values = tuple(check_count("num_values", m) for m in num_values)
        self.detail = check_choice("detail", detail, ("mean", "per_latent"))
        # Advice of the layer that owns the metric, for when most codes lie idle.
        self.cure: str | None = None
        self._width = max(self.num_values)
        self.counts = self.add_variable(
            shape=(len(self.num_values), self._width),
            initializer="zeros",
            name="counts",
        )

    def update_state(self, codes: Tensor, sample_weight: Any = None) -> None:
        """Counts integer `codes` of shape `(..., n)`; negative ones are skipped."""
        if sample_weight is not None:
            raise ValueError("CodeUsage counts codes; it takes no `sample_weight`.")
        check_codes("CodeUsage", codes, self.num_values, allow_negative=True)
        self.count(ops.maximum(ops.cast(codes, "int32"), -1))

    def count(self, codes: Tensor) -> None:
        """Counts int32 `codes` that a quantizer chose, unchecked; -1 is no code."""
        rows, width = len(self.num_values), self._width + 1
        # The first cell of each latent takes what is not a code.
        first_codes = np.arange(rows, dtype="int32") * width + 1
        cells = ops.add(codes, first_codes)
        counts = count_integers(ops.reshape(cells, (-1,)), rows * width)
        counts = ops.reshape(counts, (rows, width))[:, 1:]
        self.counts.assign(self.counts + counts)

    def reset_state(self) -> None:
        """Forgets all counts. In `fit` this is the end of what an epoch has counted."""
        if self.cure is not None and is_eager(self.counts.value):
            self._warn_if_idle()
        super().reset_state()

    def _warn_if_idle(self) -> None:
        """Says once, after the first epoch, that most codes are not used."""
        counts = ops.convert_to_numpy(self.counts)
        if counts.sum(axis=1).min() < _ENOUGH * self._width:
            return
        used = float(((counts > 0).sum(axis=1) / np.asarray(self.num_values)).mean())
        if used < _IDLE:
            warnings.warn(
                f"'{self.name}' uses {100.0 * used:.2g} % of its codes. {self.cure}",
                stacklevel=2,
            )
        self.cure = None

    def perplexity(self) -> Tensor:
        """Perplexity of each latent, shape `(n,)`; 0 before any code was seen."""
        totals = ops.sum(self.counts, axis=-1, keepdims=True)
        shares = self.counts / ops.maximum(totals, 1.0)
        entropy = -ops.sum(shares * ops.log(ops.maximum(shares, 1e-30)), axis=-1)
        return ops.where(totals[:, 0] > 0, ops.exp(entropy), ops.zeros_like(entropy))

    def usage(self) -> Tensor:
        """Share of the codes of each latent that occurred, shape `(n,)`."""
        used = ops.sum(ops.cast(self.counts > 0, "float32"), axis=-1)
        return used / np.asarray(self.num_values, dtype="float32")

    def result_names(self) -> list[str]:
        """The keys of `result`."""
        latents = range(len(self.num_values)) if self.detail == "per_latent" else []
        endings = ["", *(f"_{j}" for j in latents)]
        kinds = ("perplexity", "usage")
        return [f"{self.name}_{kind}{ending}" for kind in kinds for ending in endings]

    def result(self) -> dict[str, Tensor]:
        values = []
        for of_latents in (self.perplexity(), self.usage()):
            values.append(ops.mean(of_latents))
            if self.detail == "per_latent":
                values += [of_latents[j] for j in range(len(self.num_values))]
        return dict(zip(self.result_names(), values, strict=True))

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        return {**config, "num_values": list(self.num_values), "detail": self.detail}
