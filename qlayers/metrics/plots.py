"""Heat maps of which latent knows which source; inactive latents in red."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from qlayers.metrics._checks import BoolArray, FloatArray, check_names
from qlayers.metrics.dci import DCIResult
from qlayers.metrics.infomec import InfoMECResult

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot_nmi(
    result: InfoMECResult,
    *,
    source_names: Sequence[str] | None = None,
    latent_names: Sequence[str] | None = None,
) -> "Figure":
    """Draws the transposed normalised mutual information, one row per latent.

    Args:
        result: What `infomec` returned.
        source_names: (n_s,) labels of the columns; numbers by default.
        latent_names: (n_z,) labels of the rows; numbers by default.

    Returns:
        A matplotlib `Figure` that belongs to no window: save it with `savefig` or
        show it as the last line of a notebook cell.

    Example:
        >>> plot_nmi(result, source_names=dataset.factor_names).savefig("nmi.png")

    Reference:
        Hsu et al. 2023, Disentanglement via Latent Quantization, figure 3.
    """
    title = (
        f"InfoM {result.modularity:.2f}   InfoE {result.explicitness:.2f}   "
        f"InfoC {result.compactness:.2f}"
    )
    return _heat_map(
        result.nmi.T,
        result.active,
        source_names,
        latent_names,
        title=title,
        label="normalised mutual information",
    )


def plot_importance(
    result: DCIResult,
    *,
    active: npt.ArrayLike | None = None,
    source_names: Sequence[str] | None = None,
    latent_names: Sequence[str] | None = None,
) -> "Figure":
    """Draws the importance matrix of DCI, one row per latent.

    Args:
        result: What `dci` returned.
        active: (n_z,) booleans, for example `infomec(...).active`; by default the
            latents that any tree used.
        source_names: (n_s,) labels of the columns; numbers by default.
        latent_names: (n_z,) labels of the rows; numbers by default.

    Returns:
        A matplotlib `Figure`.

    Example:
        >>> plot_importance(dci(sources, latents)).savefig("importance.png")

    Reference:
        Baykal et al., Disentanglement with Factor Quantized VAEs, figures 6 and 7.
    """
    used = result.active if active is None else np.asarray(active, bool)
    if used.shape != (len(result.importance),):
        raise ValueError(
            f"`active` must have shape ({len(result.importance)},); received "
            f"{used.shape}."
        )
    title = (
        f"D {result.disentanglement:.2f}   C {result.completeness:.2f}   "
        f"I {result.informativeness:.2f}"
    )
    return _heat_map(
        result.importance,
        used,
        source_names,
        latent_names,
        title=title,
        label="importance",
    )


def _heat_map(
    matrix: FloatArray,
    active: BoolArray,
    source_names: Sequence[str] | None,
    latent_names: Sequence[str] | None,
    *,
    title: str,
    label: str,
) -> "Figure":
    from matplotlib.figure import Figure

    latents, sources = matrix.shape
    columns = check_names(source_names, sources, "source_names")
    rows = check_names(latent_names, latents, "latent_names")
    figure = Figure(figsize=(2.2 + 0.55 * sources, 1.6 + 0.32 * latents))
    # A little more air than the default, which cuts the colour bar's label.
    figure.set_layout_engine("constrained", w_pad=0.1, h_pad=0.1)
    axes = figure.add_subplot()
    picture = axes.imshow(matrix, cmap="viridis", vmin=0, vmax=1, aspect="auto")
    _write_values(axes, matrix)
    long = max(map(len, columns)) > 3
    axes.set_xticks(
        range(sources),
        columns,
        rotation=35 if long else 0,
        ha="right" if long else "center",
    )
    axes.set_yticks(range(latents), rows)
    for tick, alive in zip(axes.get_yticklabels(), active, strict=True):
        tick.set_color("black" if alive else "red")
    axes.set_xlabel("source")
    axes.set_ylabel("latent (red: inactive)" if not active.all() else "latent")
    axes.set_title(title, fontsize=10)
    figure.colorbar(picture, ax=axes, label=label)
    return figure


def _write_values(axes: "object", matrix: FloatArray) -> None:
    for (row, column), value in np.ndenumerate(matrix):
        if value >= 0.005:
            axes.text(  # type: ignore[attr-defined]
                column,
                row,
                f"{value:.2f}",
                ha="center",
                va="center",
                fontsize=7,
                color="black" if value > 0.6 else "white",
            )
