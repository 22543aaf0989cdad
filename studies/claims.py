"""What the papers claim, frozen in `claims.json` before the runs, and its verdict."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from scipy import stats

from studies.statistics import probability_of_improvement, stratified_bootstrap
from studies.study import ROOT
from studies.summaries import LEVEL, paired_difference, spread

FILE = ROOT / "studies" / "claims.json"
Verdict = Literal["confirmed", "contradicted", "undecided"]
_MOST_SEEDS = 1_000


@dataclass(frozen=True)
class Claim:
    """One sentence of a paper that runs can decide.

    Attributes:
        id: Short name.
        paper: Short name of the paper.
        where: Table and figures that the paper prints.
        study: The study whose rows decide it.
        first: Label of the row that should be ahead.
        second: Label of the other row.
        score: The score they are compared by.
        direction: `"above"` or `"below"`: where the first should be.
        least: The least difference that counts.
        needs: Scores that both rows must reach on average for the claim to be decided.
        seeds: The seeds that decide it, all of them; None: those that both rows have.
        steps: Training steps of the runs of both rows; None: any.

    Example:

    ```python
    claim = next(c for c in load_claims() if c.id == "qlae-ae")
    ```
    """

    id: str
    paper: str
    where: str
    study: str
    first: str
    second: str
    score: str
    direction: Literal["above", "below"]
    least: float
    needs: Mapping[str, float] = field(default_factory=dict)
    seeds: tuple[int, ...] | None = None
    steps: tuple[int, int] | None = None

    @property
    def text(self) -> str:
        """The claim in words."""
        return f"{self.first} {self.direction} {self.second}"


def load_claims(study: str | None = None, file: Path = FILE) -> list[Claim]:
    """The claims of all studies, or of one.

    Args:
        study: Name of a study.
        file: The frozen claims.

    Example:

    ```python
    [claim.text for claim in load_claims("leaderboard")]
    ```
    """
    frozen = json.loads(file.read_text("utf-8"))
    return [
        Claim(
            **row,
            seeds=tuple(frozen["seeds"][row["study"]]),
            steps=(
                frozen_steps(frozen, row["study"], row["first"]),
                frozen_steps(frozen, row["study"], row["second"]),
            ),
        )
        for row in frozen["claims"]
        if study in (None, row["study"])
    ]


def frozen_steps(frozen: Mapping[str, Any], study: str, label: str) -> int:
    """The budget that a row was frozen with.

    Args:
        frozen: Content of `claims.json`.
        study: Name of the study.
        label: Label of the row.
    """
    of_rows = frozen["steps"][study]
    return int(of_rows.get(label, of_rows["*"]))


def has_budget(group: Mapping[str, Any], steps: int | None) -> bool:
    """Whether the runs of a group are of the frozen budget, scored at its end.

    Args:
        group: Runs as `studies.summaries.summarise` makes them.
        steps: Their frozen steps; None: any.
    """
    if steps is None:
        return True
    config = group["config"]
    return (config["steps"], config["select"]) == (steps, "last")


def frozen_seeds(study: str, file: Path = FILE) -> tuple[int, ...]:
    """The seeds that a study was frozen with.

    Args:
        study: Name of the study.
        file: The frozen claims.

    Example:

    ```python
    frozen_seeds("second_dataset")  # (0, 1, 2)
    ```
    """
    return tuple(json.loads(file.read_text("utf-8"))["seeds"][study])


def judge(
    claims: Sequence[Claim], groups: Mapping[str, Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """The verdict on every claim whose two rows have runs that may decide it.

    Args:
        claims: The claims.
        groups: Groups of runs by label, as `studies.summaries.summarise` makes them.

    Returns:
        Claim, difference, interval, how likely a run of the first row is ahead of one
        of the second, verdict, and how many seeds would decide it.
    """
    found = []
    for claim in claims:
        labels = (claim.first, claim.second)
        if all(label in groups for label in labels):
            first, second = (_deciding(groups[label], claim) for label in labels)
            if _seeds(first) & _seeds(second):
                found.append(_judge(claim, first, second))
    return found


def verdict(
    mean: float, half_width: float | None, least: float, fit: bool = True
) -> Verdict:
    """The rule of `claims.json`.

    Args:
        mean: Mean paired difference, positive where the claim points.
        half_width: Of its 95 % interval; None with one seed.
        least: The least difference that counts.
        fit: Whether both rows reach what the claim needs.

    Example:

    ```python
    verdict(0.3, 0.1, least=0.25)  # "confirmed"
    verdict(0.1, 0.1, least=0.25)  # "contradicted"
    verdict(0.3, 0.4, least=0.25)  # "undecided"
    ```
    """
    if half_width is None or not fit:
        return "undecided"
    if mean - half_width > 0 and mean >= least:
        return "confirmed"
    return "contradicted" if mean + half_width < least else "undecided"


def seeds_to_decide(mean: float, deviation: float, least: float) -> int | None:
    """Seeds after which the interval would decide, if mean and spread stay.

    Args:
        mean: Mean paired difference so far.
        deviation: Standard deviation of the differences.
        least: The least difference that counts.

    Returns:
        Their number; None if it is above 1,000.
    """
    room = mean if mean >= least else least - mean
    for count in range(2, _MOST_SEEDS + 1):
        half = stats.t.ppf(0.5 + LEVEL / 2, count - 1) * deviation / count**0.5
        if half < room:
            return count
    return None


def p_value(gap: Mapping[str, Any]) -> float | None:
    """Of a paired t-test that asks whether a difference is 0; None with one seed.

    Args:
        gap: What `studies.summaries.paired_difference` found.
    """
    if not gap["standard_error"]:
        return None
    t = abs(gap["mean"]) / gap["standard_error"]
    return float(2 * stats.t.sf(t, gap["count"] - 1))


def holm(p_values: Mapping[str, float], level: float = 1 - LEVEL) -> list[str]:
    """The differences that are not 0 if all of them are asked about together.

    Args:
        p_values: Of each difference, by name.
        level: How likely one difference that is 0 may be among them.

    Returns:
        Names, smallest p-value first.

    Example:

    ```python
    holm({"a": 0.001, "b": 0.04, "c": 0.02})  # ["a", "c", "b"]
    ```

    Reference:
        Holm 1979, A Simple Sequentially Rejective Multiple Test Procedure.
    """
    found: list[str] = []
    for name in sorted(p_values, key=p_values.__getitem__):
        if p_values[name] > level / (len(p_values) - len(found)):
            break
        found.append(name)
    return found


def _probability(
    claim: Claim, first: Mapping[str, Any], second: Mapping[str, Any]
) -> dict[str, float]:
    """How likely a run of the first row is ahead of any run of the second."""
    sign = 1.0 if claim.direction == "above" else -1.0
    values = [
        [sign * row["scores"][claim.score] for row in group["runs"]]
        for group in (first, second)
    ]
    low, high = stratified_bootstrap(probability_of_improvement, values)
    mean = float(probability_of_improvement(*values))
    return {"mean": mean, "low": low, "high": high}


def _seeds(group: Mapping[str, Any]) -> set[int]:
    return {row["seed"] for row in group["runs"]}


def _unmet(group: Mapping[str, Any], name: str, bound: float) -> str | None:
    """What keeps the runs that decide from reaching a score, if anything does."""
    values = [row["scores"].get(name) for row in group["runs"]]
    if not all(is_number(value) for value in values):
        return f"{group['label']}: not all runs have {name}"
    if spread(values)["mean"] >= bound:
        return None
    return f"{group['label']}: {name} below {bound:g}"


def is_number(value: float | None) -> bool:
    """Whether a run has a score: a collapsed model may have none."""
    return value is not None and math.isfinite(value)


def _deciding(group: Mapping[str, Any], claim: Claim) -> dict[str, Any]:
    """The group without runs that cannot decide the claim.

    Those are runs without the score, of seeds that the claim was not frozen with, or of
    another budget.
    """
    first, second = claim.steps or (None, None)
    steps = first if group["label"] == claim.first else second
    runs = [
        row
        for row in group["runs"]
        if has_budget(group, steps)
        and (claim.seeds is None or row["seed"] in claim.seeds)
        and is_number(row["scores"].get(claim.score))
    ]
    return {**group, "runs": runs}


def _judge(
    claim: Claim, first: Mapping[str, Any], second: Mapping[str, Any]
) -> dict[str, Any]:
    sign = 1.0 if claim.direction == "above" else -1.0
    gap = paired_difference(first, second, claim.score)
    mean, half = sign * gap["mean"], gap["half_width"]
    missed = [
        reason
        for group in (first, second)
        for name, bound in claim.needs.items()
        if (reason := _unmet(group, name, bound))
    ]
    missed += [
        f"{group['label']}: {absent} of the seeds are not run yet or have no score"
        for group, other in ((first, second), (second, first))
        if (absent := len(_seeds(other) - _seeds(group)))
    ]
    if claim.seeds is not None and gap["count"] < len(claim.seeds):
        missed.append(f"{gap['count']} of {len(claim.seeds)} seeds so far")
    found = verdict(mean, half, claim.least, not missed)
    decided = found != "undecided" or missed or half is None
    deviation = 0.0 if half is None else gap["standard_error"] * gap["count"] ** 0.5
    return {
        "id": claim.id,
        "paper": claim.paper,
        "where": claim.where,
        "claim": claim.text,
        "score": claim.score,
        "least": claim.least,
        "difference": mean,
        "half_width": half,
        "p_value": p_value(gap),
        "probability": _probability(claim, first, second),
        "seeds": gap["count"],
        "missed": missed,
        "verdict": found,
        "seeds_to_decide": None
        if decided
        else seeds_to_decide(mean, deviation, claim.least),
    }
