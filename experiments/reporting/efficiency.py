"""Which score tells how few labels a later task needs?"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from experiments.reporting.ranking import rank_correlation
from experiments.reporting.summary import FinishedRun, format_table
from experiments.settings.scores import COLUMNS

# Scores of disentanglement that Friede et al. compare, and the two later papers'.
_SCORES = (
    "beta_vae_score/score",
    "factor_vae_score/score",
    "mig/mig",
    "dci_gradient_boosting/disentanglement",
    "dci/disentanglement",
    "modularity/modularity",
    "sap/sap",
    "infomec/modularity",
)
_TASKS = {
    "sample_efficiency/logistic_regression_efficiency": "LR",
    "sample_efficiency_gradient_boosting/gradient_boosting_efficiency": "GBT",
}

# Score -> (dataset, task) -> rank correlation and number of runs.
Correlations = dict[str, dict[tuple[str, str], tuple[float, int]]]


def efficiency_correlations(runs: Sequence[FinishedRun]) -> Correlations:
    """Rank correlations of scores with sample efficiency, over the runs of a dataset.

    Sample efficiency is the accuracy of a classifier that saw 100 labels over that of
    one that saw 10,000. Runs of all methods on a dataset are taken together.

    Args:
        runs: Finished runs.

    Returns:
        By score, then by dataset and task (`"LR"` or `"GBT"`); what fewer than three
        runs have, or what is the same for all of them, is left out.

    Example:

    ```python
    found = efficiency_correlations(find_runs(["runs/study"])[0])
    found["mig/mig"]["shapes3d", "LR"]  # rank correlation, number of runs
    ```

    Reference:
        Friede et al. 2023, figure 4 and appendix 4.
    """
    by_dataset: dict[str, list[FinishedRun]] = {}
    for run in runs:
        by_dataset.setdefault(run.config.dataset, []).append(run)
    found: Correlations = {}
    for dataset, members in by_dataset.items():
        for task, label in _TASKS.items():
            efficiency = _values(members, task)
            for score in _SCORES:
                rho, count = rank_correlation(_values(members, score), efficiency)
                if rho is not None:
                    found.setdefault(score, {})[dataset, label] = rho, count
    return found


def _values(runs: Sequence[FinishedRun], score: str) -> Mapping[Path, float]:
    values = {run.path: run.metrics["scores"].get(score) for run in runs}
    return {path: value for path, value in values.items() if value is not None}


def efficiency_table(runs: Sequence[FinishedRun]) -> str | None:
    """The correlations as a Markdown table; None if there are none.

    Args:
        runs: Finished runs.
    """
    found = efficiency_correlations(runs)
    columns = list(dict.fromkeys(key for row in found.values() for key in row))
    if not columns:
        return None
    headings = ["rank correlation with sample efficiency"]
    headings += [f"{dataset} ({task})" for dataset, task in columns]
    rows = []
    for score, cells in found.items():
        known = [cells.get(column) for column in columns]
        shown = [
            "" if each is None else f"{each[0]:+.2f} ({each[1]})" for each in known
        ]
        rows.append([COLUMNS[score], *shown])
    return format_table(headings, rows)
