"""All methods on mini_shapes3d (tables 1 of QLAE, Tripod and FactorQVAE in spirit).

    python -m studies.leaderboard [--quick] [--regime=long] [--seeds=0,1,2,3,4]
        ["--entries=AE;QLAE, ten values"] [--select=last] [--no_tune] [--finished]

Every method starts from its row of the `cpu` profile (`settings/recipes_cpu.py`), with
the same number of steps and the same share of its batch. A GAN, whose step has several
updates, sees as many images in regime `long`; in `short` it makes half as many steps.
Regime `long` has the budget of `claims.json`, in which AE and QLAE learn; `short` is a
quick look with a tenth of its images.

1. Tuning: the key weight of each method (`leaderboard_entries.py`) is chosen on a seed
   of its own, in both regimes with 1,500 steps of half a batch; what the record of
   regime `short` chose for the same row is taken from there. Of the candidates
   that reach a reconstruction at which hues and places are plain to see, the one with
   the best InfoM wins; if none does, the best PSNR. GANs do not copy images: the best
   InfoM. Ablations take the value of the method they ablate.
2. Scores: the chosen setting on the other seeds, after the last step (no checkpoint is
   picked by its score); InfoMEC, DCI, PSNR with 95 % t-intervals. Rows that a claim
   needs have all seeds, the others three. All methods of one seed run before the next
   seed.
3. Claims: those of `claims.json`, frozen before the runs, by its rule.

`--no_tune` takes the recipes' weights. Both phases are trials of one sweep in one
folder: the same command again goes on, and more seeds or entries only add runs. What a
finished run scored is also kept in `studies/results/runs`, so that a study goes on
from a fresh clone. `--finished` trains nothing and writes the record of what is there.
With `--entries` the record also holds the other rows of which three seeds are there.
"""

import argparse
import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments.reporting.summary import FinishedRun
from experiments.settings import scores
from experiments.settings.config import resolve
from experiments.settings.recipes_cpu import CPU_PSNR_THRESHOLDS
from experiments.storage.files import read_json
from experiments.sweeps.plan import Trial, plan_sweep
from studies.claims import Claim, frozen_seeds, judge, load_claims
from studies.leaderboard_entries import ENTRIES, SHORT_ENTRIES, Entry
from studies.leaderboard_pictures import draw_matrices, draw_scores
from studies.statistics import interquartile_mean, stratified_bootstrap
from studies.study import Study
from studies.summaries import score_table, summarise
from studies.trials import renamed

DATASET = "mini_shapes3d"
TUNING_STEPS = 1_500
TUNING_BATCH_SHARE = 0.5
TUNING_PSNR = 18.0  # in dB; candidates below it are chosen by PSNR
TUNING_SEED = 100
SEEDS_WITHOUT_CLAIM = 3


@dataclasses.dataclass(frozen=True)
class Regime:
    """A budget, and the rows that are trained with it.

    Attributes:
        name: Name of the record.
        steps: Training steps.
        batch_share: Share of the recipe's batch.
        seeds: Seeds of the final runs.
        entries: The rows.
        claims: What the rows may confirm.
        steps_per_call: Steps in a compiled call. More than one is bit-equal to one; at
            10 the host's part of a step falls from 3 ms to 1.
        gan_share: Share of the steps that a GAN makes.
    """

    name: str
    steps: int
    batch_share: float
    seeds: tuple[int, ...]
    entries: tuple[Entry, ...]
    claims: tuple[Claim, ...]
    steps_per_call: int = 1
    gan_share: float = 0.5


