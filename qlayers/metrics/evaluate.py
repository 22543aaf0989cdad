"""All array metrics at once, sharing what they have in common."""

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from qlayers.metrics._checks import check_choice
from qlayers.metrics._sample import Sample
from qlayers.metrics.bootstrap import Bootstrap
from qlayers.metrics.dci import dci_of
from qlayers.metrics.image_quality import psnr
from qlayers.metrics.infomec import infomec_of, make_scorer
from qlayers.metrics.mcc import mcc
from qlayers.metrics.metric_result import MetricResult
from qlayers.metrics.mig import mig_of
from qlayers.metrics.modularity import modularity_of
from qlayers.metrics.sample_efficiency import default_plan, sample_efficiency_of
from qlayers.metrics.sap import sap_of

FAST = ("infomec", "mig", "modularity", "sap", "mcc", "sample_efficiency")
STANDARD = (*FAST, "dci")
ALL = (
    *STANDARD,
    "dci_gradient_boosting",
    "sample_efficiency_gradient_boosting",
)
_FEWEST_SAMPLES = 10
PROFILES = {"fast": FAST, "standard": STANDARD, "all": ALL}
_NAMES = (*ALL, "dci_lightgbm", "psnr")


@dataclass(frozen=True, eq=False, kw_only=True)
class EvaluationResult(MetricResult):
    """Several metrics of one sample.

    Attributes:
        results: By metric name, that metric's own result.
        seconds: By metric name, how long it took; matrices that metrics share are
            charged to the first that needed them.
    """

    title = "Evaluation"

    results: Mapping[str, MetricResult]
    seconds: Mapping[str, float]

    def scores(self) -> dict[str, float]:
        """Every number, named `metric/score`."""
        return {
            f"{metric}/{name}": value
            for metric, result in self.results.items()
            for name, value in result.scores().items()
        }

    def __getitem__(self, metric: str) -> MetricResult:
        return self.results[metric]

    def _details(self) -> list[str]:
        times = ", ".join(f"{name} {value:.2f}" for name, value in self.seconds.items())
        return [f"seconds: {times}"]


def evaluate(
    sources: npt.ArrayLike,
    latents: npt.ArrayLike,
    *,
    discrete_latents: bool,
    metrics: str | Sequence[str] = "standard",
    protocol: str = "paper",
    num_bins: int | None = 20,
    test_samples: int = 0,
    images: npt.ArrayLike | None = None,
    reconstructions: npt.ArrayLike | None = None,
    seed: int = 0,
    bootstrap: Bootstrap | int | Mapping[str, Bootstrap | int] | None = None,
    verbose: bool = True,
) -> EvaluationResult:
    """Computes a set of metrics on one sample.

    Symbols, entropies and mutual-information matrices are computed once and shared;
    so are the checks of the input.

    Args:
        sources: (samples, n_s) integers; 10,000 samples are usual.
        latents: (samples, n_z) floats, or integer codes.
        discrete_latents: See `infomec`.
        metrics: `"fast"` (no trees: seconds), `"standard"` (with random-forest DCI),
            `"all"` (with gradient boosting: minutes), or names out of `"infomec"`,
            `"mig"`, `"modularity"`, `"sap"`, `"mcc"`, `"sample_efficiency"`, `"dci"`,
            `"dci_gradient_boosting"`, `"dci_lightgbm"`,
            `"sample_efficiency_gradient_boosting"`, `"psnr"`.
        protocol: See `infomec`.
        num_bins: Bins per latent of MIG and modularity; None takes values as symbols.
        test_samples: How many samples trees, SAP and sample efficiency test on; they
            draw them from all. The other metrics see all but as many of the last. By
            default all metrics see all, and tests take the shares that `dci` and `sap`
            say.
        images: (images, ...) originals; with `reconstructions`, adds PSNR and MSE.
        reconstructions: (images, ...).
        seed: Seed of every split, tree and noise.
        bootstrap: Number of resamples, or a `Bootstrap`, for confidence intervals of
            every score; or by metric, for those alone.
        verbose: Show progress of what takes longer than a second.

    Returns:
        An `EvaluationResult`. Sample efficiency trains on 100 and 10,000 samples and
        tests on `test_samples`, or 5,000, if there are that many, otherwise on
        proportions of what is there; its settings say which.

    Example:
        >>> report = evaluate(sources, codes, discrete_latents=True, metrics="fast")
        >>> report["infomec"].modularity, report.scores()["mig/mig"]
        >>> report.to_json("metrics.json")
    """
    names = _resolve(metrics, images, reconstructions)
    sample = Sample(sources, latents)
    _check_sizes(sample.size, test_samples)
    part = sample
    if test_samples:
        part = sample.rows(np.arange(sample.size - test_samples))
    scorer = make_scorer(protocol, discrete_latents, seed, verbose)
    task = _Task(sample, part, test_samples, num_bins, seed, bootstrap, verbose)
    compute: dict[str, Callable[[str], MetricResult]] = {
        **task.metrics(),
        "infomec": lambda name: infomec_of(part, scorer, task.resamples(name)),
        "psnr": lambda name: _psnr(images, reconstructions, task.resamples(name)),
    }
    results: dict[str, MetricResult] = {}
    seconds: dict[str, float] = {}
    for name in names:
        start = time.perf_counter()
        results[name] = compute[name](name)
        seconds[name] = time.perf_counter() - start
    settings = {
        "protocol": protocol,
        "discrete_latents": discrete_latents,
        "seed": seed,
        "test_samples": test_samples,
        **sample.shape_settings,
    }
    notes = [note for result in results.values() for note in result.notes]
    return EvaluationResult(
        results=results,
        seconds=seconds,
        settings=settings,
        intervals=_intervals(results),
        notes=tuple(dict.fromkeys(notes)),
    )


