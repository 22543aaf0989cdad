"""Axis alignment of a two-dimensional latent space (Friede et al. 2023, figure 3).

    python -m studies.circles [--quick]

A circle at a random place is encoded in two latents, by a Gaussian VAE and by a D-VAE
(two ordered categories of 64 values), which share networks, seeds, data order and the
number of steps. The claim: Gaussian latents are rotated against the two coordinates,
discrete ones lie parallel to them.

Scores, on 5,000 circles and noise-free latents:

- `alignment/score`: |Pearson correlation| of each coordinate with each latent, a row of
  two numbers for each coordinate, normalised to sum 1; one minus the mean entropy of
  the rows over log 2. It is 1 if each coordinate correlates with one latent alone and 0
  if both latents tell as much of it.
- `alignment/degrees`: the coordinates are regressed on the standardised latents; the
  angle of the regression's directions to the nearest axis, 0 to 45, averaged.
- `mig/mig`: the mutual information gap, coordinates and latents cut into 20 bins.
- `mcc/mcc`: mean rank correlation of the best matching.

CPU-sized: 32x32 images, a quarter of the paper's channels, and 6,000 steps with a
learning rate of 1e-3 instead of 300,000 with 1e-4.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from experiments.reporting.summary import FinishedRun
from experiments.sweeps.plan import Trial
from studies.claims import frozen_seeds, judge, load_claims
from studies.figures import new_figure
from studies.run_latents import encode
from studies.study import Study
from studies.summaries import as_text, paired_difference, summarise
from studies.trials import QUICK, plan_methods

METHODS = {"beta_vae": "Gaussian VAE", "d_vae": "D-VAE"}
SEEDS = frozen_seeds("circles")
SETTINGS: dict[str, Any] = {
    "image_size": 32,
    "width": 0.25,
    "steps": 6_000,
    "evaluate_every": 6_000,
    "evaluation_size": 5_000,
    "log_every": 250,
    "threads": 1,
}
_TINY = {**QUICK, "evaluation_size": 100, "image_size": 16, "batch_size": 8}
_ADAM = {"learning_rate": 1e-3, "beta_1": 0.9, "beta_2": 0.999}
HYPERPARAMETERS: dict[str, dict[str, Any]] = {
    "beta_vae": {**_ADAM, "beta": 1.0, "reduction": "sum"},
    "d_vae": {**_ADAM, "num_values": 64, "noise_scale": "cosine(0.5, 2.0)"},
}
_SCORED = 5_000
_BINS = 20


def plan(quick: bool = False) -> dict[str, list[Trial]]:
    """Trials by method."""
    settings = {**SETTINGS, **(_TINY if quick else {})}
    seeds = SEEDS[:1] if quick else SEEDS
    return plan_methods("circles", seeds, settings, HYPERPARAMETERS)


def alignment(sources: np.ndarray, latents: np.ndarray) -> float:
    """One minus the mean entropy of the normalised rows of |correlation|, over log 2.

    Example:

    ```python
    alignment(z, z)  # 1.0 for independent columns
    alignment(z, z @ [[1, -1], [1, 1]])  # 0.0: rotated by 45 degrees
    ```

    NaN where a latent has collapsed: it is no axis.
    """
    if not _is_a_plane(latents):
        return float("nan")
    n = sources.shape[1]
    correlation = np.abs(np.corrcoef(sources.T, latents.T)[:n, n:])
    rows = correlation / correlation.sum(axis=1, keepdims=True)
    terms = np.where(rows > 0, -rows * np.log(np.where(rows > 0, rows, 1.0)), 0.0)
    return float(1.0 - terms.sum(axis=1).mean() / np.log(latents.shape[1]))


def rotation(sources: np.ndarray, latents: np.ndarray) -> float:
    """Mean angle in degrees between the sources' directions and the nearest axes.

    NaN where a latent has collapsed.
    """
    if not _is_a_plane(latents):
        return float("nan")
    unit = (latents - latents.mean(0)) / latents.std(0)
    centred = sources - sources.mean(0)
    directions, *_ = np.linalg.lstsq(unit, centred, rcond=None)
    size = np.abs(directions)
    angles = np.degrees(np.arctan2(size.min(axis=0), size.max(axis=0)))
    return float(angles.mean())


def _is_a_plane(latents: np.ndarray) -> bool:
    """Whether every latent varies."""
    return bool((np.ptp(latents, axis=0) > 0).all())


def further_scores(run: FinishedRun) -> dict[str, float]:
    """Alignment and MIG of a run's latents."""
    from qlayers.metrics import mig

    sources, _, latents = encode(run, min(_SCORED, run.config.evaluation_size))
    return {
        "alignment/score": alignment(sources, latents),
        "alignment/degrees": rotation(sources, latents),
        "mig/mig": float(mig(sources, latents, num_bins=_BINS, source_bins=_BINS)),
    }


