"""What the page's script needs of a run: text, numbers, pictures and the model."""

import sys
from collections.abc import Sequence
from typing import Any, TypeGuard

from experiments.reporting.run_pictures import picture_uri, read_index
from experiments.reporting.summary import COLUMNS, FinishedRun, Group, passes_filter
from experiments.storage.run_directory import RunDirectory

_MOST_POINTS = 300
_SHOWN_SCORES = ("infomec/modularity", "mcc/mcc", "psnr/psnr")
# Result of a metric -> its matrix, whether sources are its rows, and a caption.
_MATRICES = (
    (
        "infomec",
        "nmi",
        True,
        "Which latent knows which source (normalised mutual information)",
    ),
    ("dci", "importance", False, "Which latent predicts which source (importance)"),
    (
        "dci_gradient_boosting",
        "importance",
        False,
        "Which latent predicts which source (importance in boosted trees)",
    ),
    ("mcc", "correlation", True, "Which latent goes with which source (correlation)"),
)


def run_payload(run: FinishedRun, group: Group) -> dict[str, Any]:
    """A run for the page.

    Args:
        run: The run.
        group: The group that it belongs to.

    Example:

    ```python
    groups = group_runs(find_runs(["runs/study"])[0])
    payload = run_payload(groups[0].runs[0], groups[0])
    ```
    """
    from experiments.reporting.page_model import load_page_model

    directory = RunDirectory(run.path)
    index = _index(directory)
    model, reason = load_page_model(directory)
    matrices = heat_maps(run.metrics, index["sources"] if index else [])
    payload: dict[str, Any] = {
        "name": f"{group.label} · {group.dataset} · seed {run.config.seed}",
        "facts": _facts(run),
        "verdict": verdict(run.metrics),
        "model": model,
        "reason": reason,
        "curves": _curves(directory),
        "matrices": matrices,
        "knows": best_sources(matrices),
        "pictures": None,
    }
    if index is not None:
        payload["pictures"] = _pictures(directory, index, sprites=model is None)
    for name, file in (("infomec", "infomec"), ("dci", "dci")):
        drawn = any(matrix["metric"] == name for matrix in matrices)
        payload[name] = None if drawn else picture_uri(directory, f"{file}.png")
    return payload


def _facts(run: FinishedRun) -> str:
    scores = run.metrics["scores"]
    facts = [f"seed {run.config.seed}", f"{run.config.steps} steps"]
    facts.append(f"checkpoint of step {run.metrics['checkpoint']['step']}")
    facts += [
        f"{COLUMNS[name]} {scores[name]:.2f}"
        for name in _SHOWN_SCORES
        if scores.get(name) is not None
    ]
    return ", ".join(facts)


def verdict(metrics: dict[str, Any]) -> str:
    """What the reconstruction filter says of a run, as a sentence.

    Args:
        metrics: Content of a run's `metrics.json`.

    Example:

    ```python
    verdict({"settings": {}})  # ""
    ```
    """
    passed = passes_filter(metrics)
    if passed is None:
        return ""
    threshold = metrics["settings"]["psnr_threshold"]
    if passed:
        return f"Passes the reconstruction filter (PSNR of at least {threshold:g} dB)."
    note = metrics["checkpoint"].get("note")
    if note and isinstance(note, str):  # the chosen checkpoint may also have been lost
        return f"These are the scores of {note}."
    return (
        f"Does not pass the reconstruction filter: no checkpoint reached a PSNR of "
        f"{threshold:g} dB, so these are the scores of the last one."
    )


