"""A quantizer that sizes itself against hand-chosen numbers of values.

    python -m studies.self_sizing [--quick] [--datasets=mini_shapes3d,dsprites]

`self_sizing` starts with twice as many latents as there are factors and four values in
each, refines them up to 16, and then drops latents while reconstructions stay as good
as after a quarter of the steps, and values while they stay as good as after three.
QLAE has the same latents and a `num_values` chosen by hand: four candidates on a seed
of their own, then the best of them (largest InfoM + InfoC) on the seeds of the study.
Both have the same networks, images and steps.

Goals, fixed before the runs: as many active latents as factors, give or take one, in
four of five seeds; value counts within one of the factor's own number for at least two
thirds of the factors (4 of 6), a factor's latent being that of the one-to-one matching
with the largest mutual information; InfoM and InfoC not below QLAE's; at most 1.3 times
its processor time. A goal is met, failed, or, where the interval of a paired
difference holds 0 and its mean is below, undecided.

The algorithm was developed on mini_shapes3d with other seeds (100 and up), never on
dSprites. That is the complete sub-grid of 46,080 images; without its file the study
leaves it out.
"""

import argparse
import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments.reporting.summary import FinishedRun, format_table
from experiments.storage.step_table import StepTable
from experiments.sweeps.plan import Trial, plan_sweep
from studies.dsprites import PREPARED, find_file
from studies.figures import new_figure
from studies.study import Study, StudySkippedError
from studies.summaries import as_text, paired_difference, spread, summarise
from studies.trials import QUICK, renamed