_SHORT_CLAIMS = (
    ("qlae", "QLAE", "AE", "infomec/modularity", 0.25),
    ("tripod", "Tripod", "QLAE", "infomec/modularity", 0.0),
    ("tripod", "Tripod", "QLAE", "infomec/compactness", 0.0),
    ("tripod", "Tripod", "naive Tripod", "infomec/modularity", 0.0),
    ("tripod", "Tripod", "Tripod, no NHP", "infomec/modularity", 0.0),
    ("tripod", "Tripod", "Tripod, no KLM", "infomec/modularity", 0.0),
    ("qlae", "QLAE", "QLAE, no weight decay", "infomec/modularity", 0.0),
    ("qlae", "QLAE", "VQ-VAE", "infomec/modularity", 0.0),
    ("qlae", "QLInfoWGAN-GP", "InfoWGAN-GP", "infomec/modularity", 0.0),
    ("factor_qvae", "FactorQVAE", "QVAE", "dci/disentanglement", 0.0),
    ("friede", "FactorDVAE", "D-VAE", "mig/mig", 0.0),
)
SHORT = Regime(
    "leaderboard_short",
    steps=2_500,
    batch_share=0.5,
    seeds=(0, 1, 2),
    entries=SHORT_ENTRIES,
    claims=tuple(
        Claim(
            f"{first} > {second}", paper, "", "", first, second, score, "above", least
        )
        for paper, first, second, score, least in _SHORT_CLAIMS
    ),
)
LONG = Regime(
    "leaderboard",
    steps=12_000,
    batch_share=1.0,
    seeds=frozen_seeds("leaderboard"),
    entries=ENTRIES,
    claims=tuple(load_claims("leaderboard")),
    steps_per_call=10,
    gan_share=64 / 80,  # its batch is 80 where the others' is 64
)
REGIMES = {"short": SHORT, "long": LONG}
THRESHOLD = CPU_PSNR_THRESHOLDS[DATASET]
COLUMNS = {
    score: heading
    for score, heading in scores.COLUMNS.items()
    if score.startswith(("infomec/", "dci/", "psnr/psnr"))
}
_LOG_EVERY = 50
QUICK = {"image_size": 16, "width": 0.125, "evaluation_size": 200, "metrics": "fast"}
_QUICK_STEPS = 2


