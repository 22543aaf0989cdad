"""Cliff against IOSS on synthetic data (Barin-Pacela et al. 2025, section 3.1).

    python -m studies.cliff_synthetic [--quick]

An encoder alone is trained on x = B tanh(0.5 A z), where the density of z has steps
along its axes. The score is how well its outputs correlate with z (MCC). Settings are
those of the paper's appendix F.2: 5,000 points, one batch, 1,000 epochs, learning rate
0.002.

The paper gives neither A and B nor the grid of its ten datasets. The study therefore
measures three kinds of data, each with datasets of its own (grid, A, B and points by
seed):

- `random`: 3 x 4 cells with random probabilities, the default grid of the generator
  that the paper builds on. A and B are standard normal, drawn again until their
  condition number is below 5.
- `gentle`: the same with condition numbers below 2, which bends the data less.
- `correlated`: 4 x 4 cells of which those on the diagonal are likely (correlation
  about 0.6, the predecessor's "factorised support"), condition numbers below 5.

Besides the MCC of ranks (Spearman, what the paper uses elsewhere) the linear one
(Pearson) is given: the paper does not say which its 94.1 is. The criterion's value at
the encoder's outputs is set beside its value at the true sources and at their ranks,
which have the uniform marginals that the criterion asks for. That tells two failures
apart: a value above that of the true sources is a local minimum, one below shows that
the criterion itself prefers another solution.

As some starts end in a local minimum, each of the ten datasets is also trained from two
more initial networks, and of the three runs the one with the least loss counts, which
needs no labels ("best of 3 starts").
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from experiments.reporting.summary import FinishedRun
from experiments.storage.run_directory import RunDirectory
from experiments.sweeps.plan import Trial, plan_sweep
from studies.common import (
    QUICK,
    Study,
    encode,
    new_figure,
    paired_difference,
    renamed,
    run_here,
    summarise,
)

METHODS = {"cliff": "Cliff", "ioss": "IOSS"}
PAPER = {"cliff": {"mcc": 0.941, "standard_error": 0.009}}
PAPER["ioss"] = {"mcc": 0.916, "standard_error": 0.008}
KINDS: dict[str, dict[str, Any]] = {
    "random": {"preset": "random", "max_condition": 5.0},
    "gentle": {"preset": "random", "max_condition": 2.0},
    "correlated": {"preset": "factorised", "max_condition": 5.0},
}
SEEDS = {"random": range(10), "gentle": range(3), "correlated": range(3)}
# IOSS draws 10,000 points by default: 230 s a run instead of 30, to the same score
# (0.97 on a dataset that is not among the ten).
HYPERPARAMETERS: dict[str, dict[str, Any]] = {
    "cliff": {},
    "ioss": {"num_samples": 1000},
}
FURTHER_STARTS = (1_000, 2_000)  # added to the seed of a dataset
SETTINGS = {"threads": 1, "evaluate_every": 500, "log_every": 50}
_TINY = {**QUICK, "batch_size": 100, "evaluation_size": 200}
_POINTS = 5_000
_CONDITIONS = 200


def plan(quick: bool = False, start: int = 0) -> dict[tuple[str, str], list[Trial]]:
    """Trials by kind of data and method, a dataset of its own for each seed.

    Args:
        quick: Whether to plan the tiny version.
        start: Added to the seed of the networks; other than 0 for `random` alone.
    """
    settings = {**SETTINGS, **(_TINY if quick else {})}
    kinds = list(KINDS)[:1] if quick or start else list(KINDS)
    trials: dict[tuple[str, str], list[Trial]] = {}
    for kind in kinds:
        for method in METHODS:
            trials[kind, method] = []
            for seed in range(2) if quick else SEEDS[kind]:
                options = {**KINDS[kind], "data_seed": seed}
                if quick:
                    options["num_images"] = 200
                planned = plan_sweep(
                    [method],
                    ["grid2d"],
                    [seed + start],
                    settings={**settings, "dataset_options": options},
                    hyperparameters=HYPERPARAMETERS[method],
                )
                trials[kind, method] += renamed(planned, kind)
    return trials


def last_loss(run: FinishedRun) -> float:
    """Mean loss of the last steps of a run."""
    return float(RunDirectory(run.path).history.read()[-1]["loss"])


def best_starts(
    study: Study, runs: Mapping[tuple[str, str], Sequence[FinishedRun]]
) -> tuple[dict[str, dict[str, Any]], list[FinishedRun]]:
    """Trains the further starts of the first kind; the least loss of each dataset.

    Returns:
        A group for each method, and the further runs.
    """
    kind = next(iter(KINDS))
    planned = [plan(study.quick, start) for start in FURTHER_STARTS]
    flat = [t for trials in planned for row in trials.values() for t in row]
    found = study.run(flat, start=run_here)
    left = iter(found)
    further = [{m: [next(left) for _ in p[kind, m]] for m in METHODS} for p in planned]
    groups = {}
    for method, label in METHODS.items():
        starts = zip(runs[kind, method], *(f[method] for f in further), strict=True)
        best = [min(of_dataset, key=last_loss) for of_dataset in starts]
        group = summarise(label, best, [further_scores(run) for run in best])
        for row, run in zip(group["runs"], best, strict=True):
            row["start"] = row["seed"]
            row["seed"] = run.config.dataset_options["data_seed"]
        count = 1 + len(FURTHER_STARTS)
        groups[method] = {
            **group,
            "label": f"{label}, best of {count} starts",
            "kind": kind,
        }
    return groups, found


def further_scores(run: FinishedRun) -> dict[str, float]:
    """Pearson's MCC, the criterion's values, and what the observations score."""
    from qlayers.metrics import mcc

    sources, images, latents = encode(run, _POINTS)
    ranks = sources.argsort(0).argsort(0) / len(sources)
    return {
        "mcc/pearson": float(mcc(sources, latents, correlation="pearson")),
        "mcc/observations": float(mcc(sources, images)),
        "criterion/reached": criterion(latents),
        "criterion/true_sources": criterion(sources),
        "criterion/true_ranks": criterion(ranks),
        "sources/correlation": float(abs(np.corrcoef(sources.T)[0, 1])),
    }


def criterion(latents: np.ndarray) -> float:
    """Cliff's loss with the study's weights, on fixed conditions and an even grid."""
    from qlayers.functional import cliff_terms

    limit = np.sqrt(3.0)
    values = cliff_terms(
        latents.astype("float32"),
        conditions=np.arange(min(_CONDITIONS, len(latents))),
        uniform_points=np.linspace(-limit, limit, 100, dtype="float32"),
        terms=["bivariate", "uniform"],
    )
    return float(values["bivariate"]) + float(values["uniform"])


def compare(groups: Mapping[tuple[str, str], dict[str, Any]]) -> dict[str, Any]:
    """For each kind: both methods beside the paper, and their paired difference."""
    found: dict[str, Any] = {}
    for kind in dict.fromkeys(kind for kind, _ in groups):
        found[kind] = {
            f"cliff_minus_ioss/{name}": paired_difference(
                groups[kind, "cliff"], groups[kind, "ioss"], f"mcc/{name}"
            )
            for name in ("mcc", "pearson")
        }
        rows = groups[kind, "cliff"]["runs"]
        values = [row["scores"] for row in rows]
        found[kind]["cliff_runs_below_0.9"] = sum(v["mcc/mcc"] < 0.9 for v in values)
        found[kind]["of_those_local_minima"] = sum(
            v["mcc/mcc"] < 0.9 and v["criterion/reached"] > v["criterion/true_ranks"]
            for v in values
        )
    return {"paper": PAPER, **found}


def draw(
    study: Study, kind: str, runs: Mapping[tuple[str, str], Sequence[FinishedRun]]
) -> None:
    """True sources, observations and both methods' latents, a row for each dataset."""
    pairs = list(zip(runs[kind, "cliff"], runs[kind, "ioss"], strict=True))[:5]
    figure, axes = new_figure(len(pairs), 4)
    for row, (ours, theirs) in zip(axes, pairs, strict=True):
        sources, images, cliff = encode(ours, _POINTS)
        _, _, ioss = encode(theirs, _POINTS)
        colour = _colours(sources)
        titles = [
            "true sources",
            "observations",
            f"Cliff, MCC {100 * ours.metrics['scores']['mcc/mcc']:.1f}",
            f"IOSS, MCC {100 * theirs.metrics['scores']['mcc/mcc']:.1f}",
        ]
        for axis, points, title in zip(
            row, (sources, images, cliff, ioss), titles, strict=True
        ):
            axis.scatter(*points.T, s=1.5, c=colour, linewidths=0)
            axis.set_title(title, fontsize=9)
            axis.tick_params(labelsize=6)
        row[0].set_ylabel(f"dataset {ours.config.seed}", fontsize=9)
    figure.tight_layout()
    study.save_figure(figure, f"cliff_synthetic_{kind}")