@dataclass(frozen=True)
class _Task:
    """What the metrics of one evaluation share.

    Attributes:
        sample: All samples.
        part: Those that are not kept for tests.
        test_samples: See `evaluate`, as are the others.
    """

    sample: Sample
    part: Sample
    test_samples: int
    num_bins: int | None
    seed: int
    bootstrap: Bootstrap | int | Mapping[str, Bootstrap | int] | None
    verbose: bool

    def metrics(self) -> dict[str, Callable[[str], MetricResult]]:
        """By name, what computes a metric of that name from the sample alone."""
        return {
            "mig": self._mig,
            "modularity": self._modularity,
            "sap": self._sap,
            "mcc": self._mcc,
            "sample_efficiency": partial(self._efficiency, "logistic_regression"),
            "sample_efficiency_gradient_boosting": partial(
                self._efficiency, "gradient_boosting"
            ),
            "dci": partial(self._trees, "random_forest"),
            "dci_gradient_boosting": partial(self._trees, "gradient_boosting"),
            "dci_lightgbm": partial(self._trees, "lightgbm"),
        }

    def resamples(self, name: str) -> Bootstrap | int | None:
        """What the intervals of a metric are made by."""
        given = self.bootstrap
        if isinstance(given, Mapping):
            given = given.get(name)
        if self.verbose or given is None:
            return given
        made = Bootstrap(given) if isinstance(given, int) else given
        return dataclasses.replace(made, verbose=False)

    def _mig(self, name: str) -> MetricResult:
        return mig_of(self.part, self.num_bins, None, self.resamples(name))

    def _modularity(self, name: str) -> MetricResult:
        return modularity_of(self.part, self.num_bins, "zero", self.resamples(name))

    def _mcc(self, name: str) -> MetricResult:
        part = self.part
        return mcc(part.sources, part.latents, bootstrap=self.resamples(name))

    def _sap(self, name: str) -> MetricResult:
        share = {}
        if self.test_samples:
            share["test_size"] = self.test_samples / self.sample.size
        return sap_of(
            self.sample, seed=self.seed, bootstrap=self.resamples(name), **share
        )

    def _efficiency(self, estimator: str, name: str) -> MetricResult:
        sizes = default_plan(
            (estimator,), self.sample.size, self.seed, self.test_samples
        )
        resamples = self.resamples(name)
        return sample_efficiency_of(self.sample, sizes, resamples, self.verbose)

    def _trees(self, estimator: str, name: str) -> MetricResult:
        tests, resamples = self.test_samples or None, self.resamples(name)
        return dci_of(self.sample, estimator, tests, self.seed, resamples, self.verbose)


def _check_sizes(samples: int, test_samples: int) -> None:
    if samples < _FEWEST_SAMPLES:
        raise ValueError(
            f"`evaluate` needs at least {_FEWEST_SAMPLES} samples, to train on some "
            f"and test on others; received {samples}. 10,000 are usual."
        )
    if not 0 <= test_samples <= samples - _FEWEST_SAMPLES:
        raise ValueError(
            f"`test_samples` must leave at least {_FEWEST_SAMPLES} of {samples} "
            f"samples; received {test_samples}."
        )


def _resolve(
    metrics: str | Sequence[str],
    images: npt.ArrayLike | None,
    reconstructions: npt.ArrayLike | None,
) -> tuple[str, ...]:
    if (images is None) != (reconstructions is None):
        raise ValueError("`images` and `reconstructions` must be given together.")
    if isinstance(metrics, str) and metrics not in _NAMES:
        check_choice(metrics, PROFILES, "metrics")
        names = PROFILES[metrics]
        return (*names, "psnr") if images is not None else names
    chosen = (metrics,) if isinstance(metrics, str) else tuple(metrics)
    if not chosen:
        raise ValueError("`metrics` must name at least one metric.")
    for name in chosen:
        check_choice(name, _NAMES, "metrics")
    if "psnr" in chosen and images is None:
        raise ValueError('"psnr" in `metrics` needs `images` and `reconstructions`.')
    if images is not None and "psnr" not in chosen:
        chosen = (*chosen, "psnr")
    return chosen


def _psnr(
    images: Any, reconstructions: Any, bootstrap: Bootstrap | int | None
) -> MetricResult:
    return psnr(images, reconstructions, bootstrap=bootstrap)


def _intervals(
    results: Mapping[str, MetricResult],
) -> dict[str, tuple[float, float]]:
    return {
        f"{metric}/{name}": interval
        for metric, result in results.items()
        for name, interval in result.intervals.items()
    }
