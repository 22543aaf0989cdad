"""Discrete against Gaussian latents on dSprites (Friede et al. 2023, section 6).

    python -m studies.dsprites [--quick] [--workers=2] [--file=...] [--finished]

A Gaussian VAE against a D-VAE, and a FactorVAE against a FactorDVAE (total correlation
weight 30 for both), on the complete sub-grid of 46,080 real dSprites images (every
fourth orientation, every second position). The claims are those of `claims.json`: the
discrete model of each pair has the higher MIG. Further FactorDVAEs with other weights
make 20 discrete runs in all, over which two criteria without labels are compared with
the scores: the straight-through gap (smaller should be better) and UDR, the agreement
with the other seeds of the same settings (larger should be better). That the gap
does so is a claim of the paper, and frozen too.

CPU-sized: 32x32 images, the papers' encoder (kernels 4, 4, 2, 2) and decoder with half
of their channels, discriminators of 3 x 256 units, and 20,000 steps of 64 images with a
learning rate of 1e-3 for all networks, discriminators too, instead of 300,000 with
1e-4. Both factor methods permute latents within the one batch. Scores and latents of
finished runs are kept, so that the study goes on from a fresh clone; `--finished`
trains nothing and writes the record of what is there.
"""

import argparse
import functools
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments.reporting.summary import FinishedRun
from experiments.running.agreement import agreement
from experiments.sweeps.plan import Trial
from studies.claims import frozen_seeds, judge, load_claims
from studies.figures import new_figure
from studies.rank_claims import judge_ranks, load_rank_claims, rank_correlation
from studies.run_latents import FILE as LATENTS
from studies.run_latents import read_latents, run_and_encode
from studies.study import ROOT, Study, StudySkippedError
from studies.summaries import as_text, summarise
from studies.trials import QUICK, plan_methods, renamed, run_apart, run_here

FILE = Path("..", "shared", "data", "dsprites", "dsprites_downsampled.npz")
PREPARED = Path("runs", "studies", "tfds")
METHODS = {
    "beta_vae": "VAE",
    "d_vae": "D-VAE",
    "factor_vae": "FactorVAE",
    "factor_d_vae": "FactorDVAE",
}
# Total correlation weights of the further FactorDVAEs, from the paper's sweep.
GAMMAS = (10.0, 100.0)
# Table 1: median MIG on the whole of dSprites after 300,000 steps (VAE: beta-VAE with
# its best beta, by Locatello et al. 2019).
PAPER = {"VAE": 0.113, "D-VAE": 0.174, "FactorVAE": 0.174, "FactorDVAE": 0.217}
SEEDS = frozen_seeds("dsprites")
SETTINGS: dict[str, Any] = {
    "image_size": 32,
    "width": 0.5,
    "num_latents": 10,
    "batch_size": 64,
    "steps": 20_000,
    "evaluate_every": 20_000,
    "evaluation_size": 5_000,
    "test_size": 5_000,
    "log_every": 250,
    "threads": 1,
    "steps_per_call": 10,
    "network": "locatello",
    "encoder_options": {"variant": "code"},
    "select": "last",
    "metrics": "standard",
    "protocol": "paper",
    "scores": ["dci_gradient_boosting"],
    "dci_resamples": 0,
}
_TINY = {**QUICK, "evaluation_size": 300, "width": 0.125, "batch_size": 8}
_TINY |= {"metrics": "fast", "test_size": 100, "scores": []}
_ADAM = {"learning_rate": 1e-3, "beta_1": 0.9, "beta_2": 0.999}
_DISCRETE = {**_ADAM, "num_values": 64, "noise_scale": "cosine(0.5, 2.0)"}
_FACTOR = {
    "tc_weight": 30.0,
    "hidden_units": [256] * 3,
    "two_batches": False,
    "discriminator_learning_rate": 1e-3,
}
HYPERPARAMETERS: dict[str, dict[str, Any]] = {
    "beta_vae": {**_ADAM, "beta": 1.0, "reduction": "sum"},
    "d_vae": _DISCRETE,
    "factor_vae": {**_ADAM, **_FACTOR},
    "factor_d_vae": {**_DISCRETE, **_FACTOR},
}
_GAP, _UDR = "straight_through_gap/gap", "udr/udr"
_CRITERIA = {_GAP: "straight-through gap", _UDR: "UDR"}
_RANKED = (
    "mig/mig",
    "dci_gradient_boosting/disentanglement",
    "dci/disentanglement",
    "infomec/modularity",
)
_PRINTED = ("mig/mig", "dci_gradient_boosting/disentanglement", "psnr/psnr")


def plan(file: Path, quick: bool = False) -> dict[str, list[Trial]]:
    """Trials by label."""
    settings = {
        **SETTINGS,
        **(_TINY if quick else {}),
        "dataset_options": {"file": str(file), "allow_partial": True},
        "data_dir": str(PREPARED),
    }
    seeds = SEEDS[:2] if quick else SEEDS
    by_method = plan_methods("dsprites", seeds, settings, HYPERPARAMETERS)
    planned = {METHODS[method]: trials for method, trials in by_method.items()}
    for gamma in GAMMAS:
        weights = {**HYPERPARAMETERS["factor_d_vae"], "tc_weight": gamma}
        (trials,) = plan_methods(
            "dsprites", seeds, settings, {"factor_d_vae": weights}
        ).values()
        label = f"FactorDVAE, weight {gamma:g}"
        planned[label] = renamed(trials, f"tc_weight={gamma:g}")
    return planned


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


