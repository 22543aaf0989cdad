"""InfoMEC: modularity, explicitness and compactness from information theory."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from qlayers.metrics._checks import (
    BoolArray,
    FloatArray,
    IntArray,
    check_at_least,
    check_choice,
    check_real_sources,
    column_indices,
)
from qlayers.metrics._domain import domain_notes
from qlayers.metrics._sample import Sample, standardize
from qlayers.metrics.bootstrap import Bootstrap, add_intervals
from qlayers.metrics.explicitness import (
    explicitness_per_source,
    held_out_explicitness,
)
from qlayers.metrics.metric_result import MetricResult
from qlayers.metrics.neighbors import neighbor_information


@dataclass(frozen=True)
class _Protocol:
    """The choices by which the authors' own numbers differ.

    Attributes:
        n_neighbors: K of the nearest-neighbour estimator (continuous latents).
        spread: How the size of a latent is measured.
        discrete_fraction: Discrete latents are active above this fraction of the
            largest spread; None if `discrete_absolute` decides.
        discrete_absolute: Discrete latents are active above this spread.
        continuous_fraction: As `discrete_fraction`, for continuous latents.
        one_hot: Whether discrete latents enter explicitness one-hot.
        balanced: Whether the explicitness fit weighs classes alike.
        standardize: Whether latents are standardised before neighbours are sought.
        max_steps: Steps of L-BFGS after which the explicitness fit stops; None goes
            on to the infimum.
    """

    n_neighbors: int
    spread: str
    discrete_fraction: float | None
    discrete_absolute: float
    continuous_fraction: float
    one_hot: bool
    balanced: bool
    standardize: bool
    max_steps: int | None = None


_PAPER = _Protocol(3, "range", 1 / 8, 0.0, 1 / 8, False, False, False)
_STANDALONE = _Protocol(10, "range", None, 0.0, 1 / 20, True, True, True)
_PROTOCOLS = {
    "paper": _PAPER,
    "standalone": _STANDALONE,
    "tripod": _Protocol(10, "iqr", None, 0.1, 1 / 10, True, True, True),
    "qlae_code": dataclasses.replace(_PAPER, balanced=True, max_steps=100),
    "factor_qvae": dataclasses.replace(_STANDALONE, n_neighbors=3, max_steps=500),
}
_REFERENCE_STEPS = 100
_FEATURES = ("auto", "scalars", "one_hot")
_FITS = ("converged", "scikit_learn")


@dataclass(frozen=True, eq=False, kw_only=True)
class InfoMECResult(MetricResult):
    """InfoM, InfoE and InfoC with what they came from.

    Attributes:
        modularity: InfoM (eq. 8).
        explicitness: InfoE (eq. 14).
        compactness: InfoC (eq. 9).
        nmi: (n_s, n_z) mutual information over source entropy; inactive latents are
            included, continuous sources have NaN.
        active: (n_z,) latents that count for modularity and compactness.
        modularity_per_latent: (n_z,) normalised ratios, NaN where undefined.
        compactness_per_source: (n_s,) normalised ratios, NaN where undefined
            and for continuous sources.
        explicitness_per_source: (n_s,), NaN for constant sources.
    """

    title = "InfoMEC"
    score_names = ("modularity", "explicitness", "compactness")

    modularity: float
    explicitness: float
    compactness: float
    nmi: FloatArray
    active: BoolArray
    modularity_per_latent: FloatArray
    compactness_per_source: FloatArray
    explicitness_per_source: FloatArray

    def _details(self) -> list[str]:
        inactive = ", ".join(map(str, np.flatnonzero(~self.active))) or "none"
        return [f"inactive latents: {inactive}"]


def infomec(
    sources: npt.ArrayLike,
    latents: npt.ArrayLike,
    *,
    discrete_latents: bool,
    protocol: str = "paper",
    n_neighbors: int | None = None,
    features: str = "auto",
    balanced: bool | None = None,
    fit: str | None = None,
    continuous_sources: Sequence[int | str] = (),
    seed: int = 0,
    bootstrap: Bootstrap | int | None = None,
    verbose: bool = True,
) -> InfoMECResult:
    """Scores modularity, explicitness and compactness of latents.

    Mutual information comes from the joint histogram for discrete latents and from
    nearest neighbours for continuous ones, and is divided by the source's entropy.
    Modularity looks at each active latent, compactness at each source: the largest
    share of one partner, rescaled from [1/n, 1] to [0, 1]. Explicitness is the
    relative drop of a source's entropy when a linear model knows all latents.

    Where the definition leaves 0/0: a latent without information about any source is
    left out of modularity's mean, a source without any from compactness's; constant
    sources are left out throughout; a single active latent has compactness 1, a single
    source gives modularity 1; no active latent, or no varying source, gives 0. Each
    case is written to `notes`.

    With as many one-hot features as samples the fit of explicitness explains any
    labels. It is then measured on samples the fit has not seen, and a note says so.

    Args:
        sources: (samples, n_s) integers, or a data frame; its columns may hold text or
            categories.
        latents: (samples, n_z) floats, or integer codes.
        discrete_latents: True if latents take few values. Pass codes or
            `lookup(codes)`, not straight-through outputs: rounding splits codes.
        protocol: `"paper"` is the text: k=3; inactive below 1/8 of the largest
            range (integer codes: if constant, since they are names without an order);
            latents enter explicitness as standardised scalars (integer codes one-hot,
            as the authors' VQ-VAE indices did); unweighted fit.
            `"standalone"` is the authors' published function: k=10; inactive at or
            below 1/20 of the largest range (continuous) or at range 0 (discrete);
            discrete latents one-hot; balanced class weights. `"tripod"` is the same
            with interquartile ranges above 0.1 (discrete) or 1/10 of the largest.
            `"qlae_code"` is what the code behind the paper's tables ran: as
            `"paper"`, but inactive also at the threshold, balanced class weights and
            a fit of 100 steps. `"factor_qvae"` is Baykal et al.'s copy of the
            published function: as `"standalone"`, but k=3 and a fit of 500 steps.
        n_neighbors: Overrides the protocol's k.
        features: Overrides how latents enter explicitness: `"scalars"`, `"one_hot"`.
        balanced: Overrides whether the fit weighs classes alike; the code behind the
            paper's tables did.
        fit: `"scikit_learn"` stops the fit after the protocol's number of steps, or
            100, as the authors did, which can leave explicitness too low;
            `"converged"` reaches the infimum. By default the first for the two
            protocols of codes, the second for the others.
        continuous_sources: Columns of `sources` that are real numbers, by position
            or, for a data frame, by name. They count for
            explicitness, by linear regression (R²), and not for the other two, whose
            normaliser needs a discrete source.
        seed: Seed of the noise that separates equal continuous latents.
        bootstrap: Number of resamples, or a `Bootstrap`, for confidence intervals.
        verbose: Show progress if it takes longer than a second.

    Returns:
        An `InfoMECResult`.

    Example:
        >>> result = infomec(sources, codes, discrete_latents=True)
        >>> result.modularity, result.nmi.shape, result.active

    Reference:
        Hsu et al. 2023, Disentanglement via Latent Quantization, section 4.
    """
    check_choice(protocol, _PROTOCOLS, "protocol")
    check_choice(features, _FEATURES, "features")
    rules = _PROTOCOLS[protocol]
    fit = _default_fit(rules) if fit is None else fit
    check_choice(fit, _FITS, "fit")
    if n_neighbors is not None:
        n_neighbors = check_at_least(n_neighbors, 1, "n_neighbors")
        rules = dataclasses.replace(rules, n_neighbors=n_neighbors)
    if balanced is not None:
        rules = dataclasses.replace(rules, balanced=balanced)
    scorer = _Scorer(rules, discrete_latents, features, fit, protocol, seed, verbose)
    if len(continuous_sources):
        columns = column_indices(continuous_sources, sources, "continuous_sources")
        mixed = _MixedSample(sources, latents, columns)
        result = scorer.mixed(mixed)
        quiet = dataclasses.replace(scorer, verbose=False)
        return add_intervals(
            result, lambda rows: quiet.mixed(mixed.rows(rows)), mixed.size, bootstrap
        )
    return infomec_of(Sample(sources, latents), scorer, bootstrap)


def infomec_of(
    sample: Sample, scorer: "_Scorer", bootstrap: Bootstrap | int | None = None
) -> InfoMECResult:
    """`infomec` for a sample whose matrices may already be known."""
    result = scorer.discrete(sample)
    quiet = dataclasses.replace(scorer, verbose=False)
    return add_intervals(
        result, lambda rows: quiet.discrete(sample.rows(rows)), sample.size, bootstrap
    )


def make_scorer(
    protocol: str, discrete_latents: bool, seed: int, verbose: bool = False
) -> "_Scorer":
    """A scorer with a protocol's own settings, for `evaluate`."""
    check_choice(protocol, _PROTOCOLS, "protocol")
    rules = _PROTOCOLS[protocol]
    fit = _default_fit(rules)
    return _Scorer(rules, discrete_latents, "auto", fit, protocol, seed, verbose)


def _default_fit(rules: _Protocol) -> str:
    return "converged" if rules.max_steps is None else "scikit_learn"


class _MixedSample:
    """Sources of which some columns are real numbers."""

    def __init__(
        self, sources: Any, latents: Any, continuous_sources: Sequence[int]
    ) -> None:
        self.sources = check_real_sources(sources)
        width = self.sources.shape[1]
        bad = [index for index in continuous_sources if not 0 <= index < width]
        if bad:
            raise ValueError(
                f"`continuous_sources` names columns {bad}, but `sources` has {width}."
            )
        self.columns = tuple(continuous_sources)
        self.kept = np.array([i for i in range(width) if i not in self.columns], int)
        placeholder = self.sources[:, self.kept]
        if len(self.kept) == 0:
            placeholder = np.zeros((len(self.sources), 1))
        self.discrete = Sample(placeholder, latents)

    @property
    def size(self) -> int:
        return len(self.sources)

    def rows(self, rows: IntArray) -> "_MixedSample":
        return _MixedSample(
            self.sources[rows], self.discrete.latents[rows], self.columns
        )

    def spread_out(self, values: FloatArray) -> FloatArray:
        """Values of discrete sources as values of all; continuous ones have NaN."""
        spread = np.full((self.sources.shape[1], *values.shape[1:]), np.nan)
        spread[self.kept] = values[: len(self.kept)]
        return spread


@dataclass(frozen=True)
class _Scorer:
    """InfoMEC with every choice made; applied to a sample or to its resamples."""

    rules: _Protocol
    discrete_latents: bool
    features: str
    fit: str
    protocol: str
    seed: int
    verbose: bool = False

    def discrete(self, sample: Sample) -> InfoMECResult:
        sources = sample.sources.astype(np.float64)
        return self._result(sample, self._explicitness(sample, sources, ()))

    def mixed(self, mixed: _MixedSample) -> InfoMECResult:
        sample = mixed.discrete
        explicitness = self._explicitness(sample, mixed.sources, mixed.columns)
        result = self._result(sample, explicitness, mixed.kept)
        note = f"continuous sources only in explicitness: {list(mixed.columns)}"
        return dataclasses.replace(
            result,
            nmi=mixed.spread_out(result.nmi),
            compactness_per_source=mixed.spread_out(result.compactness_per_source),
            notes=(*result.notes, note),
        )

    def _explicitness(
        self, sample: Sample, sources: FloatArray, continuous: Sequence[int]
    ) -> FloatArray:
        if self._saturated(sample):
            return held_out_explicitness(
                sources,
                sample.latents,
                balanced=self.rules.balanced,
                continuous_sources=continuous,
                seed=self.seed,
                verbose=self.verbose,
            )
        return explicitness_per_source(
            sources,
            sample.latents,
            features=self._features(sample),
            balanced=self.rules.balanced,
            fit=self.fit,
            max_steps=self.rules.max_steps or _REFERENCE_STEPS,
            continuous_sources=continuous,
            verbose=self.verbose,
        )

    def _saturated(self, sample: Sample) -> bool:
        """Whether one-hot latents have enough columns to fit any labels."""
        if self._features(sample) != "one_hot" or sample.size < 6:
            return False
        return _num_free(sample) >= sample.size

    def _domain_notes(self, sample: Sample) -> list[str]:
        """What makes the numbers mean less than they seem to."""
        notes = []
        if self._saturated(sample):
            notes.append(
                f"explicitness is measured on held-out samples: {_num_free(sample)} "
                f"one-hot features fit any labels of {sample.size} samples"
            )
        elif self._features(sample) == "one_hot":
            excess = _optimism(sample)
            if excess > 0.05:
                notes.append(
                    f"explicitness is too high by up to {min(excess, 1.0):.2f}: "
                    f"{_num_free(sample)} one-hot features for {sample.size} samples"
                )
        if self.discrete_latents:
            values = sample.latent_symbols.max(axis=0) + 1
            many = np.flatnonzero(values > max(sample.size // 2, 2))
            if len(many):
                notes.append(
                    f"latents {many.tolist()} take nearly as many values as there are "
                    "samples: the histogram knows every sample, and modularity and "
                    "compactness mean nothing. Pass discrete_latents=False for "
                    "continuous latents, codes for quantized ones"
                )
        return notes

    def _result(
        self,
        sample: Sample,
        explicitness: FloatArray,
        names: IntArray | None = None,
    ) -> InfoMECResult:
        """Scores of the sample's sources; `names` are their columns among all."""
        nmi = self._normalized_information(sample)
        active = self._active(sample)
        names = np.arange(sample.num_sources) if names is None else names
        used = nmi[sample.varying][:, active]
        per_latent = _spread_out(_largest_share(used.T), active)
        per_source = _spread_out(_largest_share(used), sample.varying)
        notes = _notes(used, active, sample.varying, names)
        kind = "information" if self.discrete_latents else "correlation"
        notes += [*self._domain_notes(sample), *domain_notes(sample, kind)]
        return InfoMECResult(
            modularity=_mean(per_latent),
            explicitness=_mean(explicitness),
            compactness=_mean(per_source),
            nmi=nmi,
            active=active,
            modularity_per_latent=per_latent,
            compactness_per_source=per_source,
            explicitness_per_source=explicitness,
            settings=self._settings(sample),
            notes=tuple(notes),
        )

    def _normalized_information(self, sample: Sample) -> FloatArray:
        if self.discrete_latents:
            mutual = sample.mutual_information(None)
        else:
            latents = sample.real_latents
            if self.rules.standardize:
                latents = standardize(latents)
            mutual = neighbor_information(
                sample.source_symbols, latents, self.rules.n_neighbors, seed=self.seed
            )
        entropy = sample.source_entropy[:, None]
        return np.divide(mutual, entropy, out=np.zeros_like(mutual), where=entropy > 0)

    def _active(self, sample: Sample) -> BoolArray:
        latents, rules = sample.real_latents, self.rules
        if rules.spread == "iqr":
            low, high = np.quantile(latents, [0.25, 0.75], axis=0)
        else:
            low, high = latents.min(axis=0), latents.max(axis=0)
        spread = high - low
        fraction = rules.continuous_fraction
        if self.discrete_latents:
            if rules.discrete_fraction is None:
                return spread > rules.discrete_absolute
            fraction = rules.discrete_fraction
        if self.protocol == "paper":
            if self.discrete_latents and _are_codes(sample):
                return spread > 0  # the range of numbers that name codes says nothing
            # The text calls a latent inactive *below* the threshold.
            return (spread >= fraction * spread.max()) & (spread > 0)
        return spread > fraction * spread.max()

    def _features(self, sample: Sample) -> str:
        if self.features != "auto":
            return self.features
        expand = self.discrete_latents and (self.rules.one_hot or _are_codes(sample))
        return "one_hot" if expand else "scalars"

    def _settings(self, sample: Sample) -> dict[str, Any]:
        return {
            "protocol": self.protocol,
            "discrete_latents": self.discrete_latents,
            "n_neighbors": None if self.discrete_latents else self.rules.n_neighbors,
            "features": self._features(sample),
            "balanced": self.rules.balanced,
            "fit": self.fit,
            "seed": self.seed,
            **sample.shape_settings,
        }


def _num_free(sample: Sample) -> int:
    """Independent columns of one-hot latents, with the intercept."""
    return int(sample.latent_symbols.max(axis=0).sum()) + 1


def _optimism(sample: Sample) -> float:
    """By how much a fit to the sample itself overstates explicitness, about.

    Each of the (classes - 1) x columns weights gains half a nat over all samples.
    """
    varying = sample.varying
    classes = sample.source_symbols[:, varying].max(axis=0, initial=0)
    if not varying.any():
        return 0.0
    gained = classes * _num_free(sample) / (2 * sample.size)
    return float(np.mean(gained / sample.source_entropy[varying]))


def _largest_share(rows: FloatArray) -> FloatArray:
    """Largest entry over the sum of each row, rescaled from [1/n, 1] to [0, 1]."""
    width = rows.shape[1]
    total = rows.sum(axis=1)
    known = total > 0
    share = np.full(len(rows), np.nan)
    if width == 0:
        return share
    share[known] = rows[known].max(axis=1) / total[known]
    if width == 1:
        return share
    return (share - 1 / width) / (1 - 1 / width)


def _spread_out(values: FloatArray, mask: BoolArray) -> FloatArray:
    spread = np.full(len(mask), np.nan)
    spread[mask] = values
    return spread


def _mean(values: FloatArray) -> float:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else 0.0


def _are_codes(sample: Sample) -> bool:
    """Whether latents are indices of codes, in no order, rather than values."""
    return sample.latents.dtype.kind in "iu"


def _notes(
    used: FloatArray, active: BoolArray, varying: BoolArray, names: IntArray
) -> list[str]:
    if not len(names):
        return ["no discrete source: modularity and compactness are 0 by convention"]
    constant = ", ".join(map(str, names[~varying]))
    notes = [f"constant sources left out: {constant}"] if constant else []
    if not varying.any():
        return [*notes, "no source varies: every score is 0 by convention"]
    if not active.any():
        none = "no latent is active: modularity and compactness are 0 by convention"
        return [*notes, none]
    if active.sum() == 1:
        notes.append("one active latent: compactness is 1 by convention")
    if varying.sum() == 1:
        notes.append("one varying source: modularity is 1 by convention")
    silent = np.flatnonzero(active)[used.sum(axis=0) == 0]
    if len(silent):
        notes.append(f"active latents without information left out: {silent.tolist()}")
    unknown = names[varying][used.sum(axis=1) == 0]
    if len(unknown):
        notes.append(f"sources no latent knows left out: {unknown.tolist()}")
    return notes
