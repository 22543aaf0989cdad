"""Ranks trained runs by scores that need no labels, and checks them with labels."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np

from experiments.reporting.summary import FinishedRun, format_table
from experiments.settings.config import RunConfig
from experiments.settings.scores import COLUMNS

GAP, UDR = "straight_through_gap/gap", "udr"
LABELS = "label_validation/loss"
CRITERIA = {"gap": GAP, "udr": UDR, "labels": LABELS}
# A small gap is good, and a small loss; a large agreement is.
_SMALLER_IS_BETTER = (GAP, LABELS)
_HEADINGS = {GAP: "ST gap", UDR: "UDR", LABELS: "label loss"}
_FEWEST = 3


@dataclass(frozen=True)
class Correlation:
    """Rank correlation of a criterion with a score, over runs.

    Attributes:
        criterion: Name of the criterion.
        score: Name of the score.
        rho: Spearman's rank correlation; None if either is the same for all runs.
        runs: Number of runs that have both.
    """

    criterion: str
    score: str
    rho: float | None
    runs: int


@dataclass(frozen=True)
class Ranking:
    """Runs on one dataset, whose criteria can be compared.

    Attributes:
        dataset: Name of the dataset.
        loss: Reconstruction loss, in whose unit the gap is.
        runs: The runs, the best by `by` first; those without it last.
        criteria: By criterion, its value for each run that has it.
        by: Criterion of the order.
        correlations: Of every criterion with every other score.
    """

    dataset: str
    loss: str
    runs: tuple[FinishedRun, ...]
    criteria: Mapping[str, Mapping[Path, float]]
    by: str
    correlations: tuple[Correlation, ...]

    @property
    def best(self) -> FinishedRun | None:
        """The chosen run; None if no run has the criterion."""
        has = self.runs and self.runs[0].path in self.criteria[self.by]
        return self.runs[0] if has else None

    def to_dict(self) -> dict[str, Any]:
        """Plain types, for `select.json`."""
        return {
            "dataset": self.dataset,
            "loss": self.loss,
            "by": self.by,
            "best": None if self.best is None else str(self.best.path),
            "runs": [
                {
                    "path": str(run.path),
                    "method": run.config.method,
                    "seed": run.config.seed,
                    "step": run.metrics["checkpoint"]["step"],
                    **{
                        name: values.get(run.path)
                        for name, values in self.criteria.items()
                    },
                }
                for run in self.runs
            ],
            "correlations": [asdict(each) for each in self.correlations],
        }


def trained_runs(
    runs: Sequence[FinishedRun],
) -> tuple[list[FinishedRun], list[FinishedRun]]:
    """Runs whose reported checkpoint was trained, and those that report step 0.

    An untrained model has a small gap: its latents hardly differ.

    Args:
        runs: Finished runs.
    """
    trained = [run for run in runs if run.metrics["checkpoint"]["step"] > 0]
    return trained, [run for run in runs if run not in trained]


def rank_runs(
    runs: Sequence[FinishedRun], udr: Mapping[Path, float], by: str = GAP
) -> list[Ranking]:
    """Ranks runs, those of each dataset and reconstruction loss among themselves.

    Args:
        runs: Trained runs.
        udr: Agreement of runs with others of the same settings, by folder.
        by: Criterion of the order: `GAP`, `UDR` or `LABELS`.

    Example:

    ```python
    finished, _ = find_runs(["runs/sweep"])
    rank_runs(finished, udr={})[0].best
    ```
    """
    pools: dict[tuple[str, str], list[FinishedRun]] = {}
    for run in runs:
        pools.setdefault(_pool(run), []).append(run)
    return [_ranking(pool, members, udr, by) for pool, members in pools.items()]


def _pool(run: FinishedRun) -> tuple[str, str]:
    """Runs of one pool have seen the same data, and gaps in the same unit."""
    config = run.config
    options = json.dumps(config.dataset_options, sort_keys=True)
    dataset = config.dataset if options == "{}" else f"{config.dataset} {options}"
    if config.dataset_info.own_images:
        dataset += f" in {config.data_dir}" + (f" ({run.data})" if run.data else "")
    kind = config.hyperparameters.get("reconstruction", "none")
    reduction = config.hyperparameters.get("reduction", "")
    size = f"{config.image_size}x{config.image_size}"
    return f"{dataset} at {size}", f"{kind} {reduction}".strip() + _gap_details(config)


def _gap_details(config: RunConfig) -> str:
    """What beside the reconstruction decides how large a gap is."""
    if config.gap_loss == "elbo":
        return ""
    weight = config.hyperparameters.get("tc_weight")
    if isinstance(weight, float | int):
        weight = f"{weight:g}"  # otherwise a schedule
    details = f", gap of {config.gap_loss}"
    return details if weight is None else f"{details} with tc_weight {weight}"


def _ranking(
    pool: tuple[str, str],
    runs: Sequence[FinishedRun],
    udr: Mapping[Path, float],
    by: str,
) -> Ranking:
    found: dict[str, dict[Path, Any]] = {
        name: {run.path: run.metrics["scores"].get(name) for run in runs}
        for name in (GAP, UDR, LABELS)
    }
    found[UDR] = {run.path: udr.get(run.path) for run in runs}
    criteria: dict[str, dict[Path, float]] = {
        name: {path: v for path, v in values.items() if _is_number(v)}
        for name, values in found.items()
    }
    sign = 1.0 if by in _SMALLER_IS_BETTER else -1.0

    def place(run: FinishedRun) -> float:
        return sign * criteria[by].get(run.path, sign * np.inf)

    ordered = tuple(sorted(runs, key=place))
    correlations = tuple(_correlations(ordered, criteria))
    return Ranking(*pool, ordered, criteria, by, correlations)


def _is_number(value: Any) -> TypeGuard[float]:
    return value is not None and bool(np.isfinite(value))


def _correlations(
    runs: Sequence[FinishedRun], criteria: Mapping[str, Mapping[Path, float]]
) -> list[Correlation]:
    scores: dict[str, dict[Path, float]] = dict(criteria)  # type: ignore[arg-type]
    for run in runs:
        for name, value in run.metrics["scores"].items():
            # The losses behind the gap are no scores of their own.
            if _is_number(value) and not name.startswith("straight_through_gap/"):
                scores.setdefault(name, {})[run.path] = value
    return [
        Correlation(criterion, score, *rank_correlation(values, others))
        for criterion, values in criteria.items()
        for score, others in scores.items()
        if score != criterion and values
    ]


def rank_correlation(
    values: Mapping[Path, float], others: Mapping[Path, float]
) -> tuple[float | None, int]:
    """Spearman's rank correlation over the runs that have both values.

    Args:
        values: A number for each run, by folder.
        others: Another number for each run.

    Returns:
        The correlation and the number of runs; None in place of the correlation if
        they are fewer than three, or if a value is the same for all of them.

    Example:

    ```python
    rank_correlation({a: 1.0, b: 2.0, c: 3.0}, {a: 0.1, b: 0.4, c: 0.2})  # (0.5, 3)
    ```
    """
    from scipy import stats

    shared = [path for path in values if path in others]
    first = [values[path] for path in shared]
    second = [others[path] for path in shared]
    if len(shared) < _FEWEST or len(set(first)) == 1 or len(set(second)) == 1:
        return None, len(shared)
    return float(stats.spearmanr(first, second).statistic), len(shared)


def ranking_text(ranking: Ranking) -> str:
    """A ranking as Markdown: the runs in order, then the correlations."""
    criteria = [name for name, values in ranking.criteria.items() if values]
    used = [
        name
        for name in COLUMNS
        if name != GAP and any(name in run.metrics["scores"] for run in ranking.runs)
    ]
    headings = ["rank", "run", "method", "seed", "step"]
    headings += [_HEADINGS[name] for name in criteria]
    headings += [COLUMNS[name] for name in used]
    rows = [
        [
            str(place),
            str(run.path),
            run.config.method,
            str(run.config.seed),
            str(run.metrics["checkpoint"]["step"]),
            *(_cell(ranking.criteria[name].get(run.path)) for name in criteria),
            *(_cell(run.metrics["scores"].get(name)) for name in used),
        ]
        for place, run in enumerate(ranking.runs, start=1)
    ]
    title = f"{ranking.dataset}, loss {ranking.loss}, by {_HEADINGS[ranking.by]}"
    return "\n".join(
        [
            f"## {title}",
            "",
            format_table(headings, rows),
            "",
            *_correlation_lines(ranking, criteria),
        ]
    )


def _correlation_lines(ranking: Ranking, criteria: Sequence[str]) -> list[str]:
    """A line for each score: one column of rank correlations for each criterion."""
    known = {(each.criterion, each.score): each for each in ranking.correlations}
    scores = dict.fromkeys(each.score for each in ranking.correlations)
    rows = []
    for score in scores:
        found = [known.get((criterion, score)) for criterion in criteria]
        if all(each is None or each.rho is None for each in found):
            continue
        cells = [
            "" if each is None or each.rho is None else f"{each.rho:+.2f} ({each.runs})"
            for each in found
        ]
        rows.append([score, *cells])
    if not rows:
        return [f"Rank correlations need {_FEWEST} runs that differ.", ""]
    headings = ["rank correlation with", *(_HEADINGS[name] for name in criteria)]
    return [format_table(headings, rows), ""]


def _cell(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"