DATASETS = ("mini_shapes3d", "dsprites")
CANDIDATES = (4, 6, 10, 16)
SEEDS = {"mini_shapes3d": tuple(range(10)), "dsprites": tuple(range(5))}
TUNING_SEED = 110
STEPS = 4_000
SETTINGS: dict[str, Any] = {
    "steps": STEPS,
    "batch_size": 32,
    "evaluate_every": STEPS,
    "log_every": 200,
    "threads": 1,
    "select": "last",
    "psnr_threshold": None,
    "metrics": "fast",
}
SIZING: dict[str, Any] = {"warmup_steps": STEPS // 4}
_TINY = {**QUICK, "image_size": 16, "width": 0.125, "batch_size": 8}
_TINY |= {"evaluation_size": 200, "num_latents": 4}
_TINY_SIZING = {"warmup_steps": 1, "adapt_every": 1, "adaptation_size": 8}
SCORES = ("infomec/modularity", "infomec/compactness")
COLUMNS = {
    "sizes/active_latents": "active latents",
    "sizes/matched": "factors with a value count within one",
    "infomec/modularity": "InfoM",
    "infomec/compactness": "InfoC",
    "infomec/explicitness": "InfoE",
    "psnr/psnr": "PSNR (dB)",
    "time/ratio": "time, over QLAE's",
}
SLOWEST = 1.3
_HISTORY = "history.jsonl"


def settings_of(dataset: str, file: Path | None, quick: bool) -> dict[str, Any]:
    """Settings of all runs on a dataset."""
    settings = {**SETTINGS, **(_TINY if quick else {})}
    if dataset == "dsprites":
        settings["dataset_options"] = {"file": str(file), "allow_partial": True}
        settings["data_dir"] = str(PREPARED)
    return settings


def plan(
    dataset: str,
    method: str,
    seeds: Sequence[int],
    settings: Mapping[str, Any],
    **hyperparameters: Any,
) -> list[Trial]:
    """Trials of a method; names of folders show what was chosen by hand."""
    trials = plan_sweep(
        [method],
        [dataset],
        seeds,
        profile="cpu",
        settings=settings,
        hyperparameters=hyperparameters,
    )
    values = hyperparameters.get("num_values")
    return renamed(trials, f"values={values}") if values else trials


def tune(
    study: Study, dataset: str, settings: Mapping[str, Any]
) -> tuple[dict[str, Any], list[FinishedRun]]:
    """Chooses `num_values` of QLAE on a seed of its own."""
    candidates = CANDIDATES[:2] if study.quick else CANDIDATES
    trials = [
        plan(dataset, "qlae", [TUNING_SEED], settings, num_values=count)[0]
        for count in candidates
    ]
    runs = study.run(trials)
    tried = [
        {"num_values": count, **{name: run.metrics["scores"][name] for name in SCORES}}
        for count, run in zip(candidates, runs, strict=True)
    ]
    best = max(tried, key=lambda row: sum(row[name] for name in SCORES))
    return {"tried": tried, "chosen": best["num_values"], "seed": TUNING_SEED}, runs


def sizes_of(run: FinishedRun) -> list[int]:
    """Values of each latent; 1 for one that is constant on the evaluation set."""
    found = run.metrics["results"]
    active = found["infomec"]["active"]
    if "sizes" in found:
        sizes = found["sizes"]["sizes"]
    else:
        sizes = [run.config.hyperparameters["num_values"]] * len(active)
    return [int(n) if on else 1 for n, on in zip(sizes, active, strict=True)]


def matched_sizes(nmi: Any, sizes: Sequence[int]) -> list[int]:
    """The size of each factor's latent in the matching with the most information.

    Args:
        nmi: (n_s, n_z) normalised mutual information.
        sizes: Values of each latent; those with 1 are not matched.

    Returns:
        A size for each factor; 1 if no latent is left for it.
    """
    from scipy.optimize import linear_sum_assignment

    shares = np.nan_to_num(np.asarray(nmi, float))
    shares[:, np.asarray(sizes) < 2] = 0.0
    rows, columns = linear_sum_assignment(-shares)
    found = [1] * len(shares)
    for row, column in zip(rows, columns, strict=True):
        if shares[row, column] > 0:
            found[row] = int(sizes[column])
    return found


def scores_of(run: FinishedRun, factor_sizes: Sequence[int]) -> dict[str, Any]:
    """What the study adds to a run's scores."""
    sizes = sizes_of(run)
    matched = matched_sizes(run.metrics["results"]["infomec"]["nmi"], sizes)
    near = [abs(a - b) <= 1 for a, b in zip(matched, factor_sizes, strict=True)]
    return {
        "sizes/active_latents": float(sum(size > 1 for size in sizes)),
        "sizes/matched": float(sum(near)),
        **{f"sizes/factor_{i}": float(size) for i, size in enumerate(matched)},
    }


def with_time(group: dict[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """The group with its processor time over that of the same seeds of another."""
    theirs = {row["seed"]: row["cpu_seconds"] for row in other["runs"]}
    ratios = []
    for row in group["runs"]:
        row["scores"]["time/ratio"] = row["cpu_seconds"] / theirs[row["seed"]]
        ratios.append(row["scores"]["time/ratio"])
    scores = {**group["scores"], "time/ratio": spread(ratios)}
    return {**group, "scores": scores}


def judge(
    ours: Mapping[str, Any], theirs: Mapping[str, Any], factor_sizes: Sequence[int]
) -> list[dict[str, Any]]:
    """A verdict on each goal."""
    rows = [row["scores"] for row in ours["runs"]]
    count, factors = len(rows), len(factor_sizes)
    near = sum(abs(row["sizes/active_latents"] - factors) <= 1 for row in rows)
    enough = int(np.ceil(factors * 2 / 3))
    right = sum(row["sizes/matched"] >= enough for row in rows)
    verdicts = [
        _goal(
            f"{factors} ± 1 active latents in 4 of 5 seeds",
            f"{near} of {count} seeds",
            near >= 0.8 * count,
        ),
        _goal(
            f"value counts within one for {enough} of {factors} factors in 4 of 5 "
            "seeds",
            f"{right} of {count} seeds",
            right >= 0.8 * count,
        ),
    ]
    for name in SCORES:
        found = paired_difference(ours, theirs, name)
        width = found["half_width"] or float("inf")
        met = found["mean"] >= 0
        goal = _goal(f"{COLUMNS[name]} not below QLAE's", as_text(found), met)
        if not met and found["mean"] + width > 0:
            goal["verdict"] = "undecided"
        verdicts.append(goal)
    ratio = ours["scores"]["time/ratio"]
    met = ratio["mean"] <= SLOWEST
    verdicts.append(_goal(f"at most {SLOWEST} x the time", as_text(ratio), met))
    return verdicts


def _goal(goal: str, found: str, met: bool) -> dict[str, Any]:
    return {"goal": goal, "found": found, "verdict": "met" if met else "failed"}


def draw(study: Study, rows: Mapping[str, Sequence[Sequence[Any]]]) -> None:
    """Active latents and values left over training, a line for each seed."""
    figure, axes = new_figure(len(rows), 2, 3.0)
    figure.set_figwidth(9)
    drawn = {
        "quantizer_active_latents": "active latents",
        "quantizer_values_left": "values of all active latents",
    }
    for line, (dataset, runs) in zip(axes, rows.items(), strict=True):
        for axis, (name, title) in zip(line, drawn.items(), strict=True):
            for run in runs:
                steps = [row["step"] for row in run]
                axis.plot(steps, [row[name] for row in run], lw=1, alpha=0.7)
            axis.set(title=f"{dataset}: {title}", xlabel="step", ylim=(0, None))
            axis.title.set_fontsize(9)
            axis.grid(alpha=0.3)
    figure.tight_layout()
    study.save_figure(figure, study.name)


def study_dataset(
    study: Study, dataset: str, settings: Mapping[str, Any], seeds: Sequence[int]
) -> dict[str, Any]:
    """All runs on a dataset: groups, verdicts, what was tuned."""
    tuned, tuning_runs = tune(study, dataset, settings)
    sizing = {**SIZING, **(_TINY_SIZING if study.quick else {})}
    planned = {
        "self-sizing": plan(dataset, "self_sizing", seeds, settings, **sizing),
        f"QLAE, {tuned['chosen']} values": plan(
            dataset, "qlae", seeds, settings, num_values=tuned["chosen"]
        ),
    }
    runs = paired(study.run_by_seed(planned))
    factor_sizes = factor_sizes_of(runs["self-sizing"][0])
    groups = {
        label: summarise(
            f"{dataset}, {label}", found, [scores_of(r, factor_sizes) for r in found]
        )
        for label, found in runs.items()
    }
    ours, theirs = groups.values()
    ours, theirs = with_time(ours, theirs), with_time(theirs, theirs)
    return {
        "groups": [ours, theirs],
        "tuning": tuned,
        "tuning_runs": tuning_runs,
        "factor_sizes": list(factor_sizes),
        "verdicts": judge(ours, theirs, factor_sizes),
        "history": [StepTable(r.path / _HISTORY).read() for r in runs["self-sizing"]],
    }


def paired(runs: Mapping[str, list[FinishedRun]]) -> dict[str, list[FinishedRun]]:
    """Runs of the seeds that no method lost to divergence."""
    seeds = set.intersection(*({r.config.seed for r in row} for row in runs.values()))
    return {
        label: [run for run in row if run.config.seed in seeds]
        for label, row in runs.items()
    }


def factor_sizes_of(run: FinishedRun) -> tuple[int, ...]:
    """Numbers of values of the factors of a run's dataset."""
    from experiments.running.setup import load_dataset

    return tuple(int(size or 0) for size in load_dataset(run.config).factor_sizes)


def sizing_table(record: Mapping[str, Any]) -> str:
    """Scores, value counts of each factor, and the verdicts."""
    parts = []
    for dataset, found in record["findings"].items():
        groups = [g for g in record["groups"] if g["label"].startswith(dataset)]
        sizes = ", ".join(map(str, found["factor_sizes"]))
        heads = ["method", "runs", *COLUMNS.values(), f"values ({sizes})"]
        rows = [
            [
                group["label"],
                str(len(group["runs"])),
                *(as_text(group["scores"][name]) for name in COLUMNS),
                ", ".join(
                    f"{group['scores'][f'sizes/factor_{i}']['mean']:.1f}"
                    for i in range(len(found["factor_sizes"]))
                ),
            ]
            for group in groups
        ]
        tried = ", ".join(
            f"{row['num_values']}: {row[SCORES[0]]:.2f} and {row[SCORES[1]]:.2f}"
            for row in found["tuning"]["tried"]
        )
        goals = [[g["goal"], g["found"], g["verdict"]] for g in found["verdicts"]]
        parts += [
            format_table(heads, rows),
            f"`num_values` of QLAE by hand, one run each (InfoM and InfoC): {tried}.",
            format_table(["goal", "found", "verdict"], goals),
        ]
    return "\n\n".join(parts)


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--file", type=Path, help="the dSprites sub-grid")
    parser.add_argument(
        "--datasets", type=lambda text: text.split(","), default=list(DATASETS)
    )
    parser.add_argument("--seeds", type=int, default=10, help="how many at most")


def main(arguments: Sequence[str] | None = None) -> None:
    description = "A quantizer that sizes itself against hand-chosen sizes."
    study = Study.from_arguments("self_sizing", description, arguments, _add_options)
    study = dataclasses.replace(study, keeps_scores=True, keeps=(_HISTORY,))
    given = study.options
    count = 2 if study.quick else given.seeds
    found: dict[str, Any] = {}
    for dataset in given.datasets:
        file = None
        try:
            file = find_file(given.file) if dataset == "dsprites" else None
        except StudySkippedError as reason:
            print(f"Left out: {reason}")
            continue
        settings = settings_of(dataset, file, study.quick)
        seeds = SEEDS[dataset][:count]
        found[dataset] = study_dataset(study, dataset, settings, seeds)
        # After each dataset: what is finished is on the page.
        finish(study, found)


def finish(study: Study, found: Mapping[str, Any]) -> None:
    """Picture, record and table of the datasets that are finished."""
    draw(study, {dataset: part["history"] for dataset, part in found.items()})
    findings = {
        dataset: {name: part[name] for name in ("tuning", "factor_sizes", "verdicts")}
        for dataset, part in found.items()
    }
    settings = {
        "question": "Does a quantizer that sizes itself find as many latents and "
        "values as there are factors and values, without loss of modularity?",
        "profile": "cpu",
        "seeds": {dataset: list(SEEDS[dataset]) for dataset in found},
        "settings": SETTINGS,
        "sizing": SIZING,
        "candidates": list(CANDIDATES),
    }
    groups = [group for part in found.values() for group in part["groups"]]
    tuning_runs = [run for part in found.values() for run in part["tuning_runs"]]
    study.write(settings, groups, findings, tuning_runs)
    print(sizing_table({"groups": groups, "findings": findings}))


if __name__ == "__main__":
    main()
