"""Twenty methods on mini_shapes3d (tables 1 of QLAE, Tripod and FactorQVAE in spirit).

    python -m studies.leaderboard [--quick] [--steps=2500] [--seeds=0,1,2]
        ["--entries=AE;QLAE"] [--select=last] [--no_tune]

Every method starts from its row of the `cpu` profile (`settings/recipes_cpu.py`),
with half of its batch and the same number of steps; a GAN makes half as many, of
several updates each.

1. Tuning: the key weight of each method (`leaderboard_entries.py`) is chosen on a seed
   of its own, with 0.6 of the steps. Of the candidates that reach 18 dB the one with
   the best InfoM wins; if none does, the best PSNR. GANs do not copy images:
   the best InfoM. Ablations take the value of the method they ablate.
2. Scores: the chosen setting on the other seeds, after the last step (no checkpoint is
   picked by its score); InfoMEC, DCI, PSNR with 95 % t-intervals. All methods of one
   seed run before the next seed.

`--no_tune` takes the recipes' weights. Both phases are trials of one sweep in one
folder: the same command again goes on, and more seeds or entries only add runs.
"""

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from experiments.reporting.summary import FinishedRun
from experiments.settings import scores
from experiments.settings.config import resolve
from experiments.settings.recipes_cpu import CPU_PSNR_THRESHOLDS
from experiments.sweeps.plan import Trial, plan_sweep
from studies.common import (
    Study,
    new_figure,
    paired_difference,
    renamed,
    score_table,
    summarise,
)
from studies.leaderboard_entries import ENTRIES, Entry

DATASET = "mini_shapes3d"
STEPS = 2_500
TUNING_SHARE = 0.6  # of the steps
BATCH_SHARE = 0.5  # of the recipe's batch
TUNING_PSNR = 18.0  # dB: three hues and the shape's place are plain to see
SEEDS = (0, 1, 2)
TUNING_SEED = 100
THRESHOLD = CPU_PSNR_THRESHOLDS[DATASET]
COLUMNS = {
    score: heading
    for score, heading in scores.COLUMNS.items()
    if score.startswith(("infomec/", "dci/", "psnr/psnr"))
}
# What the papers say: the first should score above the second, by at least this.
CLAIMS = (
    ("QLAE", "AE", "infomec/modularity", 0.25),
    ("Tripod", "QLAE", "infomec/modularity", 0.0),
    ("Tripod", "QLAE", "infomec/compactness", 0.0),
    ("Tripod", "naive Tripod", "infomec/modularity", 0.0),
    ("Tripod", "Tripod, no NHP", "infomec/modularity", 0.0),
    ("Tripod", "Tripod, no KLM", "infomec/modularity", 0.0),
    ("QLAE", "QLAE, no weight decay", "infomec/modularity", 0.0),
    ("QLAE", "VQ-VAE", "infomec/modularity", 0.0),
    ("QLInfoWGAN-GP", "InfoWGAN-GP", "infomec/modularity", 0.0),
    ("FactorQVAE", "QVAE", "dci/disentanglement", 0.0),
    ("FactorDVAE", "D-VAE", "mig/mig", 0.0),
)
_LOG_EVERY = 50
QUICK = {"image_size": 16, "width": 0.125, "evaluation_size": 200, "metrics": "fast"}
_QUICK_STEPS = 2