def _colours(sources: np.ndarray) -> np.ndarray:
    """Red by the first source, blue by the second."""
    unit = (sources - sources.min(0)) / np.ptp(sources, axis=0)
    green = np.full(len(unit), 0.25)
    return np.stack([unit[:, 0], green, unit[:, 1]], axis=1)


def main(arguments: Sequence[str] | None = None) -> None:
    description = "Cliff against IOSS on grids of cells."
    study = Study.from_arguments("cliff_synthetic", description, arguments)
    planned = plan(study.quick)
    # A run takes half a minute, so a process for each would cost as much again.
    flat = [trial for trials in planned.values() for trial in trials]
    finished = iter(study.run(flat, start=run_here))
    runs = {key: [next(finished) for _ in trials] for key, trials in planned.items()}
    groups = {
        (kind, method): {
            **summarise(METHODS[method], found, [further_scores(run) for run in found]),
            "kind": kind,
        }
        for (kind, method), found in runs.items()
    }
    for kind in dict.fromkeys(kind for kind, _ in runs):
        draw(study, kind, runs)
    settings = {
        "question": "Does Cliff find axis-aligned sources better than IOSS?",
        "kinds": KINDS,
        "seeds": {kind: list(seeds) for kind, seeds in SEEDS.items()},
        "hyperparameters": HYPERPARAMETERS,
        "batches": "5,000 points drawn from the dataset with replacement",
    }
    best, further = best_starts(study, runs)
    findings = compare(groups)
    # Not among the groups, whose times are added up: these runs are no new ones.
    findings["best_starts"] = {
        **best,
        **{
            f"cliff_minus_ioss/{name}": paired_difference(
                best["cliff"], best["ioss"], f"mcc/{name}"
            )
            for name in ("mcc", "pearson")
        },
    }
    study.write(settings, list(groups.values()), findings, further)
    report([*groups.values(), *best.values()])


def report(groups: Sequence[Mapping[str, Any]]) -> None:
    """Prints the table."""
    for group in groups:
        texts = []
        for name in ("mcc", "pearson"):
            value = group["scores"][f"mcc/{name}"]
            mean, error = 100 * value["mean"], 100 * (value["standard_error"] or 0)
            texts.append(f"{name} {mean:.1f} ± {error:.1f}")
        named = f"{group['kind']:<11} {group['label']:<24}"
        print(f"{named} {', '.join(texts)} (standard errors)")
    print("paper       Cliff 94.1 ± 0.9, IOSS 91.6 ± 0.8")


if __name__ == "__main__":
    main()
