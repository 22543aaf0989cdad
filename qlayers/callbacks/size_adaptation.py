"""Sizes a `SelfSizingQuantizer`: coarse, finer, then as small as good enough."""

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Mapping
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
# Latents end until so many times the warm-up, values merge until so many times.
_ENDS_UNTIL, _MERGES_UNTIL = 3, 3.5


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

    def meets(self, other: "_Edit") -> bool:
        """Whether both change a same value."""
        return self.latent == other.latent and bool({*self.codes} & {*other.codes})


@dataclasses.dataclass(frozen=True)
class _Look:
    """What the sample shows at a step.

    Attributes:
        encoded: (samples, n) inputs of the quantizer.
        codes: (samples, n) their codes.
        latents: (samples, n) the values of these.
        errors: (samples,) mean squared error of each reconstruction.
    """

    encoded: npt.NDArray[Any]
    codes: npt.NDArray[Any]
    latents: FloatArray
    errors: FloatArray

    @property
    def distortion(self) -> float:
        return float(self.errors.mean())


class SizeAdaptation(StepCounter):
    """Splits values, then ends latents, then merges values, while a target holds.

    Every `every_n_steps` steps it looks at a fixed sample. With a warm-up of W steps:

    - From W / 2 on, latents get finer: where there is room for a value (see
      `start_values` of the layer), and where the sample would be reconstructed better
      if the latent were not rounded at all, the value with the largest squared rounding
      error is split in two, at most one a latent.
    - From W to 3 W, latents end. The weakest is the one without which the distortion
      rises least. It ends, if the distortion then stays at most at the target; if not,
      neighbouring values of it become one, as many as the target allows. The others
      still get finer: training moves to them what the weakest loses.
    - From 3 W on, values merge in all latents. The price of a merge, or of an end, is
      the distortion that it adds for each bit of code entropy that it saves. The
      cheapest, at most `max_edits`, are made as long as the distortion stays at most
      at the target.
    - From 3.5 W on sizes stay, and training settles.

    Merged values become their mean, weighted by use. Values that no image of the sample
    uses are retired, which costs no error.

    The target is the only choice: what error of a reconstruction you accept. Without
    one, it is the error at the first look that falls on `warmup_steps` or later, times
    `tolerance`: what training gains from then on is spent on fewer latents. The first
    look at 3 W or later sets it again, if it is better: what was gained and not spent
    is kept, and values merge only where they hardly matter.
    The target is a weight of the layer: a model that is loaded goes on with it.

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
        warmup_steps: Training steps before anything is retired, W above: a quarter of
            the training. With 0, values merge from the start to the end.
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
            step: Training steps done, which decide what is due.
        """
        look = self._look()
        limit, edits = float("nan"), 0
        if step < self.warmup_steps:
            edits = self._refine(look)
        else:
            limit = self._limit(look.distortion, step)
        if look.distortion <= limit and not self._is_settling(step):
            for latent in range(look.codes.shape[1]):
                self._retire_unused(latent, look.codes[:, latent])
            ends = step < _ENDS_UNTIL * self.warmup_steps
            edits = self._end_weakest(look, limit) if ends else self._trim(look, limit)
        self._note(step, look.distortion, limit, edits)

    def _is_settling(self, step: int) -> bool:
        """Whether sizes stay as they are; without a warm-up they never do."""
        return 0 < _MERGES_UNTIL * self.warmup_steps <= step

    def _look(self) -> _Look:
        encoded = _in_parts(self.encode, self.inputs)
        codes = keras.ops.convert_to_numpy(self.quantizer.codes(encoded))
        values = keras.ops.convert_to_numpy(self.quantizer.lookup(codes))
        latents = values.astype(np.float64)
        return _Look(encoded, codes, latents, self._errors(latents, self.inputs))

    def _trim(self, look: _Look, limit: float) -> int:
        """Merges and ends whatever costs least for each bit."""
        latents = range(look.codes.shape[1])
        edits = [e for latent in latents for e in self._edits_of(latent, look)]
        return self._make(self._affordable(self._priced(edits, look), look, limit))

    def _end_weakest(self, look: _Look, limit: float) -> int:
        """Ends the latent that matters least, or takes values from it."""
        ends = [
            self._end_of(latent, look)
            for latent in range(look.codes.shape[1])
            if len(self._values(latent)) > 1
        ]
        if not ends:
            return 0
        priced = self._priced(ends, look)
        weakest = min(priced, key=lambda edit: edit.added)
        edits = self._affordable([weakest], look, limit)
        if not edits:
            merges = self._priced(self._merges_of(weakest.latent, look), look)
            edits = self._affordable(merges, look, limit)
        return self._make(edits) + self._refine(look, but=weakest.latent)

    def _make(self, edits: list[_Edit]) -> int:
        for edit in edits:
            self._apply(edit)
        return len(edits)

    def _refine(self, look: _Look, but: int | None = None) -> int:
        """Splits a value of each latent whose rounding costs reconstructions."""
        splits = 0
        for latent in range(look.codes.shape[1]):
            values = self._values(latent)
            room = 1 < len(values) < self.quantizer.num_values
            if latent == but or not room:
                continue
            exact = look.latents.copy()
            ends = min(values.values()), max(values.values())
            exact[:, latent] = np.clip(look.encoded[:, latent], *ends)
            gain = look.distortion - self._errors(exact, self.inputs).mean()
            if gain > _NOTABLE_GAIN * look.distortion:
                splits += self._split(latent, look)
        return splits

    def _split(self, latent: int, look: _Look) -> int:
        """Splits the value with the largest squared error; 1 if there was one."""
        errors, halves = {}, {}
        for code, value in self._values(latent).items():
            rows = look.codes[:, latent] == code
            own = look.encoded[rows, latent].astype(np.float64)
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

    def _limit(self, distortion: float, step: int) -> float:
        """The largest distortion that is accepted; the first look may decide it."""
        if self.target is not None:
            return self.target
        known, now = float(self.quantizer.target), self.tolerance * distortion
        if known == 0.0 or (self._have_ends_just_ended(step) and now < known):
            # Upwards: what is there now must not lie above its own target.
            self.quantizer.target.assign(np.nextafter(np.float32(now), np.inf))
        return float(self.quantizer.target)

    def _have_ends_just_ended(self, step: int) -> bool:
        """Whether this is the first look at which no latent is to end."""
        last = _ENDS_UNTIL * self.warmup_steps
        due = step - step % self.every_n_steps  # several steps may come in one call
        return last <= step and due < last + self.every_n_steps

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

    def _edits_of(self, latent: int, look: _Look) -> list[_Edit]:
        """Merges of neighbours and the end of a latent, not yet priced."""
        merges = self._merges_of(latent, look)
        return [*merges, self._end_of(latent, look)] if len(merges) > 1 else merges

    def _merges_of(self, latent: int, look: _Look) -> list[_Edit]:
        values = self._values(latent)
        order = sorted(values, key=values.__getitem__)
        pairs = list(itertools.pairwise(order))
        return [
            _merged(latent, pair, values, self._counts(latent, look)) for pair in pairs
        ]

    def _end_of(self, latent: int, look: _Look) -> _Edit:
        values = self._values(latent)
        order = tuple(sorted(values, key=values.__getitem__))
        return _merged(latent, order, values, self._counts(latent, look))

    def _counts(self, latent: int, look: _Look) -> npt.NDArray[Any]:
        return np.bincount(look.codes[:, latent], minlength=self.quantizer.num_values)

    def _priced(self, edits: Iterable[_Edit], look: _Look) -> list[_Edit]:
        """The edits with what they add, the cheapest first."""
        priced = [self._price(edit, look) for edit in edits]
        return sorted(priced, key=lambda edit: edit.price)

    def _price(self, edit: _Edit, look: _Look) -> _Edit:
        """Decodes the samples that an edit changes."""
        rows = np.isin(look.codes[:, edit.latent], edit.codes)
        changed = look.latents[rows].copy()
        changed[:, edit.latent] = edit.value
        added = self._errors(changed, self.inputs[rows]) - look.errors[rows]
        return dataclasses.replace(edit, added=float(added.sum() / len(look.errors)))

    def _affordable(self, edits: list[_Edit], look: _Look, limit: float) -> list[_Edit]:
        """The cheapest edits, of different values, that keep the target together."""
        chosen: list[_Edit] = []
        for edit in edits:
            expected = look.distortion + sum(e.added for e in (*chosen, edit))
            if expected <= limit and not any(edit.meets(other) for other in chosen):
                chosen.append(edit)
            if len(chosen) == self.max_edits:
                break
        while chosen and self._together(chosen, look) > limit:
            chosen.pop()  # the dearest; what edits add is not what they add together
        return chosen

    def _together(self, edits: list[_Edit], look: _Look) -> float:
        changed = look.latents.copy()
        for edit in edits:
            rows = np.isin(look.codes[:, edit.latent], edit.codes)
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