def settings_of(entry: Entry, steps: int, select: str, quick: bool) -> dict[str, Any]:
    """Settings of a run, beside the recipe's."""
    if entry.is_adversarial:
        steps = max(1, steps // 2)
    log_every = min(_LOG_EVERY, steps)
    evaluations = 1 if select == "last" else 8
    settings: dict[str, Any] = {
        "steps": steps,
        "log_every": log_every,
        "evaluate_every": max(1, steps // evaluations // log_every) * log_every,
        "batch_size": round(BATCH_SHARE * _recipe_batch(entry)),
        "threads": 1,
    }
    if select == "last" or (select == "infom" and entry.is_adversarial):
        settings |= {"select": "last", "psnr_threshold": None}
    elif select == "infom":
        settings |= {"select": "infom", "psnr_threshold": THRESHOLD}
    return settings | (QUICK if quick else {})


def _recipe_batch(entry: Entry) -> int:
    return resolve(entry.method, DATASET, "cpu").batch_size


def plan_entry(
    entry: Entry,
    seeds: Sequence[int],
    settings: Mapping[str, Any],
    value: float | None,
    prefix: str,
) -> list[Trial]:
    """Trials of a row with one value of its key weight; None leaves the recipe's."""
    chosen = {} if value is None or entry.key is None else {entry.key: value}
    trials = plan_sweep(
        [entry.method],
        [DATASET],
        seeds,
        profile="cpu",
        settings=settings,
        hyperparameters={**chosen, **entry.fixed},
    )
    details = [f"{k}={v}" for k, v in {**chosen, **entry.fixed}.items()]
    return renamed(trials, "-".join([prefix, *details]))


def choose(entry: Entry, runs: Mapping[float, FinishedRun]) -> float:
    """The candidate whose tuning run is best, see the module's text.

    Args:
        entry: The row.
        runs: Tuning run of each candidate.
    """
    found = {value: run.metrics["scores"] for value, run in runs.items()}
    quality = {v: s.get("psnr/psnr", float("-inf")) for v, s in found.items()}
    modularity = {v: s["infomec/modularity"] for v, s in found.items()}
    if entry.is_adversarial:
        return max(modularity, key=modularity.__getitem__)
    passing = [value for value in found if quality[value] >= TUNING_PSNR]
    if passing:
        return max(passing, key=modularity.__getitem__)
    return max(quality, key=quality.__getitem__)


def tune(
    study: Study, entries: Sequence[Entry], steps: int, select: str
) -> tuple[dict[str, Any], list[FinishedRun]]:
    """Runs the candidates of all rows (two with `--quick`) and chooses.

    Returns:
        The chosen value and all scores by label, and the tuning runs.
    """
    last = 2 if study.quick else None
    wanted = [(e, e.candidates[:last]) for e in entries if e.candidates]
    trials = [
        trial
        for entry, candidates in wanted
        for value in candidates
        for trial in plan_entry(
            entry,
            [TUNING_SEED],
            settings_of(entry, steps, select, study.quick),
            value,
            "tune",
        )
    ]
    runs = study.run(trials)
    left = iter(runs)
    found: dict[str, Any] = {}
    for entry, candidates in wanted:
        tried = {value: next(left) for value in candidates}
        found[entry.label] = {
            "key": entry.key,
            "chosen": choose(entry, tried),
            "seed": TUNING_SEED,
            "candidates": [
                {
                    "value": value,
                    "infomec/modularity": run.metrics["scores"]["infomec/modularity"],
                    "psnr/psnr": run.metrics["scores"].get("psnr/psnr"),
                }
                for value, run in tried.items()
            ],
        }
    return found, runs


def judge(groups: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The papers' claims that can be checked with the rows at hand."""
    judged = []
    for first, second, score, least in CLAIMS:
        if first not in groups or second not in groups:
            continue
        if (
            score not in groups[first]["scores"]
            or score not in groups[second]["scores"]
        ):
            continue
        gap = paired_difference(groups[first], groups[second], score)
        judged.append(
            {
                "claim": f"{first} above {second}",
                "score": score,
                "at_least": least,
                "difference": gap["mean"],
                "half_width": gap["half_width"],
                "holds": gap["mean"] >= least,
            }
        )
    return judged


def table(groups: Mapping[str, Mapping[str, Any]]) -> str:
    """Rows by InfoM, best first."""
    ordered = sorted(
        groups.values(), key=lambda g: -g["scores"]["infomec/modularity"]["mean"]
    )
    return score_table(ordered, COLUMNS)


def draw(study: Study, groups: Mapping[str, Mapping[str, Any]]) -> None:
    """Means with intervals and single runs, a panel for each of four scores."""
    shown = ["infomec/modularity", "infomec/compactness", "infomec/explicitness"]
    shown.append("psnr/psnr")
    figure, (axes,) = new_figure(1, len(shown), 3.2)
    figure.set_figheight(0.28 * len(groups) + 1)
    labels = list(groups)[::-1]
    for axis, name in zip(axes, shown, strict=True):
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


def _add_options(parser: argparse.ArgumentParser) -> None:
    known = [entry.label for entry in ENTRIES]

    def labels(text: str) -> list[str]:
        chosen = text.split(";")  # a label may hold a comma itself
        unknown = [label for label in chosen if label not in known]
        if unknown:
            raise argparse.ArgumentTypeError(f"unknown: {unknown}; known: {known}")
        return chosen

    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--seeds", type=lambda text: list(map(int, text.split(","))))
    parser.add_argument("--entries", type=labels, help="labels; default: all twenty")
    parser.add_argument(
        "--select",
        choices=("recipe", "last", "infom"),
        default="last",
        help="checkpoint that is scored; recipe: as the method's paper does it",
    )
    parser.add_argument("--no_tune", action="store_true", help="the recipes' weights")


def main(
    arguments: Sequence[str] | None = None,
    name: str = "leaderboard",
    seeds: Sequence[int] = SEEDS,
    rows: Sequence[str] | None = None,
) -> None:
    """Runs the study.

    Args:
        arguments: Arguments of the command line.
        name: Name of the record.
        seeds: Seeds to use if the arguments name none.
        rows: Labels to use if the arguments name none; None for all.
    """
    description = "Twenty methods on mini_shapes3d."
    study = Study.from_arguments(name, description, arguments, _add_options)
    given = study.options
    steps = _QUICK_STEPS if study.quick else given.steps
    seeds = given.seeds or list(seeds[:2] if study.quick else seeds)
    rows = given.entries or rows
    entries = [e for e in ENTRIES if not rows or e.label in rows]
    tuned: dict[str, Any] = {}
    tuning_runs: list[FinishedRun] = []
    if not given.no_tune:
        parents = {e.parent for e in entries}
        wanted = [e for e in ENTRIES if e in entries or e.label in parents]
        short = max(1, round(TUNING_SHARE * steps))
        tuned, tuning_runs = tune(study, wanted, short, given.select)
    planned = {}
    for entry in entries:
        value = tuned.get(entry.parent or entry.label, {}).get("chosen")
        settings = settings_of(entry, steps, given.select, study.quick)
        planned[entry.label] = plan_entry(entry, seeds, settings, value, "final")
    groups = {
        label: summarise(label, runs)
        for label, runs in study.run_by_seed(planned).items()
    }
    draw(study, groups)
    claims = judge(groups)
    described = {
        "question": "Which method disentangles mini_shapes3d best at the same budget?",
        "dataset": DATASET,
        "profile": "cpu",
        "steps": steps,
        "batch_share": BATCH_SHARE,
        "seeds": seeds,
        "tuning_seed": TUNING_SEED,
        "tuning_share_of_steps": TUNING_SHARE,
        "tuning_psnr": TUNING_PSNR,
        "select": given.select,
    }
    findings = {"claims": claims, "tuning": tuned}
    study.write(described, list(groups.values()), findings, tuning_runs)
    print(table(groups))
    for claim in claims:
        sign = "holds" if claim["holds"] else "does not hold"
        print(f"{claim['claim']}, {claim['score']}: {claim['difference']:+.2f}, {sign}")


if __name__ == "__main__":
    main()
