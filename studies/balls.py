"""Coordinates of two balls (Barin-Pacela et al. 2025, appendix E, table 2).

    python -m studies.balls [--quick]

Two coloured balls, each at a place whose density has steps along the axes (3 x 2 cells
a ball). Five autoencoders with four latents: a plain one, one each with Cliff, IOSS or
HFS added to the squared error, and one whose decoder is a sum of two, one for each pair
of latents. The score is the mean rank correlation of latents and coordinates (MCC). The
paper's claim: Cliff is above the additive decoder (52.1 and 37.8 %; IOSS has 60.5); it
has no row for HFS or the plain autoencoder, which shows what the terms add.

CPU-sized, the same for all rows: 16x16 images drawn without snapping to pixels,
Locatello's networks at a quarter of their width, 4,000 steps of 64 images (13 epochs of
20,000) with a rate that falls from 5e-3 to 5e-5. The paper: 64x64, ResNet-18, 1,000
epochs, 1e-3. Weights are those that the paper reports, 0.1 for Cliff and 1.0 for IOSS,
with pixels in [0, 1]; HFS has the largest that it searched for both, 1.0. No weight was
tuned; images, width and steps were chosen after a few short runs of Cliff and IOSS on
seed 100, by PSNR and time. IOSS draws 1,000 points instead of 10,000.

The dataset is one for all runs, as in the paper; seeds are those of the networks.
`psnr/psnr` tells whether the balls are reconstructed at all: a model that paints the
mean image has `psnr_of_the_mean` of the findings.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from experiments.sweeps.plan import Trial, plan_sweep
from studies.claims import frozen_seeds, judge, load_claims
from studies.study import Study
from studies.summaries import paired_difference, score_table, summarise
from studies.trials import QUICK, run_here

SEEDS = frozen_seeds("balls")
PAPER = {
    "Cliff": {"mcc": 0.5206, "standard_error": 0.0400},
    "IOSS": {"mcc": 0.6051, "standard_error": 0.0558},
    "additive": {"mcc": 0.3780, "standard_error": 0.0349},
}
SETTINGS: dict[str, Any] = {
    "image_size": 16,
    "network": "locatello",
    "width": 0.25,
    "encoder_options": {},
    "decoder_options": {},
    "num_latents": 4,
    "dataset_options": {"snap": False},
    "batch_size": 64,
    "steps": 4_000,
    "steps_per_call": 50,
    "evaluate_every": 4_000,
    "evaluation_size": 5_000,
    "log_every": 250,
    "threads": 1,
}
_LOSS = {
    "learning_rate": "cosine(5e-3, 5e-5)",
    "reconstruction": "mse",
    "reduction": "sum",
}
_PLAIN = {**_LOSS, "beta": None}
# Label -> method, hyperparameters and settings of its own.
ROWS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "Cliff": ("cliff", {**_PLAIN, "cliff_weight": 0.1}, {}),
    "IOSS": ("ioss", {**_PLAIN, "ioss_weight": 1.0, "num_samples": 1000}, {}),
    "HFS": ("hfs", {**_PLAIN, "hfs_weight": 1.0}, {}),
    "additive": (
        "additive",
        _LOSS,
        {
            "network": "locatello_additive",
            "decoder_options": {"block_sizes": [2, 2]},
        },
    ),
    "AE": ("ae", {**_LOSS, "beta_2": 0.999}, {}),  # the optimizer of the others
}
SCORES = {"mcc/mcc": "MCC", "psnr/psnr": "PSNR (dB)"}
_TINY = {**QUICK, "steps_per_call": 1, "batch_size": 16, "evaluation_size": 100}


def plan(quick: bool = False) -> dict[str, list[Trial]]:
    """Trials by row."""
    tiny = _TINY if quick else {}
    return {
        label: plan_sweep(
            [method],
            ["balls"],
            SEEDS[:2] if quick else SEEDS,
            settings={**SETTINGS, **own, **tiny},
            hyperparameters=hyperparameters,
        )
        for label, (method, hyperparameters, own) in ROWS.items()
    }


def psnr_of_the_mean(trial: Trial, size: int = 2_000) -> float:
    """PSNR of painting the mean image, whatever the balls do."""
    from experiments.running.setup import load_dataset

    _, images = load_dataset(trial.config).evaluation_set(size)
    return float(-10 * np.log10(((images - images.mean(0)) ** 2).mean()))


def main(arguments: Sequence[str] | None = None) -> None:
    description = "Coordinates of two balls by five methods."
    study = Study.from_arguments("balls", description, arguments)
    planned = plan(study.quick)
    # In this process: a run is hardly longer than the start of another one.
    rounds = [trial for row in zip(*planned.values(), strict=True) for trial in row]
    runs = {run.path.name: run for run in study.run(rounds, start=run_here)}
    groups = {
        label: summarise(label, [runs[trial.name] for trial in trials])
        for label, trials in planned.items()
    }
    findings: dict[str, Any] = {
        "paper": PAPER,
        "psnr_of_the_mean": psnr_of_the_mean(planned["Cliff"][0]),
    }
    for first, second in (
        ("Cliff", "additive"),
        ("IOSS", "additive"),
        ("IOSS", "Cliff"),
    ):
        gap = paired_difference(groups[first], groups[second], "mcc/mcc")
        findings[f"{first}_minus_{second}/mcc"] = gap
    findings["claims"] = judge(load_claims(study.name), groups)
    settings = {
        "question": "Do Cliff, IOSS and HFS find the balls' coordinates, and an "
        "additive decoder not?",
        "seeds": SEEDS,
        "settings": SETTINGS,
        "rows": {label: row[1:] for label, row in ROWS.items()},
    }
    study.write(settings, list(groups.values()), findings)
    print(score_table(list(groups.values()), SCORES))
    for claim in findings["claims"]:
        print(f"{claim['claim']}, {claim['score']}: {claim['verdict']}")


if __name__ == "__main__":
    main()
