"""Discrete against Gaussian latents on dSprites (Friede et al. 2023, section 6).

    python -m studies.dsprites [--quick] [--file=...]

A Gaussian VAE against a D-VAE, and a FactorVAE against a FactorDVAE (total correlation
weight 30 for both), on the complete sub-grid of 46,080 real dSprites images (every
fourth orientation, every second position). Claims: the discrete model of each pair has
the higher MIG, and over D-VAE and FactorDVAE runs a smaller straight-through gap goes
with a higher MIG (negative rank correlation).

CPU-sized: 32x32 images, half of the paper's channels, discriminators of 3 x 256 units,
and 3,000 steps of 64 images with a learning rate of 1e-3 for all four methods instead
of 300,000 with 1e-4. Both factor methods permute latents within the one batch.
"""

import argparse
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments.sweeps.plan import Trial
from studies.common import (
    QUICK,
    ROOT,
    Study,
    StudySkippedError,
    as_text,
    new_figure,
    paired_difference,
    plan_methods,
    summarise,
)

FILE = Path("..", "shared", "data", "dsprites", "dsprites_downsampled.npz")
PREPARED = Path("runs", "studies", "tfds")
METHODS = {
    "beta_vae": "Gaussian VAE",
    "d_vae": "D-VAE",
    "factor_vae": "FactorVAE",
    "factor_d_vae": "FactorDVAE",
}
PAIRS = (("d_vae", "beta_vae"), ("factor_d_vae", "factor_vae"))
# Table 1: median MIG on the whole of dSprites after 300,000 steps (beta-VAE: its best
# beta, by Locatello et al. 2019).
PAPER = {"beta_vae": 0.113, "d_vae": 0.174, "factor_vae": 0.174, "factor_d_vae": 0.217}
SEEDS = (0, 1, 2)
SETTINGS: dict[str, Any] = {
    "image_size": 32,
    "width": 0.5,
    "num_latents": 10,
    "batch_size": 64,
    "steps": 3_000,
    "evaluate_every": 3_000,
    "evaluation_size": 5_000,
    "log_every": 250,
    "threads": 1,
    "network": "locatello",
    "select": "last",
}
_TINY = {**QUICK, "evaluation_size": 300, "width": 0.125, "batch_size": 8}
_TINY |= {"metrics": "fast"}
_ADAM = {"learning_rate": 1e-3, "beta_1": 0.9, "beta_2": 0.999}
_DISCRETE = {**_ADAM, "num_values": 64, "noise_scale": "cosine(0.5, 2.0)"}
_FACTOR = {"tc_weight": 30.0, "hidden_units": [256] * 3, "two_batches": False}
HYPERPARAMETERS: dict[str, dict[str, Any]] = {
    "beta_vae": {**_ADAM, "beta": 1.0, "reduction": "sum"},
    "d_vae": _DISCRETE,
    "factor_vae": {**_ADAM, **_FACTOR},
    "factor_d_vae": {**_DISCRETE, **_FACTOR},
}
_GAP = "straight_through_gap/gap"
_PRINTED = ("mig/mig", "dci/disentanglement", "dci/completeness", "psnr/psnr")


def plan(file: Path, quick: bool = False) -> dict[str, list[Trial]]:
    """Trials by method."""
    settings = {
        **SETTINGS,
        **(_TINY if quick else {}),
        "dataset_options": {"file": str(file), "allow_partial": True},
        "data_dir": str(PREPARED),
    }
    seeds = SEEDS[:1] if quick else SEEDS
    return plan_methods("dsprites", seeds, settings, HYPERPARAMETERS)


def find_file(given: Path | None) -> Path:
    """The sub-grid's file, as seen from the project's folder.

    Raises:
        StudySkippedError: If it is not there.
    """
    file = Path(os.path.relpath(given, ROOT)) if given else FILE
    if not (ROOT / file).is_file():
        raise StudySkippedError(
            f"The study needs the dSprites sub-grid, which is not at {file}. Name a "
            "file with --file: the published .npz or a complete sub-grid of it."
        )
    return file