def draw(study: Study, groups: Sequence[dict[str, Any]], runs: Any) -> None:
    """Latent spaces sorted by MIG; lines are equal x (red) and equal y (blue)."""
    columns = len(groups[0]["runs"])
    figure, axes = new_figure(len(groups), columns, 2.3)
    for row, group, found in zip(axes, groups, runs, strict=True):
        scores = [entry["scores"] for entry in group["runs"]]
        order = sorted(range(columns), key=lambda i: -scores[i]["mig/mig"])
        for axis, i in zip(row, order, strict=True):
            _draw_grid(axis, found[i])
            axis.set_title(
                f"MIG {scores[i]['mig/mig']:.2f}, "
                f"{scores[i]['alignment/degrees']:.0f}° off",
                fontsize=9,
            )
        row[0].set_ylabel(group["label"], fontsize=10)
    figure.tight_layout()
    study.save_figure(figure, study.name)


def _draw_grid(axis: Any, run: FinishedRun, lines: int = 13) -> None:
    """Draws a regular grid of circle positions as the encoder sees it."""
    import keras

    from experiments.running.setup import load_dataset

    places = np.linspace(0.2, 0.8, lines, dtype="float32")
    x, y = np.meshgrid(places, places, indexing="ij")
    sources = np.stack([x.ravel(), y.ravel()], axis=1)
    images = load_dataset(run.config).images_of(sources)
    encoder = keras.models.load_model(run.path / "encoder.keras")
    latents = keras.ops.convert_to_numpy(encoder(images)).reshape(lines, lines, 2)
    for i in range(lines):
        axis.plot(*latents[i].T, color="#b03030", linewidth=0.9)
        axis.plot(*latents[:, i].T, color="#3050a0", linewidth=0.9)
    axis.tick_params(labelsize=6)


def main(arguments: Sequence[str] | None = None) -> None:
    description = "Axis alignment of Gaussian and discrete latents."
    study = Study.from_arguments("circles", description, arguments)
    planned = plan(study.quick)
    runs = list(study.run_by_seed(planned).values())
    groups = [
        summarise(METHODS[method], found, [further_scores(run) for run in found])
        for method, found in zip(planned, runs, strict=True)
    ]
    draw(study, groups, runs)
    scores = ("alignment/score", "alignment/degrees", "mig/mig", "mcc/mcc")
    findings: dict[str, Any] = {
        f"d_vae_minus_gaussian/{name}": paired_difference(groups[1], groups[0], name)
        for name in scores
    }
    settings = {
        "question": "Are discrete latents aligned with the axes, Gaussian ones not?",
        "seeds": SEEDS,
        "settings": SETTINGS,
        "hyperparameters": HYPERPARAMETERS,
    }
    by_label = {group["label"]: group for group in groups}
    findings["claims"] = judge(load_claims(study.name), by_label)
    study.write(settings, groups, findings)
    for group in groups:
        texts = [f"{name} {as_text(group['scores'][name])}" for name in scores]
        print(f"{group['label']:<13} {', '.join(texts)}")
    for claim in findings["claims"]:
        print(f"{claim['claim']}, {claim['score']}: {claim['verdict']}")


if __name__ == "__main__":
    main()
