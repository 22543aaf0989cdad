"""Pictures of the leaderboard: scores of all rows, and what the latents know."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from experiments.reporting.summary import FinishedRun
from experiments.settings.scores import COLUMNS
from studies.figures import new_figure
from studies.study import Study

MODULARITY = "infomec/modularity"
SHOWN = (MODULARITY, "infomec/compactness", "infomec/explicitness", "psnr/psnr")
# Rows whose matrices are drawn, where they were run.
WITH_MATRIX = ("AE", "beta-VAE", "VQ-VAE", "QLAE, ten values", "Tripod")


def draw_scores(study: Study, groups: Mapping[str, Mapping[str, Any]]) -> None:
    """Means with intervals and single runs, a panel for each of four scores.

    Args:
        study: The study.
        groups: Rows by label, as `studies.summaries.summarise` makes them.
    """
    figure, (axes,) = new_figure(1, len(SHOWN), 3.2)
    figure.set_figheight(0.28 * len(groups) + 1)
    labels = list(groups)[::-1]
    for axis, name in zip(axes, SHOWN, strict=True):
        for place, label in enumerate(labels):
            value = groups[label]["scores"].get(name)
            if value is None:
                continue
            single = [row["scores"][name] for row in groups[label]["runs"]]
            axis.scatter(single, [place] * len(single), s=8, color="#9fb4cf")
            axis.errorbar(
                value["mean"], place, xerr=value["half_width"], fmt="o", color="#33557a"
            )
        axis.set_title(COLUMNS[name], fontsize=9)
        axis.set_yticks(range(len(labels)), labels if axis is axes[0] else [])
        axis.tick_params(labelsize=8)
        axis.grid(axis="y", alpha=0.3)
        if name != "psnr/psnr":
            axis.set_xlim(0, 1)
    figure.tight_layout()
    study.save_figure(figure, study.name)


def draw_matrices(study: Study, runs: Mapping[str, Sequence[FinishedRun]]) -> None:
    """Which latent knows which factor, in the middle run by InfoM of some rows.

    Args:
        study: The study.
        runs: Runs by label; those of `WITH_MATRIX` are drawn.
    """
    shown = {label: middle_run(runs[label]) for label in WITH_MATRIX if label in runs}
    if not shown:
        return
    figure, (axes,) = new_figure(1, len(shown), 2.6)
    figure.set_figheight(3.6)
    for axis, (label, run) in zip(axes, shown.items(), strict=True):
        matrix = by_factor(run.metrics["results"]["infomec"]["nmi"])
        axis.imshow(matrix, cmap="viridis", vmin=0, vmax=1, aspect="auto")
        names = run.config.dataset_info.factor_names
        axis.set_xticks(range(len(names)), names, rotation=60, ha="right", fontsize=7)
        axis.set_yticks([])
        value = run.metrics["scores"][MODULARITY]
        axis.set_title(f"{label}\nInfoM {value:.2f}", fontsize=9)
    axes[0].set_ylabel("latents", fontsize=9)
    figure.tight_layout()
    study.save_figure(figure, f"{study.name}_nmi")


def middle_run(runs: Sequence[FinishedRun]) -> FinishedRun:
    """The run with the median InfoM; the lower of the middle two of an even number."""
    ordered = sorted(runs, key=lambda run: run.metrics["scores"][MODULARITY])
    return ordered[(len(ordered) - 1) // 2]


def by_factor(nmi: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Latents as rows, in the order of the factor that each knows best.

    Args:
        nmi: Mutual information of (factors, latents), normalised.

    Example:

    ```python
    by_factor([[0.1, 0.9, 0.3], [0.8, 0.0, 0.2]])  # latents 1, 2, 0
    ```
    """
    rows = np.asarray(nmi, np.float64).T
    best = rows.argmax(axis=1)
    return rows[np.lexsort((-rows.max(axis=1), best))]