def heat_maps(
    metrics: dict[str, Any], source_names: Sequence[str]
) -> list[dict[str, Any]]:
    """The matrices behind the scores, sources by latents.

    Args:
        metrics: Content of a run's `metrics.json`.
        source_names: Names of the factors; numbered where they are not known.

    Example:

    ```python
    heat_maps({"results": {"infomec": {"nmi": [[0.9, 0.1]]}}}, ["hue"])
    ```
    """
    results = metrics.get("results", {})
    found: list[dict[str, Any]] = []
    for metric, field, by_source, caption in _MATRICES:
        result = results.get(metric, {})
        rows = result.get(field)
        if not _is_matrix(rows) or (metric == "mcc" and found):
            continue
        rows = rows if by_source else [list(row) for row in zip(*rows, strict=True)]
        names = list(source_names)
        if len(names) != len(rows):
            names = [f"source {i}" for i in range(len(rows))]
        active = result.get("active")
        width = len(rows[0])
        if not isinstance(active, list) or len(active) != width:
            active = [True] * width
        found.append(
            {
                "metric": metric,
                "caption": caption,
                "sources": names,
                "rows": [[_number(value) for value in row] for row in rows],
                "active": [bool(flag) for flag in active],
            }
        )
    return found


def best_sources(matrices: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """For each latent the source that it knows best, by the first matrix.

    Args:
        matrices: See `heat_maps`.

    Example:

    ```python
    best_sources([{"sources": ["hue"], "rows": [[0.9]], "active": [True]}])
    # [{"source": "hue", "value": 0.9, "active": True}]
    ```
    """
    if not matrices:
        return []
    names, rows = matrices[0]["sources"], matrices[0]["rows"]
    best = []
    for j, active in enumerate(matrices[0]["active"]):
        column = [abs(row[j] or 0.0) for row in rows]
        value = max(column)
        name = names[column.index(value)]
        best.append({"source": name, "value": value, "active": active})
    return best


def _is_matrix(rows: Any) -> bool:
    if not isinstance(rows, list) or not rows:
        return False
    widths = {len(row) if isinstance(row, list) else 0 for row in rows}
    return len(widths) == 1 and 0 not in widths


def _number(value: Any) -> float | None:
    return round(float(value), 4) if _is_finite(value) else None


def _is_finite(value: Any) -> TypeGuard[float]:
    """Whether a float holds the number; JSON has integers that are too large."""
    largest = sys.float_info.max
    return isinstance(value, (int, float)) and -largest <= value <= largest


def _index(directory: RunDirectory) -> dict[str, Any] | None:
    """What the run says of its pictures; None where a share is no number, too."""
    try:
        index = read_index(directory)
    except OverflowError:  # a share that is too large for a float
        return None
    rows = (index or {}).get("frequencies") or []
    return index if all(_is_finite(share) for row in rows for share in row) else None


def _pictures(
    directory: RunDirectory, index: dict[str, Any], sprites: bool
) -> dict[str, Any]:
    """Base images, and where the page cannot decode, what was decoded before."""
    pairs = [[picture_uri(directory, name) for name in p] for p in index["sprites"]]
    kept = [i for i, pair in enumerate(pairs) if None not in pair]
    return {
        "side": index["side"],
        "latents": index["latents"],
        "values": index["values"],
        "frequencies": index["frequencies"],
        "codes": [index["codes"][i] for i in kept],
        "bases": [pairs[i][0] for i in kept],
        "sprites": [pairs[i][1] for i in kept] if sprites else [],
        "swaps": picture_uri(directory, "swaps.png") if sprites else None,
    }


def _curves(directory: RunDirectory) -> dict[str, list[list[float]]]:
    curves: dict[str, list[list[float]]] = {}
    for row in (*directory.history.read(), *directory.evaluations.read()):
        if not _is_finite(row["step"]):
            continue
        for name, value in row.items():
            if name == "step" or not _is_finite(value):  # text, or not measured
                continue
            title = COLUMNS.get(name, name)
            curves.setdefault(title, []).append([row["step"], value])
    return {title: _thinned(points) for title, points in curves.items()}


def _thinned(points: list[list[float]]) -> list[list[float]]:
    """Fewer points, with the last one: the page prints its value."""
    kept = points[:: max(1, len(points) // _MOST_POINTS)]
    return kept if kept[-1] is points[-1] else [*kept, points[-1]]