def udr_of(runs: Sequence[FinishedRun]) -> list[dict[str, float]]:
    """UDR of runs that differ in their seed, from the latents they have kept."""
    if len(runs) < 2:
        return [{} for _ in runs]
    scores = agreement([read_latents(run.path) for run in runs])
    return [{_UDR: score} for score in scores]


def rank_correlations(
    groups: Sequence[Mapping[str, Any]], criterion: str
) -> dict[str, Any]:
    """Spearman's correlation of a criterion with scores, over the discrete runs.

    Args:
        groups: Groups of runs; those without a straight-through gap are left out.
        criterion: Name of the score that ranks the runs.
    """
    rows = [row["scores"] for group in groups for row in group["runs"]]
    rows = [row for row in rows if _GAP in row and criterion in row]
    found: dict[str, Any] = {"runs": len(rows)}
    for name in _RANKED:
        if len(rows) > 2 and all(name in row for row in rows):
            chosen = [row[criterion] for row in rows]
            found[name] = rank_correlation(chosen, [row[name] for row in rows])
    return found


def draw(study: Study, groups: Sequence[Mapping[str, Any]]) -> None:
    """MIG of every run beside its row's mean, and MIG over both criteria."""
    figure, ((left, *others),) = new_figure(1, 3, 3.6)
    for place, group in enumerate(groups):
        values = [row["scores"]["mig/mig"] for row in group["runs"]]
        is_discrete = _GAP in group["scores"]
        colour = "#b03030" if is_discrete else "#3050a0"
        left.scatter([place] * len(values), values, color=colour, s=18)
        left.hlines(
            group["scores"]["mig/mig"]["mean"], place - 0.3, place + 0.3, colour
        )
        for axis, criterion in zip(others, _CRITERIA, strict=True):
            if is_discrete and criterion in group["scores"]:
                chosen = [row["scores"][criterion] for row in group["runs"]]
                axis.scatter(chosen, values, label=group["label"], s=18)
    left.set_xticks(range(len(groups)), [group["label"] for group in groups])
    left.tick_params(axis="x", labelrotation=30, labelsize=8)
    for label in left.get_xticklabels():
        label.set_horizontalalignment("right")
    left.set_ylabel("MIG")
    for axis, text in zip(others, _CRITERIA.values(), strict=True):
        axis.set(xlabel=text, ylabel="MIG")
    others[0].set_xlabel("straight-through gap (nats)")
    others[0].legend(fontsize=7)
    figure.tight_layout()
    study.save_figure(figure, study.name)


def add_file(parser: argparse.ArgumentParser) -> None:
    """Adds the option for the sub-grid's file."""
    parser.add_argument("--file", type=Path, help=f"default: {FILE}")


def _add_options(parser: argparse.ArgumentParser) -> None:
    add_file(parser)
    parser.add_argument(
        "--finished", action="store_true", help="records what is there, trains nothing"
    )


def main(arguments: Sequence[str] | None = None) -> None:
    description = "Discrete against Gaussian latents on dSprites."
    study = Study.from_arguments("dsprites", description, arguments, _add_options)
    study = study.keeping_scores(LATENTS)
    try:
        file = find_file(study.options.file)
    except StudySkippedError as reason:
        print(f"Skipped: {reason}")
        return
    planned = plan(file, study.quick)
    if study.options.finished:
        planned = study.finished(planned)
    run = run_here if study.quick else run_apart
    start = functools.partial(run_and_encode, run=run)
    groups = [
        summarise(label, runs, udr_of(runs))
        for label, runs in study.run_by_seed(planned, start).items()
    ]
    draw(study, groups)
    by_label = {group["label"]: group for group in groups}
    findings = {
        "paper_median_mig": PAPER,
        "claims": judge(load_claims(study.name), by_label),
        "rank_claims": judge_ranks(load_rank_claims(study.name), groups),
        "rank_correlations": {
            criterion: rank_correlations(groups, criterion) for criterion in _CRITERIA
        },
    }
    settings = {
        "question": "Do discrete latents disentangle dSprites better than Gaussian?",
        "data": "46,080-image sub-grid of dSprites, sizes 3 x 6 x 10 x 16 x 16",
        "seeds": SEEDS,
        "settings": SETTINGS,
        "hyperparameters": HYPERPARAMETERS,
    }
    study.write(settings, groups, findings)
    report(groups, findings)


def report(groups: Sequence[Mapping[str, Any]], findings: Mapping[str, Any]) -> None:
    """Prints the table, the claims and the rank correlations."""
    for group in groups:
        cells = [
            f"{name} {as_text(value)}"
            for name, value in group["scores"].items()
            if name in (*_PRINTED, *_CRITERIA)
        ]
        print(f"{group['label']:<22} {', '.join(cells)}")
    for claim in findings["claims"]:
        print(f"{claim['claim']}, {claim['score']}: {claim['verdict']}")
    for claim in findings["rank_claims"]:
        print(f"{claim['claim']} {claim['score']}: {claim['verdict']}")
    for criterion, found in findings["rank_correlations"].items():
        print(f"{_CRITERIA[criterion]} and scores: {found}")


if __name__ == "__main__":
    main()
