"""Sizes a `SelfSizingQuantizer`: coarse, finer, then as small as good enough."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np
import numpy.typing as npt

from qlayers.callbacks.model_state import uncounted
from qlayers.callbacks.step_counter import StepCounter
from qlayers.quantizers import SelfSizingQuantizer

FloatArray = npt.NDArray[np.float64]
Function = Callable[[Any], Any]
_ROWS = 512  # decoded at once
# Share of the distortion that finer values must promise to save.
_NOTABLE_GAIN = 0.01


@dataclasses.dataclass(frozen=True)
class _Edit:
    """Some values of a latent become one.

    Attributes:
        latent: Number of the latent.
        codes: The codes that become one, by ascending value.
        value: Its value.
        bits: Entropy of the codes that this saves, in bits.
        added: Distortion that it adds, on average over the sample.
    """

    latent: int
    codes: tuple[int, ...]
    value: float
    bits: float
    added: float = 0.0

    @property
    def price(self) -> float:
        """Distortion per bit saved."""
        return max(self.added, 0.0) / max(self.bits, 1e-12)


class SizeAdaptation(StepCounter):
    """Splits values, then merges them and drops latents while a target holds.

    Every `every_n_steps` steps it looks at a fixed sample.

    From half of `warmup_steps` on, until `warmup_steps`, latents get finer: where there
    is room for a value (see `start_values` of the layer), and where the sample would be
    reconstructed better if the latent were not rounded at all, the value with the
    largest squared rounding error is split in two, at most one a latent.

    After the warm-up, if the mean distortion is at most `target`, each edit is tried on
    the sample: two neighbouring values of a latent become one (their mean, weighted by
    use), or a whole latent becomes a constant. The price of an edit is the distortion
    it adds for each bit of code entropy it saves. The cheapest edits, at most one a
    latent and `max_edits` in all, are made as long as the distortion stays at most at
    the target. Values that no image of the sample uses go for nothing.

    The target is the only choice: what error of a reconstruction you accept. Without
    one, it is the error at the first look that falls on `warmup_steps` or later, times
    `tolerance`: what training gains from then on is spent on fewer values. Training
    goes on between edits, so that encoder and decoder make up for them. The target is
    a weight of the layer: a model that is loaded goes on with it.

    Args:
        quantizer: The layer, part of the model that is trained.
        inputs: (samples, ...) a fixed sample of inputs, some hundreds.
        encode: A Keras model, or a function from a batch of inputs to the quantizer's
            inputs.
        decode: A Keras model, or a function from latents to reconstructions, on the
            scale of `inputs`.
        target: The largest mean squared error that is accepted; by default relative to
            the first look.
        tolerance: Share of the first look's error that is accepted, if there is no
            `target`.
        warmup_steps: Training steps before anything is retired.
        every_n_steps: Training steps between two looks.
        max_edits: At most so many edits at a time.
        verbose: Whether each look prints a line.

    Attributes:
        history: For each look `step`, `distortion`, `sizes` (values left in each
            latent) and `edits`.

    Example:
        >>> adaptation = SizeAdaptation(
        ...     quantizer, images, encoder, decoder, target=0.002, every_n_steps=200)
        >>> model.fit(stream, steps_per_epoch=1_000, callbacks=[adaptation])
        >>> quantizer.sizes()

    Reference:
        Rezende and Viola 2018, Taming VAEs, for holding a reconstruction target.
    """

    def __init__(
        self,
        quantizer: SelfSizingQuantizer,
        inputs: npt.ArrayLike,
        encode: Function,
        decode: Function,
        target: float | None = None,
        tolerance: float = 1.0,
        warmup_steps: int = 0,
        every_n_steps: int = 200,
        max_edits: int = 4,
        verbose: bool = False,
    ) -> None:
        super().__init__(every_n_steps)
        for name, value in (("target", target), ("tolerance", tolerance)):
            if value is not None and not value > 0:
                raise ValueError(f"`{name}` must be positive; received {value!r}.")
        if not isinstance(max_edits, int) or max_edits < 1:
            raise ValueError(
                f"`max_edits` must be a positive integer; received {max_edits!r}."
            )
        self.quantizer = quantizer
        self.inputs = np.asarray(inputs)
        self.encode = encode
        self.decode = decode
        self.target = target
        self.tolerance = tolerance
        self.warmup_steps = warmup_steps
        self.max_edits = max_edits
        self.verbose = verbose
        self.history: list[dict[str, Any]] = []

    def advance(self, step: int, logs: Mapping[str, Any]) -> None:
        if self._is_due(step) and self._is_time(step):
            with uncounted(self.model):
                self.adapt(step)

    def after_step(self, step: int) -> None:
        """For loops other than `fit`: looks, if the step is one to look at.

        Args:
            step: Training steps done.
        """
        if step % self.every_n_steps == 0 and self._is_time(step):
            self.adapt(step)

    def _is_time(self, step: int) -> bool:
        return 2 * step >= self.warmup_steps

    def adapt(self, step: int = 0) -> None:
        """Looks at the sample and makes the edits that are due.

        Args:
            step: Training steps done. Before `warmup_steps` values are split, later
                they are retired.
        """
        encoded = self._encoded()
        codes = self._codes(encoded)
        latents = self._lookup(codes)
        errors = self._errors(latents, self.inputs)
        if step < self.warmup_steps:
            splits = self._refine(encoded, codes, latents, errors)
            self._note(step, float(errors.mean()), float("nan"), splits)
        else:
            self._shrink(step, codes, latents, errors)

    def _shrink(
        self,
        step: int,
        codes: npt.NDArray[Any],
        latents: FloatArray,
        errors: FloatArray,
    ) -> None:
        limit = self._limit(float(errors.mean()))
        edits: list[_Edit] = []
        if errors.mean() <= limit:
            for latent in range(codes.shape[1]):
                self._retire_unused(latent, codes[:, latent])
            edits = self._affordable(
                self._priced(codes, latents, errors), errors, latents, codes, limit
            )
            for edit in edits:
                self._apply(edit)
        self._note(step, float(errors.mean()), limit, len(edits))

    def _refine(
        self,
        encoded: npt.NDArray[Any],
        codes: npt.NDArray[Any],
        latents: FloatArray,
        errors: FloatArray,
    ) -> int:
        """Splits a value of each latent whose rounding costs reconstructions."""
        splits = 0
        for latent in range(codes.shape[1]):
            values = self._values(latent)
            if not 1 < len(values) < self.quantizer.num_values:
                continue
            exact = latents.copy()
            ends = min(values.values()), max(values.values())
            exact[:, latent] = np.clip(encoded[:, latent], *ends)
            gain = errors.mean() - self._errors(exact, self.inputs).mean()
            if gain > _NOTABLE_GAIN * errors.mean():
                splits += self._split(latent, encoded[:, latent], codes[:, latent])
        return splits

    def _split(
        self, latent: int, encoded: npt.NDArray[Any], codes: npt.NDArray[Any]
    ) -> int:
        """Splits the value with the largest squared error; 1 if there was one."""
        errors, halves = {}, {}
        for code, value in self._values(latent).items():
            own = encoded[codes == code].astype(np.float64)
            if len(np.unique(own)) < 2:
                continue
            upper = own > own.mean()
            errors[code] = ((own - value) ** 2).sum()
            halves[code] = float(own[~upper].mean()), float(own[upper].mean())
        if not errors:
            return 0
        worst = max(errors, key=errors.__getitem__)
        self.quantizer.split(latent, worst, *halves[worst])
        return 1

    def _limit(self, distortion: float) -> float:
        """The largest distortion that is accepted; the first look may decide it."""
        if self.target is not None:
            return self.target
        if float(self.quantizer.target) == 0.0:
            self.quantizer.target.assign(self.tolerance * distortion)
        return float(self.quantizer.target)

    def _note(self, step: int, distortion: float, limit: float, edits: int) -> None:
        sizes = self.quantizer.sizes()
        self.history.append(
            {"step": step, "distortion": distortion, "sizes": sizes, "edits": edits}
        )
        if self.verbose:
            left = [size for size in sizes if size > 1]
            print(
                f"step {step}: distortion {distortion:.3g} (target {limit:.3g}), "
                f"{edits} edits, {len(left)} latents with {left} values",
                flush=True,
            )

    def _priced(
        self, codes: npt.NDArray[Any], latents: FloatArray, errors: FloatArray
    ) -> list[_Edit]:
        """All edits, the cheapest first."""
        edits = [
            self._price(edit, codes, latents, errors)
            for latent in range(codes.shape[1])
            for edit in self._edits_of(latent, codes[:, latent])
        ]
        return sorted(edits, key=lambda edit: edit.price)

    def _edits_of(self, latent: int, codes: npt.NDArray[Any]) -> list[_Edit]:
        """Merges of neighbours and the end of a latent, not yet priced."""
        values = self._values(latent)
        order = sorted(values, key=values.__getitem__)
        groups = [tuple(order[i : i + 2]) for i in range(len(order) - 1)]
        if len(order) > 2:
            groups.append(tuple(order))
        counts = np.bincount(codes, minlength=self.quantizer.num_values)
        return [_merged(latent, group, values, counts) for group in groups]

    def _price(
        self,
        edit: _Edit,
        codes: npt.NDArray[Any],
        latents: FloatArray,
        errors: FloatArray,
    ) -> _Edit:
        """Decodes the samples that an edit changes."""
        rows = np.isin(codes[:, edit.latent], edit.codes)
        changed = latents[rows].copy()
        changed[:, edit.latent] = edit.value
        added = self._errors(changed, self.inputs[rows]) - errors[rows]
        return dataclasses.replace(edit, added=float(added.sum() / len(errors)))

    def _affordable(
        self,
        edits: list[_Edit],
        errors: FloatArray,
        latents: FloatArray,
        codes: npt.NDArray[Any],
        limit: float,
    ) -> list[_Edit]:
        """The cheapest edits, one a latent, that keep the target together."""
        chosen: list[_Edit] = []
        for edit in edits:
            taken = {other.latent for other in chosen}
            expected = errors.mean() + edit.added + sum(e.added for e in chosen)
            if edit.latent not in taken and expected <= limit:
                chosen.append(edit)
            if len(chosen) == self.max_edits:
                break
        while chosen and self._together(chosen, latents, codes) > limit:
            chosen.pop()  # the dearest; what edits add is not what they add together
        return chosen

    def _together(
        self, edits: list[_Edit], latents: FloatArray, codes: npt.NDArray[Any]
    ) -> float:
        changed = latents.copy()
        for edit in edits:
            rows = np.isin(codes[:, edit.latent], edit.codes)
            changed[rows, edit.latent] = edit.value
        return float(self._errors(changed, self.inputs).mean())

    def _retire_unused(self, latent: int, codes: npt.NDArray[Any]) -> None:
        """Values that no sample uses leave; their neighbours stay as they are."""
        values = self._values(latent)
        used = set(np.unique(codes).tolist())
        stays = min(used)
        for code in values:
            if code not in used:
                self.quantizer.merge(latent, stays, code, values[stays])

    def _apply(self, edit: _Edit) -> None:
        if len(edit.codes) > 2:
            self.quantizer.fix(edit.latent, edit.value)
        else:
            first, second = edit.codes
            self.quantizer.merge(edit.latent, first, second, edit.value)

    def _values(self, latent: int) -> dict[int, float]:
        """The values that a latent has left, by code."""
        left = keras.ops.convert_to_numpy(self.quantizer.available)[latent] > 0.5
        table = keras.ops.convert_to_numpy(self.quantizer.table)[latent, :, 0]
        return {int(code): float(table[code]) for code in np.flatnonzero(left)}

    def _encoded(self) -> npt.NDArray[Any]:
        return _in_parts(self.encode, self.inputs)

    def _codes(self, encoded: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return keras.ops.convert_to_numpy(self.quantizer.codes(encoded))

    def _lookup(self, codes: npt.NDArray[Any]) -> FloatArray:
        values = self.quantizer.lookup(codes)
        return keras.ops.convert_to_numpy(values).astype(np.float64)

    def _errors(self, latents: FloatArray, inputs: npt.NDArray[Any]) -> FloatArray:
        """Mean squared error of each reconstruction."""
        if len(latents) == 0:
            return np.zeros(0)
        decoded = _in_parts(self.decode, latents.astype("float32"))
        difference = decoded.astype(np.float64) - inputs
        return (difference**2).reshape(len(inputs), -1).mean(axis=1)


def _merged(
    latent: int,
    codes: tuple[int, ...],
    values: Mapping[int, float],
    counts: npt.NDArray[Any],
) -> _Edit:
    used = counts[list(codes)].astype(np.float64)
    value = float(np.average([values[code] for code in codes], weights=used))
    total = counts.sum()
    bits = _plogp(used.sum() / total) - _plogp(used / total)
    return _Edit(latent, codes, value, bits)


def _plogp(shares: npt.ArrayLike) -> float:
    """Σ p log2 p, with 0 for p = 0."""
    p = np.atleast_1d(np.asarray(shares, np.float64))
    p = p[p > 0]
    return float((p * np.log2(p)).sum())


def _in_parts(function: Function, batch: npt.NDArray[Any]) -> npt.NDArray[Any]:
    call = function
    if isinstance(function, keras.Model):
        # Compiled once, where calling the model would run it step by step.
        call = function.predict_on_batch
    parts = [batch[start : start + _ROWS] for start in range(0, len(batch), _ROWS)]
    return np.concatenate(
        [keras.ops.convert_to_numpy(call(_padded(p)))[: len(p)] for p in parts]
    )


def _padded(rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """As many rows as the next power of two: few shapes to compile for."""
    missing = (1 << (len(rows) - 1).bit_length()) - len(rows)
    return np.concatenate([rows, np.repeat(rows[-1:], missing, axis=0)])
