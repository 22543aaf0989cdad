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
from typing import Any

from experiments.reporting.summary import FinishedRun
from experiments.settings import scores
from experiments.sweeps.plan import Trial
from studies.claims import judge
from studies.leaderboard_entries import Entry
from studies.leaderboard_pictures import draw_matrices, draw_scores
from studies.leaderboard_plan import (
    DATASET,
    LONG,
    QUICK_STEPS,
    REGIMES,
    SEEDS_WITHOUT_CLAIM,
    SHORT,
    Regime,
    final_settings,
    plan_entry,
    seeds_of,
)
from studies.leaderboard_tuning import (
    TUNING_BATCH_SHARE,
    TUNING_PSNR,
    TUNING_SEED,
    TUNING_STEPS,
    is_tuned,
    recorded_choices,
    shared_weight,
    tune,
)
from studies.statistics import interquartile_mean, stratified_bootstrap
from studies.study import Study
from studies.summaries import score_table, summarise

COLUMNS = {
    score: heading
    for score, heading in scores.COLUMNS.items()
    if score.startswith(("infomec/", "dci/", "psnr/psnr"))
}


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
            entry, own_seeds, settings, value, "final", shared_weight(entry, tuned)
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
            wanted = [e for e in wanted if is_tuned(study, e, self.tuned)]
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
        "steps": QUICK_STEPS if study.quick else regime.steps,
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
