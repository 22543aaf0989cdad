"""A stack of quantizers, each of which quantizes what the ones before left over."""

import functools
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from qlayers.backend import Tensor
from qlayers.checks import check_axis, check_number
from qlayers.functional import straight_through
from qlayers.quantizers.base import BaseQuantizer
from qlayers.quantizers.finite_scalar import FiniteScalarQuantizer


@keras.saving.register_keras_serializable(package="qlayers")
class ResidualQuantizer(BaseQuantizer):
    """Adds up several quantizers, from coarse to fine.

    Forward, with the quantizers `Q_1` to `Q_K` and their scales `s_k`:

        r_1 = x,    z_k = s_k * Q_k(r_k / s_k),    r_{k+1} = r_k - z_k,
        z = z_1 + ... + z_K

    Pseudo-gradient: `dz/dx = 1`, straight through the whole sum. The losses of the
    quantizers are added as they are, each with `z_k` held constant for the later ones.

    Quantizers with learned codes have the scale 1. A stack of `FiniteScalarQuantizer`s
    is bounded: unless scales are given, the first quantizer has the scale 1, each later
    one that of the one before divided by the number `m` of its values, and the inputs
    are limited softly to `x -> limit * tanh(x / limit)`, `limit = m / (m - 1)`, which
    is as far as the grid's cells reach. Its pseudo-gradient is that of the limit. Give
    such quantizers `squash="clip"`.

    The codes of all quantizers stand side by side, `(..., K * n)`: first all latents of
    the first quantizer.

    Args:
        quantizers: Quantizers of the same input, coarse to fine. They belong to this
            layer, which makes them float32. Their running means show under their own
            names.
        scales: A positive number for each quantizer, or None.
        limit: Bound of the inputs, or None.
        axis: Axis of the latents: -1, or 1 for channels-first maps. Codes have it last.
        track_usage: As for every quantizer; the default leaves it to the quantizers.
        **kwargs: `seed` and those of `keras.layers.Layer`.

    Input and output shape: those of the quantizers.

    Example:

    ```python
    steps = [qlayers.VectorQuantizer(64, code_dim=4) for _ in range(3)]
    z = qlayers.ResidualQuantizer(steps)(keras.layers.Dense(4)(features))
    ```

    Reference:
        Zeghidour et al. 2021, SoundStream; Lee et al. 2022, Autoregressive Image
        Generation using Residual Quantization.
        Stacks of finite scalar quantizers: arXiv 2508.15860.
    """

    scored_as = "codes"
    config_names = ("scales", "limit", "axis")

    def __init__(
        self,
        quantizers: Sequence[BaseQuantizer],
        scales: Sequence[float] | None = None,
        limit: float | None = None,
        axis: int = -1,
        track_usage: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(track_usage=track_usage, **kwargs)
        self.quantizers = _check_quantizers(quantizers)
        for quantizer in self.quantizers:
            # What is left over is a difference: none of its terms may be rounded.
            quantizer.dtype_policy = "float32"
        self.axis = check_axis(axis)
        if scales is not None and len(scales) != len(self.quantizers):
            raise ValueError(
                f"`scales` must have a number for each of the {len(self.quantizers)} "
                f"quantizers. Received: {scales!r}."
            )
        self.scales = (
            None
            if scales is None
            else [check_number("scales", scale, exclusive=True) for scale in scales]
        )
        self.limit = (
            None if limit is None else check_number("limit", limit, exclusive=True)
        )

    @property
    def inputs_per_latent(self) -> int:
        return self.quantizers[0].inputs_per_latent

    def build(self, input_shape: Any) -> None:
        shape = self._shape_with_axis_last(input_shape)
        for quantizer in self.quantizers:
            if not quantizer.built:
                quantizer.build(shape)
        counts = [quantizer.codes_per_latent for quantizer in self.quantizers]
        self._used_scales, self._used_limit = self._grid_or_given()
        self.build_codes(sum(counts, ()), self.quantizers[0].input_size)

    def build_from_codes(self, shape: Any) -> None:
        if not self.built and len(shape) > 0 and shape[-1]:
            of_one = shape[-1] // len(self.quantizers)
            self.build((None, self.inputs_per_latent * of_one))
        self._check_built()

    def _grid_or_given(self) -> tuple[list[Any], Any]:
        """Scales, and the limit of the inputs or None."""
        is_grid = all(isinstance(q, FiniteScalarQuantizer) for q in self.quantizers)
        if self.scales is not None or not is_grid:
            return self.scales or [1.0] * len(self.quantizers), self.limit
        counts = [np.asarray(q.codes_per_latent, "float32") for q in self.quantizers]
        scales = [np.ones_like(counts[0])]
        for count in counts[:-1]:
            scales.append(scales[-1] / count)
        limit = counts[0] / (counts[0] - 1.0) if self.limit is None else self.limit
        return scales, limit

    def call(
        self, inputs: Tensor, training: bool | None = None, mask: Tensor | None = None
    ) -> Tensor:
        x = self._prepare(inputs)
        weights = self._sample_weights(mask, x)
        rest, total, codes = x, ops.zeros_like(x), []
        for quantizer, scale in zip(self.quantizers, self._used_scales, strict=True):
            scaled = ops.divide(rest, scale)
            z = ops.stop_gradient(
                ops.multiply(quantizer(scaled, training=training, mask=mask), scale)
            )
            rest, total = rest - z, total + z
            if self.usage is not None:
                codes.append(quantizer.codes(scaled))
        joined = ops.concatenate(codes, axis=-1) if codes else None
        return self._finish(straight_through(x, total), joined, training, weights)

    def continuous(self, inputs: Tensor) -> Tensor:
        """The inputs, limited as the quantizers get them, float32."""
        return self._axis_back(self._prepare(inputs))

    def value_table(self) -> Tensor:
        """The quantizers' tables one after the other; shorter ones end in NaN."""
        self._check_built()
        tables = [
            _times(ops.convert_to_numpy(q.value_table()), scale)
            for q, scale in zip(self.quantizers, self._used_scales, strict=True)
        ]
        width = max(table.shape[1] for table in tables)
        padded = np.full((self.num_latents, width, *tables[0].shape[2:]), np.nan)
        start = 0
        for table in tables:
            padded[start : start + len(table), : table.shape[1]] = table
            start += len(table)
        return ops.convert_to_tensor(padded.astype("float32"))

    def _prepare(self, inputs: Tensor) -> Tensor:
        x = super()._prepare(inputs)
        if self._used_limit is None:
            return x
        return ops.multiply(ops.tanh(ops.divide(x, self._used_limit)), self._used_limit)

    def _codes(self, x: Tensor) -> Tensor:
        rest, found = x, []
        for quantizer, scale in zip(self.quantizers, self._used_scales, strict=True):
            codes = quantizer._codes(quantizer._prepare(ops.divide(rest, scale)))
            found.append(codes)
            rest = rest - ops.multiply(
                quantizer._values_of(ops.maximum(codes, 0)), scale
            )
        return ops.concatenate(found, axis=-1)

    def _values_of(self, codes: Tensor) -> Tensor:
        total = 0.0
        for quantizer, scale, part in self._parts(codes):
            total = total + ops.multiply(quantizer._values_of(part), scale)
        return total

    def _repeated(self, codes: Tensor) -> Tensor:
        """-1 wherever one of the quantizers has no code."""
        parts = [quantizer._repeated(part) for quantizer, _, part in self._parts(codes)]
        return functools.reduce(ops.minimum, parts)

    def _parts(self, codes: Tensor) -> list[tuple[Any, Any, Tensor]]:
        n = self.num_latents // len(self.quantizers)
        return [
            (quantizer, scale, codes[..., k * n : (k + 1) * n])
            for k, (quantizer, scale) in enumerate(
                zip(self.quantizers, self._used_scales, strict=True)
            )
        ]

    def get_config(self) -> dict[str, Any]:
        quantizers = map(keras.saving.serialize_keras_object, self.quantizers)
        return {**super().get_config(), "quantizers": list(quantizers)}

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        quantizers = [
            keras.saving.deserialize_keras_object(each, custom_objects=custom_objects)
            for each in config["quantizers"]
        ]
        return cls(**{**config, "quantizers": quantizers})


def _check_quantizers(quantizers: Sequence[BaseQuantizer]) -> list[BaseQuantizer]:
    found = list(quantizers) if isinstance(quantizers, list | tuple) else []
    are_valid = all(isinstance(each, BaseQuantizer) for each in found)
    if not found or not are_valid:
        raise ValueError(
            "`quantizers` must be a list of quantizers of this package. Received: "
            f"{quantizers!r}."
        )
    if len({id(each) for each in found}) < len(found):
        raise ValueError("`quantizers` must be different layers, not one repeated.")
    return found


def _times(table: np.ndarray, scale: Any) -> np.ndarray:
    """A table `(n, num_values[, code_dim])` times a number or one for each latent."""
    shape = (-1, *[1] * (table.ndim - 1))
    return table * np.reshape(np.asarray(scale, "float32"), shape)