def settings_of(
    entry: Entry,
    steps: int,
    batch_share: float,
    select: str,
    quick: bool,
    gan_share: float = 0.5,
) -> dict[str, Any]:
    """Settings of a run, beside the recipe's."""
    if entry.is_adversarial:
        steps = max(1, round(steps * gan_share))
    log_every = min(_LOG_EVERY, steps)
    evaluations = 1 if select == "last" else 8
    settings: dict[str, Any] = {
        "steps": steps,
        "log_every": log_every,
        "evaluate_every": max(1, steps // evaluations // log_every) * log_every,
        "batch_size": round(batch_share * _recipe_batch(entry)),
        "threads": 1,
    }
    if select == "last" or (select == "infom" and entry.is_adversarial):
        settings |= {"select": "last", "psnr_threshold": None}
    elif select == "infom":
        settings |= {"select": "infom", "psnr_threshold": THRESHOLD}
    return settings | (QUICK if quick else {})


def final_settings(
    entry: Entry, regime: Regime, select: str = "last", quick: bool = False
) -> dict[str, Any]:
    """Settings of a row's final runs, beside the recipe's.

    Args:
        entry: The row.
        regime: The budget.
        select: The checkpoint that is scored.
        quick: Whether to make the run tiny.
    """
    steps = _QUICK_STEPS if quick else regime.steps
    share = regime.gan_share
    settings = settings_of(entry, steps, regime.batch_share, select, quick, share)
    return settings | {"steps_per_call": regime.steps_per_call}


def seeds_of(entry: Entry, claims: Sequence[Claim], seeds: Sequence[int]) -> list[int]:
    """All seeds for a row that a claim names, the first three for another.

    Args:
        entry: The row.
        claims: The claims.
        seeds: All seeds.
    """
    is_claimed = any(entry.label in (claim.first, claim.second) for claim in claims)
    return list(seeds)[: None if is_claimed else SEEDS_WITHOUT_CLAIM]


def _recipe_batch(entry: Entry) -> int:
    return resolve(entry.method, DATASET, "cpu").batch_size


def plan_entry(
    entry: Entry,
    seeds: Sequence[int],
    settings: Mapping[str, Any],
    value: float | None,
    prefix: str,
    shared: Mapping[str, Any] | None = None,
    dataset: str = DATASET,
) -> list[Trial]:
    """Trials of a row with one value of its key weight; None leaves the recipe's."""
    chosen = dict(shared or {})
    if value is not None and entry.key is not None:
        chosen[entry.key] = value
    trials = plan_sweep(
        [entry.method],
        [dataset],
        seeds,
        profile="cpu",
        settings=settings,
        hyperparameters={**chosen, **entry.fixed},
    )
    details = [f"{k}={v}" for k, v in {**chosen, **entry.fixed}.items()]
    return renamed(trials, "-".join([prefix, *details]))


def choose(
    entry: Entry, runs: Mapping[float, FinishedRun], tuning_psnr: float = TUNING_PSNR
) -> float:
    """The candidate whose tuning run is best, see the module's text.

    Args:
        entry: The row.
        runs: Tuning run of each candidate.
        tuning_psnr: In dB; candidates below it are chosen by PSNR.
    """
    found = {value: run.metrics["scores"] for value, run in runs.items()}
    quality = {v: s.get("psnr/psnr", float("-inf")) for v, s in found.items()}
    modularity = {v: s["infomec/modularity"] for v, s in found.items()}
    if entry.is_adversarial:
        return max(modularity, key=modularity.__getitem__)
    passing = [value for value in found if quality[value] >= tuning_psnr]
    if passing:
        return max(passing, key=modularity.__getitem__)
    return max(quality, key=quality.__getitem__)


def recorded_choices(path: Path, entries: Sequence[Entry]) -> dict[str, Any]:
    """What the record of regime `short` chose for rows that differ in their name alone.

    A row with other fixed or shared weights was not tried there.

    Args:
        path: The record.
        entries: The rows.
    """
    if not path.exists():
        return {}
    found = read_json(path)["findings"]["tuning"]
    chosen = {}
    for entry in entries:
        for tried in SHORT_ENTRIES:
            is_same = dataclasses.replace(tried, label=entry.label) == entry
            if is_same and _was_tried(tried, found):
                chosen[entry.label] = {**found[tried.label], "record": path.stem}
    return chosen


def _was_tried(entry: Entry, found: Mapping[str, Any]) -> bool:
    """Whether the record has these very candidates."""
    row = found.get(entry.label, {"key": None, "candidates": []})
    values = [candidate["value"] for candidate in row["candidates"]]
    return (row["key"], values) == (entry.key, list(entry.candidates))


def tune(
    study: Study, entries: Sequence[Entry], found: dict[str, Any]
) -> list[FinishedRun]:
    """Runs the candidates of all rows (two with `--quick`) and chooses.

    Rows that share another's weight come after it.

    Args:
        study: The study.
        entries: The rows.
        found: Chosen value and all scores by label; rows that are not in it are added.

    Returns:
        The tuning runs.
    """
    runs: list[FinishedRun] = []
    left = [e for e in entries if e.candidates and e.label not in found]
    for shares in (False, True):
        some = [e for e in left if (e.shares is not None) == shares]
        runs += _tune(study, some, found)
    return runs


def tuning_trials(
    study: Study, entry: Entry, found: Mapping[str, Any]
) -> dict[float, Trial]:
    """The run of each candidate of a row.

    Args:
        study: The study.
        entry: The row.
        found: What was chosen for the rows before it.
    """
    settings = settings_of(
        entry,
        1 if study.quick else TUNING_STEPS,
        TUNING_BATCH_SHARE,
        study.options.select,
        study.quick,
    )
    shared = _shared(entry, found)
    return {
        value: plan_entry(entry, [TUNING_SEED], settings, value, "tune", shared)[0]
        for value in entry.candidates[: 2 if study.quick else None]
    }


def _is_tuned(study: Study, entry: Entry, found: Mapping[str, Any]) -> bool:
    """Whether no run is left to choose a row's weight."""
    if entry.label in found or not entry.candidates:
        return True
    trials = list(tuning_trials(study, entry, found).values())
    return study.finished({entry.label: trials}) == {entry.label: trials}


def _tune(
    study: Study, entries: Sequence[Entry], found: dict[str, Any]
) -> list[FinishedRun]:
    planned = {
        (entry.label, value): trial
        for entry in entries
        for value, trial in tuning_trials(study, entry, found).items()
    }
    runs = study.run(list(planned.values()))
    finished = {run.path.name: run for run in runs}
    for entry in entries:
        tried = {
            value: finished[trial.name]
            for (label, value), trial in planned.items()
            if label == entry.label and trial.name in finished
        }
        if not tried:
            raise RuntimeError(f"All candidates of {entry.label} diverged.")
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
    return runs


def _shared(entry: Entry, tuned: Mapping[str, Any]) -> dict[str, Any]:
    """The weight of another row that this one has too."""
    if entry.shares is None or entry.shares not in tuned:
        return {}
    return {tuned[entry.shares]["key"]: tuned[entry.shares]["chosen"]}


def plan_rows(
    study: Study,
    regime: Regime,
    entries: Sequence[Entry],
    tuned: Mapping[str, Any],
    seeds: Sequence[int],
) -> dict[str, list[Trial]]:
    """The final runs by label.

    Args:
        study: The study.
        regime: The budget.
        entries: The rows.
        tuned: Chosen weights by label; a row that has none takes the recipe's.
        seeds: All seeds.
    """
    planned = {}
    for entry in entries:
        value = tuned.get(entry.parent or entry.label, {}).get("chosen")
        settings = final_settings(entry, regime, study.options.select, study.quick)
        own_seeds = seeds_of(entry, regime.claims, seeds)
        planned[entry.label] = plan_entry(
            entry, own_seeds, settings, value, "final", _shared(entry, tuned)
        )
    return planned


def table(groups: Mapping[str, Mapping[str, Any]]) -> str:
    """Rows by InfoM, best first, with the interquartile mean of InfoM beside."""
    ordered = by_modularity(groups.values())
    return score_table(ordered, COLUMNS, {"InfoM, IQM": middle_modularity})


def by_modularity(groups: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Groups by their mean InfoM, best first."""
    return sorted(groups, key=lambda g: -g["scores"]["infomec/modularity"]["mean"])


def middle_modularity(group: Mapping[str, Any]) -> str:
    """Interquartile mean of a row's InfoM with its bootstrap interval."""
    values = [row["scores"]["infomec/modularity"] for row in group["runs"]]
    low, high = stratified_bootstrap(interquartile_mean, [values])
    return f"{interquartile_mean(values):.2f} [{low:.2f}, {high:.2f}]"


@dataclasses.dataclass
class _Work:
    """What is tuned and run of a study, in one go or in several.

    Attributes:
        study: The study.
        regime: The budget.
        seeds: All seeds.
        tuned: Chosen weights by label.
        tuning_runs: The runs they were chosen by.
    """

    study: Study
    regime: Regime
    seeds: Sequence[int]
    tuned: dict[str, Any] = dataclasses.field(default_factory=dict)
    tuning_runs: list[FinishedRun] = dataclasses.field(default_factory=list)

    def run(
        self, entries: Sequence[Entry], finished: bool, fewest: int = 1
    ) -> dict[str, list[FinishedRun]]:
        """The runs of rows by label.

        Args:
            entries: The rows.
            finished: Whether to train nothing and take what is there.
            fewest: Rows of which fewer seeds are there are then left out.
        """
        if not self.study.options.no_tune:
            self._tune(entries, finished)
        planned = plan_rows(self.study, self.regime, entries, self.tuned, self.seeds)
        if finished:
            there = self.study.finished(planned)
            planned = {k: v for k, v in there.items() if len(v) >= fewest}
        return self.study.run_by_seed(planned)

    def _tune(self, entries: Sequence[Entry], finished: bool) -> None:
        study, regime = self.study, self.regime
        needed = {label for e in entries for label in (e.parent, e.shares)}
        wanted = [e for e in regime.entries if e in entries or e.label in needed]
        if regime is LONG and not study.quick:
            record = study.results / f"{SHORT.name}.json"
            self.tuned |= recorded_choices(record, wanted)
        if finished:
            wanted = [e for e in wanted if _is_tuned(study, e, self.tuned)]
        self.tuning_runs += tune(study, wanted, self.tuned)


def _add_options(parser: argparse.ArgumentParser) -> None:
    known = list(dict.fromkeys(e.label for r in REGIMES.values() for e in r.entries))

    def labels(text: str) -> list[str]:
        chosen = text.split(";")  # a label may hold a comma itself
        unknown = [label for label in chosen if label not in known]
        if unknown:
            raise argparse.ArgumentTypeError(f"unknown: {unknown}; known: {known}")
        return chosen

    parser.add_argument("--regime", choices=tuple(REGIMES), default="long")
    parser.add_argument("--seeds", type=lambda text: list(map(int, text.split(","))))
    parser.add_argument("--entries", type=labels, help="labels; default: all")
    parser.add_argument(
        "--select",
        choices=("recipe", "last", "infom"),
        default="last",
        help="checkpoint that is scored; recipe: as the method's paper does it",
    )
    parser.add_argument("--no_tune", action="store_true", help="the recipes' weights")
    parser.add_argument(
        "--finished", action="store_true", help="records what is there, trains nothing"
    )


def main(
    arguments: Sequence[str] | None = None,
    name: str | None = None,
    seeds: Sequence[int] | None = None,
    rows: Sequence[str] | None = None,
) -> None:
    """Runs the study.

    Args:
        arguments: Arguments of the command line.
        name: Name of the record; by default the regime's.
        seeds: Seeds to use if the arguments name none; by default the regime's.
        rows: Labels to use if the arguments name none; None for all.
    """
    description = "All methods on mini_shapes3d."
    study = Study.from_arguments("leaderboard", description, arguments, _add_options)
    given = study.options
    regime = REGIMES[given.regime]
    command = f"python -m studies.{name}" if name else study.command
    if not name and regime is SHORT:
        command += " --regime=short"
    study = study.named(name or regime.name, regime.name, command).keeping_scores()
    seeds = given.seeds or list(seeds or regime.seeds)[: 2 if study.quick else None]
    known = [e for e in regime.entries if not rows or e.label in rows]
    entries = [e for e in known if not given.entries or e.label in given.entries]
    work = _Work(study, regime, seeds)
    runs = work.run(entries, given.finished)
    if given.entries:
        # What was not named is recorded too, as far as it has been run.
        others = [e for e in known if e not in entries]
        runs |= work.run(others, True, SEEDS_WITHOUT_CLAIM)
        runs = {e.label: runs[e.label] for e in known if e.label in runs}
    groups = {label: summarise(label, found) for label, found in runs.items()}
    draw_scores(study, groups)
    if regime is LONG:
        draw_matrices(study, runs)
    claims = judge(regime.claims, groups)
    described = {
        "question": "Which method disentangles mini_shapes3d best at the same budget?",
        "dataset": DATASET,
        "profile": "cpu",
        "steps": _QUICK_STEPS if study.quick else regime.steps,
        "regime": given.regime,
        "batch_share": regime.batch_share,
        "seeds": seeds,
        "tuning_seed": TUNING_SEED,
        "tuning_steps": TUNING_STEPS,
        "tuning_batch_share": TUNING_BATCH_SHARE,
        "tuning_psnr": TUNING_PSNR,
        "select": given.select,
    }
    findings = {"claims": claims, "tuning": work.tuned}
    study.write(described, list(groups.values()), findings, work.tuning_runs)
    print(table(groups))
    for claim in claims:
        print(f"{claim['claim']}, {claim['score']}: {claim['verdict']}")


if __name__ == "__main__":
    main()
