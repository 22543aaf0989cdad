"""Known situations against every score: what it should say, what it says."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from qlayers.metrics._checks import FloatArray, IntArray, check_choice
from qlayers.metrics.dci import dci
from qlayers.metrics.dci_es import dci_es
from qlayers.metrics.infomec import infomec
from qlayers.metrics.irs import irs
from qlayers.metrics.mcc import mcc
from qlayers.metrics.metric_result import MetricResult
from qlayers.metrics.mig import mig
from qlayers.metrics.model_agreement import model_agreement
from qlayers.metrics.modularity import modularity
from qlayers.metrics.sap import sap

_SIZES = (4, 5, 6)
_SAMPLES = 1_500
# A score this far from the truth misleads.
_MISLEADING = 0.25

# What each score asks: M does a latent know one source, C does one latent know a
# source, E can the source be read off, I are latents the sources up to their order?
QUESTIONS = {
    "InfoM": "M",
    "InfoC": "C",
    "InfoE": "E",
    "DCI-D": "M",
    "DCI-C": "C",
    "DCI-I": "E",
    "MIG": "C",
    "SAP": "C",
    "modularity": "M",
    "IRS": "M",
    "MCC": "I",
    "MCC (Pearson)": "I",
    "DCI-ES, E": "E",
    "UDR": "I",
}


@dataclass(frozen=True)
class Situation:
    """Sources and latents of which the truth is known.

    Attributes:
        name: How the table calls it.
        sources: (samples, n_s) integers.
        latents: (samples, n_z) numbers.
        discrete: Whether latents take few values.
        truth: By question (`"M"`, `"C"`, `"E"`, `"I"`) the answer of an ideal score;
            a question without a clear answer is absent.
        about: What was done to the sources.
    """

    name: str
    sources: IntArray
    latents: FloatArray
    discrete: bool
    truth: Mapping[str, float]
    about: str


@dataclass(frozen=True)
class StressRow:
    """What one score says in one situation.

    Attributes:
        situation: Name of the situation.
        score: Name of the score.
        expected: What it should say; NaN where no answer is right.
        value: What it says.
        notes: What its result says about the data.
    """

    situation: str
    score: str
    expected: float
    value: float
    notes: tuple[str, ...]

    @property
    def misleads(self) -> bool:
        """Whether the score is far from the truth."""
        return bool(abs(self.value - self.expected) > _MISLEADING)


def situations(seed: int = 0, samples: int = _SAMPLES) -> tuple[Situation, ...]:
    """All situations, drawn anew from a seed.

    Example:
        >>> [situation.name for situation in situations(samples=100)][:2]
        ['perfect', 'permuted']
    """
    generator = np.random.default_rng(seed)
    return tuple(make(generator, samples) for make in _MAKERS)


def stress(
    scores: Sequence[str] | None = None,
    *,
    seed: int = 0,
    samples: int = _SAMPLES,
) -> tuple[StressRow, ...]:
    """Computes every score in every situation.

    Args:
        scores: Names out of `QUESTIONS`; all by default.
        seed: Seed of the situations.
        samples: Samples of the situations that are not about their number.

    Returns:
        One `StressRow` for each situation and score.

    Example:
        >>> rows = stress(["MIG", "MCC"], samples=200)
        >>> sum(row.misleads for row in rows) > 0
        True

    Reference:
        "Who Guards the Guardians?", arXiv 2602.24278, on scores outside their domain.
    """
    chosen = tuple(QUESTIONS) if scores is None else tuple(scores)
    for name in chosen:
        check_choice(name, QUESTIONS, "scores")
    rows = []
    for situation in situations(seed, samples):
        results = _Results(situation)
        for name in chosen:
            value, result = results.score(name)
            rows.append(
                StressRow(
                    situation.name,
                    name,
                    situation.truth.get(QUESTIONS[name], float("nan")),
                    value,
                    result.notes,
                )
            )
    return tuple(rows)


def stress_table(rows: Sequence[StressRow]) -> str:
    """The rows as a Markdown table; misleading numbers are bold, noted ones starred.

    Example:
        >>> print(stress_table(stress(["MIG"], samples=200)))
    """
    names = list(dict.fromkeys(row.score for row in rows))
    lines = [
        "| situation | " + " | ".join(names) + " |",
        "|---" * (len(names) + 1) + "|",
    ]
    for situation in dict.fromkeys(row.situation for row in rows):
        cells = [_cell(row) for row in rows if row.situation == situation]
        lines.append(f"| {situation} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cell(row: StressRow) -> str:
    text = f"{row.value:.2f}"
    if row.misleads:
        text = f"**{text}**"
    if row.notes:
        text += "*"
    if np.isnan(row.expected):
        return text
    return f"{text} ({row.expected:.0f})"


class _Results:
    """Results of one situation, each computed once."""

    def __init__(self, situation: Situation) -> None:
        self._situation = situation
        self._known: dict[str, MetricResult] = {}

    def score(self, name: str) -> tuple[float, MetricResult]:
        """The value of a score by name, and the result it is part of."""
        function, field = _SCORES[name]
        key = name if field is None else function.__name__
        if key not in self._known:
            self._known[key] = function(self._situation)
        result = self._known[key]
        if field is None:
            return float(next(iter(result.scores().values()))), result
        return result.scores()[field], result


def _infomec(case: Situation) -> MetricResult:
    return infomec(
        case.sources, case.latents, discrete_latents=case.discrete, verbose=False,
        features="one_hot" if case.discrete else "scalars",
    )  # fmt: skip


def _dci(case: Situation) -> MetricResult:
    return dci(case.sources, case.latents, estimator="gradient_boosting", verbose=False)


def _dci_es(case: Situation) -> MetricResult:
    # Few small forests: what E says shows with them, in a tenth of the time.
    return dci_es(
        case.sources, case.latents, depths=(1, 3, 6, 12), num_trees=10, verbose=False
    )


def _udr(case: Situation) -> MetricResult:
    """Agreement with a second training of the same method.

    It found the same latents in another order, with other signs and a little noise;
    where latents know nothing, it found other noise.
    """
    generator = np.random.default_rng(1)
    again = -case.latents[:, ::-1]
    if case.truth.get("E") == 0.0:
        again = generator.permuted(again, axis=0)
    spread = again.std(axis=0)
    again = again + 0.01 * spread * generator.normal(size=again.shape)
    return model_agreement([case.latents, again])


_SCORES: dict[str, tuple[Callable[[Situation], MetricResult], str | None]] = {
    "InfoM": (_infomec, "modularity"),
    "InfoC": (_infomec, "compactness"),
    "InfoE": (_infomec, "explicitness"),
    "DCI-D": (_dci, "disentanglement"),
    "DCI-C": (_dci, "completeness"),
    "DCI-I": (_dci, "informativeness"),
    "MIG": (lambda case: mig(case.sources, case.latents), None),
    "SAP": (lambda case: sap(case.sources, case.latents), None),
    "modularity": (lambda case: modularity(case.sources, case.latents), None),
    "IRS": (lambda case: irs(case.sources, case.latents), None),
    "MCC": (lambda case: mcc(case.sources, case.latents), None),
    "MCC (Pearson)": (lambda case: mcc(case.sources, case.latents, "pearson"), None),
    "DCI-ES, E": (_dci_es, "explicitness"),
    "UDR": (_udr, "model_0"),
}
_GOOD = {"M": 1.0, "C": 1.0, "E": 1.0, "I": 1.0}
_BAD = {"M": 0.0, "C": 0.0, "E": 0.0, "I": 0.0}


def _draw(generator: Any, samples: int) -> IntArray:
    return np.stack([generator.integers(0, size, samples) for size in _SIZES], axis=1)


def _perfect(generator: Any, samples: int) -> Situation:
    sources = _draw(generator, samples)
    return Situation(
        "perfect", sources, sources.astype(float), True, _GOOD, "latents = sources"
    )


def _permuted(generator: Any, samples: int) -> Situation:
    sources = _draw(generator, samples)
    latents = sources[:, [2, 0, 1]] * [-1.0, 3.0, 0.5]
    about = "another order, other signs and scales"
    return Situation("permuted", sources, latents, True, _GOOD, about)


def _rotated(degrees: float) -> Callable[[Any, int], Situation]:
    def make(generator: Any, samples: int) -> Situation:
        sources = _draw(generator, samples)[:, :2]
        scaled = (sources - sources.mean(axis=0)) / sources.std(axis=0)
        scaled = scaled + 0.01 * generator.normal(size=scaled.shape)
        angle = np.deg2rad(degrees)
        turn = np.array(
            [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
        )
        truth = (
            {"M": 0.0, "C": 0.0, "E": 1.0, "I": 0.0} if degrees == 45 else {"E": 1.0}
        )
        name = f"rotated by {degrees:.0f}°"
        about = "two sources turned into each other"
        return Situation(name, sources, scaled @ turn, False, truth, about)

    return make


def _duplicated(generator: Any, samples: int) -> Situation:
    sources = _draw(generator, samples)
    latents = np.hstack([sources, sources]).astype(float)
    truth = {"M": 1.0, "C": 0.0, "E": 1.0}
    about = "every latent twice"
    return Situation("duplicated latents", sources, latents, True, truth, about)


def _dead(generator: Any, samples: int) -> Situation:
    sources = _draw(generator, samples)
    latents = np.hstack([sources, np.zeros((samples, 3))])
    about = "three latents that never move"
    return Situation("dead latents", sources, latents, True, _GOOD, about)


def _warped(generator: Any, samples: int) -> Situation:
    sources = _draw(generator, samples)
    latents = np.exp(2.0 * sources)
    about = "latents = exp(2 sources)"
    return Situation("monotone warp", sources, latents, True, _GOOD, about)


def _merged(generator: Any, samples: int) -> Situation:
    sources = _draw(generator, samples)[:, :2]
    latents = (sources[:, :1] * _SIZES[1] + sources[:, 1:]).astype(float)
    truth = {"M": 0.0, "C": 1.0, "E": 1.0}
    about = "one latent numbers the pairs of two sources"
    return Situation("merged factors", sources, latents, True, truth, about)


def _correlated(generator: Any, samples: int) -> Situation:
    first = generator.integers(0, 5, samples)
    keep = generator.random(samples) < 0.8
    second = np.where(keep, first, generator.integers(0, 5, samples))
    sources = np.stack([first, second], axis=1)
    about = "latents = sources; four of five samples have equal sources"
    return Situation(
        "correlated sources", sources, sources.astype(float), True, _GOOD, about
    )


def _rare(generator: Any, samples: int) -> Situation:
    sources = (generator.random((samples, 3)) < 0.05).astype(np.int64)
    latents = generator.normal(size=(samples, 3))
    about = "sources with one value in 95 % of the samples; latents are noise"
    return Situation("rare classes, noise", sources, latents, False, _BAD, about)


def _rare_known(generator: Any, samples: int) -> Situation:
    sources = (generator.random((samples, 3)) < 0.05).astype(np.int64)
    about = "the same sources; latents = sources"
    return Situation(
        "rare classes, perfect", sources, sources.astype(float), True, _GOOD, about
    )


def _few(generator: Any, samples: int) -> Situation:
    sources = _draw(generator, 40)
    latents = generator.normal(size=(40, 6))
    return Situation(
        "few samples, noise", sources, latents, False, _BAD, "40 samples of noise"
    )


def _wide(generator: Any, samples: int) -> Situation:
    sources = _draw(generator, 200)
    latents = generator.integers(0, 64, (200, 8)).astype(float)
    about = "random codes of 8 x 64 values, 200 samples"
    return Situation("more features than samples", sources, latents, True, _BAD, about)


def _noise(generator: Any, samples: int) -> Situation:
    sources = _draw(generator, samples)
    latents = generator.normal(size=(samples, 6))
    return Situation("noise", sources, latents, False, _BAD, "latents know nothing")


def _noisy(generator: Any, samples: int) -> Situation:
    sources = _draw(generator, samples)
    latents = sources + 0.15 * generator.normal(size=sources.shape)
    about = "sources with a little noise"
    return Situation("a little noise", sources, latents, False, _GOOD, about)


_MAKERS: tuple[Callable[[Any, int], Situation], ...] = (
    _perfect,
    _permuted,
    _noisy,
    _rotated(20.0),
    _rotated(45.0),
    _duplicated,
    _dead,
    _warped,
    _merged,
    _correlated,
    _rare,
    _rare_known,
    _few,
    _wide,
    _noise,
)


def main() -> None:
    """Prints the table: `python -m qlayers.metrics.stress`."""
    rows = stress()
    print(stress_table(rows))
    wrong = [row for row in rows if row.misleads]
    print(f"\n{len(wrong)} of {len(rows)} numbers mislead; with a note: ", end="")
    print(sum(bool(row.notes) for row in wrong))
    for row in wrong:
        print(dataclasses.asdict(row))


if __name__ == "__main__":
    main()