def rank_correlation(groups: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Spearman's correlation of the straight-through gap with MIG and DCI-D."""
    from scipy.stats import spearmanr

    rows = [
        row["scores"]
        for method in ("d_vae", "factor_d_vae")
        for row in groups[method]["runs"]
    ]
    found: dict[str, Any] = {"runs": len(rows)}
    for name in ("mig/mig", "dci/disentanglement", "infomec/modularity"):
        if all(name in row for row in rows):
            result = spearmanr([row[_GAP] for row in rows], [row[name] for row in rows])
            found[name] = {
                "correlation": float(result.statistic),
                "p_value": float(result.pvalue),
            }
    return found


def draw(study: Study, groups: Mapping[str, Mapping[str, Any]]) -> None:
    """MIG of every run beside its method's mean, and MIG over the gap."""
    figure, ((left, right),) = new_figure(1, 2, 3.6)
    for place, (method, group) in enumerate(groups.items()):
        values = [row["scores"]["mig/mig"] for row in group["runs"]]
        colour = "#b03030" if "d_vae" in method else "#3050a0"
        left.scatter([place] * len(values), values, color=colour, s=18)
        left.hlines(
            group["scores"]["mig/mig"]["mean"], place - 0.3, place + 0.3, colour
        )
        if _GAP in group["scores"]:
            gaps = [row["scores"][_GAP] for row in group["runs"]]
            right.scatter(gaps, values, label=group["label"], s=18)
    left.set_xticks(range(len(groups)), [g["label"] for g in groups.values()])
    left.tick_params(axis="x", labelrotation=25, labelsize=8)
    left.set_ylabel("MIG")
    right.set(xlabel="straight-through gap (nats)", ylabel="MIG")
    right.legend(fontsize=8)
    figure.tight_layout()
    study.save_figure(figure, study.name)


def add_file(parser: argparse.ArgumentParser) -> None:
    """Adds the option for the sub-grid's file."""
    parser.add_argument("--file", type=Path, help=f"default: {FILE}")


def main(arguments: Sequence[str] | None = None) -> None:
    description = "Discrete against Gaussian latents on dSprites."
    study = Study.from_arguments("dsprites", description, arguments, add_file)
    try:
        file = find_file(study.options.file)
    except StudySkippedError as reason:
        print(f"Skipped: {reason}")
        return
    planned = plan(file, study.quick)
    groups = {
        method: summarise(METHODS[method], runs)
        for method, runs in study.run_by_seed(planned).items()
    }
    draw(study, groups)
    findings: dict[str, Any] = {"paper_median_mig": PAPER}
    for ours, theirs in PAIRS:
        for name in _PRINTED:
            if name in groups[ours]["scores"]:
                findings[f"{ours}_minus_{theirs}/{name}"] = paired_difference(
                    groups[ours], groups[theirs], name
                )
    findings["rank_correlation_with_gap"] = rank_correlation(groups)
    settings = {
        "question": "Do discrete latents disentangle dSprites better than Gaussian?",
        "data": "46,080-image sub-grid of dSprites, sizes 3 x 6 x 10 x 16 x 16",
        "seeds": SEEDS,
        "settings": SETTINGS,
        "hyperparameters": HYPERPARAMETERS,
    }
    study.write(settings, list(groups.values()), findings)
    report(groups, findings)


def report(
    groups: Mapping[str, Mapping[str, Any]], findings: Mapping[str, Any]
) -> None:
    """Prints the table."""
    for group in groups.values():
        cells = [
            f"{name} {as_text(value)}"
            for name, value in group["scores"].items()
            if name in (*_PRINTED, _GAP)
        ]
        print(f"{group['label']:<13} {', '.join(cells)}")
    print(f"Gap and scores: {findings['rank_correlation_with_gap']}")


if __name__ == "__main__":
    main()
