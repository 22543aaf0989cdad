"""Categorical latents on a fixed, ordered grid of values (D-VAE)."""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from qlayers.backend import Tensor
from qlayers.checks import check_count
from qlayers.functional import uniform_kl
from qlayers.quantizers.base import LARGEST, batch_mean
from qlayers.quantizers.logits import LogitsQuantizer
from qlayers.schedules import Schedulable


@keras.saving.register_keras_serializable(package="qlayers")
class OrderedCategoricalQuantizer(LogitsQuantizer):
    """Mixes fixed, equidistant values by relaxed samples of a categorical posterior.

    The input holds `num_values` logits `l` for each of `n` latents; the values
    `v = linspace(*interval, num_values)` are fixed and the same for every latent.
    Forward in training, with Gumbel noise `g`:

        y = softmax((l + noise_scale * g) / temperature),    z = sum_k y_k v_k

    At inference the noise is left out, so that `z` is an expectation; it equals
    `lookup(codes(l))` where the posterior has collapsed onto one category. Gradient:
    that of the formula. With `kl_weight`, the loss
    `kl_weight * KL(softmax(l) || uniform)`, summed over latents, is added and tracked
    as `<name>_kl`; neither temperature nor noise enters it.

    Called with `return_assignments=True` the layer also returns the weights `y`, of
    shape `(..., n, num_values)`.

    Args:
        num_values: Number of categories.
        interval: First and last value. The paper's text has (0, 1), its experiments
            (-1, 1).
        temperature: Temperature of the relaxed samples, a number or a schedule; the
            paper keeps it at 1.
        noise_scale: Scale of the Gumbel noise, a number or a schedule. The paper
            raises it from 0.5 to 2 along a half cosine, which is
            `CosineDecay(0.5, decay_steps=num_steps, alpha=4.0)`.
        kl_weight: Weight of the divergence, a number or a schedule.
        active_values: Which categories a latent may use, for every latent: a number
            `m` (that many, spread evenly over the interval, both ends included), a
            list of category indices, or None (all). The others get probability 0 and
            the prior is uniform over the active ones.
        **kwargs: `seed`, `track_usage` and those of `keras.layers.Layer`.

    Input shape: `(..., n * num_values)`. Output shape: `(..., n)`.

    Example:

    ```python
    logits = keras.layers.Dense(10 * 64)(features)
    z = qlayers.OrderedCategoricalQuantizer(num_values=64)(logits)
    ```

    Reference:
        Friede et al. 2023, Learning Disentangled Discrete Representations, equations
        2 and 3, appendix 3 (masked categories).
    """

    # An expectation need not be one of the values.
    scored_as = "reals"
    config_names = ("active_values",)

    def __init__(
        self,
        num_values: int = 64,
        interval: tuple[float, float] = (-1.0, 1.0),
        temperature: Schedulable = 1.0,
        noise_scale: Schedulable = 1.0,
        kl_weight: Schedulable = 1.0,
        active_values: Sequence[int | Sequence[int] | None] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            num_values=num_values,
            temperature=temperature,
            kl_weight=kl_weight,
            **kwargs,
        )
        self.interval = _check_interval(interval)
        self.noise_scale = self.schedulable("noise_scale", noise_scale)
        self.active_values = _as_plain_list(active_values)
        self._mask: np.ndarray | None = None
        self.active_categories: list[list[int]] | None = None
        if self.active_values is not None:
            self.active_categories = [
                active_indices(entry, self.num_values) for entry in self.active_values
            ]

    def build_values(self, num_latents: int) -> None:
        if self.active_categories is None:
            return
        if len(self.active_categories) != num_latents:
            raise ValueError(
                f"`active_values` describes {len(self.active_categories)} latents, "
                f"but the input has logits for {num_latents}."
            )
        mask = np.zeros((num_latents, self.num_values), dtype=bool)
        for row, indices in zip(mask, self.active_categories, strict=True):
            row[indices] = True
        self._mask = mask

    def _values(self) -> Tensor:
        grid = np.linspace(*self.interval, self.num_values, dtype="float32")
        return ops.convert_to_tensor(grid)

    def _logits(self, x: Tensor) -> Tensor:
        logits = super()._logits(x)
        if self._mask is None:
            return logits
        # Twice as far as any prepared logit: active ones always win.
        excluded = ops.where(ops.isnan(logits), logits, -2.0 * LARGEST)
        return ops.where(self._mask, logits, excluded)

    def _kl(self, logits: Tensor, weights: Tensor | None) -> Tensor:
        num_active = None if self._mask is None else self._mask.sum(axis=-1)
        return batch_mean(uniform_kl(logits, num_active), "sum", weights)

    def _weights(self, logits: Tensor, codes: Tensor, training: bool | None) -> Tensor:
        return self._sample(logits, self.value_of("noise_scale") if training else 0.0)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "interval": list(self.interval)}


def active_indices(entry: int | Sequence[int] | None, num_values: int) -> list[int]:
    """Category indices that an entry of `active_values` stands for."""
    if entry is None:
        return list(range(num_values))
    if isinstance(entry, Sequence):
        indices = [check_count("active_values", i, minimum=0) for i in entry]
        if not indices or max(indices) >= num_values:
            raise ValueError(
                f"`active_values` must name categories from 0 to {num_values - 1}. "
                f"Received: {list(entry)!r}."
            )
        return sorted(set(indices))
    count = check_count("active_values", entry)
    if count > num_values:
        raise ValueError(
            f"`active_values` asks for {count} of {num_values} categories."
        )
    return [round(i) for i in np.linspace(0, num_values - 1, count)]


def _check_interval(interval: Any) -> tuple[float, float]:
    try:
        low, high = (float(end) for end in interval)
    except (TypeError, ValueError):
        low = high = np.nan
    if not (np.isfinite(low) and np.isfinite(high) and low < high):
        raise ValueError(
            "`interval` must be two finite, increasing numbers. "
            f"Received: {interval!r}."
        )
    return low, high


def _as_plain_list(active_values: Any) -> list[Any] | None:
    """Sequences and arrays as nested lists of ints, which a config can hold."""
    if active_values is None:
        return None
    if not isinstance(active_values, Sequence | np.ndarray):
        raise ValueError(
            "`active_values` must hold one entry for each latent. "
            f"Received: {active_values!r}."
        )
    plain: list[Any] = []
    for entry in active_values:
        if isinstance(entry, Sequence | np.ndarray):
            plain.append([_plain(i) for i in entry])
        else:
            plain.append(_plain(entry))
    return plain


def _plain(entry: Any) -> Any:
    return int(entry) if isinstance(entry, np.integer) else entry
