"""Claims that one score ranks runs like another, frozen in `claims.json`."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from scipy import stats

from studies.claims import FILE, Verdict, frozen_steps, has_budget, is_number
from studies.summaries import LEVEL


@dataclass(frozen=True)
class RankClaim:
    """A criterion without labels that should tell better runs from worse ones.

    Attributes:
        id: Short name.
        paper: Short name of the paper.
        where: Where the paper says so.
        study: The study whose runs decide it.
        criterion: The score that ranks the runs.
        score: The score that it should follow.
        direction: `"above"` or `"below"` 0: where the correlation should be.
        runs: How many runs decide it.
        seeds: Seeds of the runs that may decide it; None: any.
        steps: Training steps of these runs; None: any.

    Example:

    ```python
    [claim.text for claim in load_rank_claims("dsprites")]
    ```
    """

    id: str
    paper: str
    where: str
    study: str
    criterion: str
    score: str
    direction: Literal["above", "below"]
    runs: int
    seeds: tuple[int, ...] | None = None
    steps: int | None = None

    @property
    def text(self) -> str:
        """The claim in words."""
        name = self.criterion.partition("/")[0].replace("_", " ")
        size = "larger" if self.direction == "above" else "smaller"
        return f"{size} {name} in better runs"


def load_rank_claims(study: str | None = None, file: Path = FILE) -> list[RankClaim]:
    """The rank claims of all studies, or of one.

    Args:
        study: Name of a study.
        file: The frozen claims.
    """
    frozen = json.loads(file.read_text("utf-8"))
    return [
        RankClaim(
            **row,
            seeds=tuple(frozen["seeds"][row["study"]]),
            steps=frozen_steps(frozen, row["study"], "*"),
        )
        for row in frozen["rank_claims"]
        if study in (None, row["study"])
    ]


def rank_correlation(first: Sequence[float], second: Sequence[float]) -> dict[str, Any]:
    """Spearman's correlation with its p-value and 95 % interval.

    The interval is Fisher's, with the variance `(1 + r^2 / 2) / (n - 3)` of Bonett and
    Wright (2000); fewer than four pairs have none.

    Args:
        first: One score of each run.
        second: Another one, of the same runs.

    Example:

    ```python
    rank_correlation([1, 2, 3, 4, 5], [1, 3, 2, 5, 4])["correlation"]  # 0.8
    ```
    """
    result = stats.spearmanr(first, second)
    correlation, count = float(result.statistic), len(first)
    low = high = None
    if count > 3 and abs(correlation) <= 1:
        # A perfect order would have no interval at all.
        inner = min(max(correlation, -1 + 1e-9), 1 - 1e-9)
        deviation = ((1 + inner**2 / 2) / (count - 3)) ** 0.5
        half = stats.norm.ppf(0.5 + LEVEL / 2) * deviation
        centre = np.arctanh(inner)
        low, high = float(np.tanh(centre - half)), float(np.tanh(centre + half))
    return {
        "correlation": correlation,
        "p_value": float(result.pvalue),
        "low": low,
        "high": high,
    }


def judge_ranks(
    claims: Sequence[RankClaim], groups: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """The verdict on every claim that at least three runs speak to.

    Args:
        claims: The claims.
        groups: Groups of runs, as `studies.summaries.summarise` makes them.

    Returns:
        Claim, correlation, interval, number of runs and verdict.
    """
    found = []
    for claim in claims:
        rows = [
            row["scores"]
            for group in groups
            for row in group["runs"]
            if has_budget(group, claim.steps)
            and (claim.seeds is None or row["seed"] in claim.seeds)
        ]
        needed = (claim.criterion, claim.score)
        rows = [r for r in rows if all(is_number(r.get(name)) for name in needed)]
        if len(rows) < 3:
            continue
        pairs = [(row[claim.criterion], row[claim.score]) for row in rows]
        first, second = zip(*pairs, strict=True)
        correlation = rank_correlation(first, second)
        found.append(
            {
                "id": claim.id,
                "paper": claim.paper,
                "where": claim.where,
                "claim": claim.text,
                "score": claim.score,
                **correlation,
                "runs": len(rows),
                "verdict": _verdict(claim, correlation, len(rows)),
            }
        )
    return found


def _verdict(claim: RankClaim, found: Mapping[str, Any], runs: int) -> Verdict:
    """The rule of `claims.json`."""
    if runs < claim.runs or found["low"] is None or found["low"] <= 0 <= found["high"]:
        return "undecided"
    side = "above" if found["low"] > 0 else "below"
    return "confirmed" if side == claim.direction else "contradicted"
