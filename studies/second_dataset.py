"""Five rows of the leaderboard on real images that no setting was chosen on.

    python -m studies.second_dataset [--quick] [--workers=2] [--file=...]

The complete sub-grid of dSprites (46,080 images) takes the place of mini_shapes3d.
Networks, steps, batch and every weight are those that the leaderboard's long regime has
on mini_shapes3d; nothing is tuned here. The claims are those of `claims.json` for this
study, frozen before its runs.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments.storage.files import read_json
from experiments.sweeps.plan import Trial
from studies.claims import frozen_seeds, judge, load_claims
from studies.dsprites import PREPARED, add_file, find_file
from studies.leaderboard import table
from studies.leaderboard_entries import Entry
from studies.leaderboard_pictures import draw_matrices, draw_scores
from studies.leaderboard_plan import LONG, final_settings, plan_entry
from studies.study import Study, StudySkippedError
from studies.summaries import summarise

NAME = "second_dataset"
DATASET = "dsprites"
ROWS = ("AE", "beta-VAE", "VQ-VAE", "QLAE, ten values", "Tripod")
ENTRIES = tuple(entry for entry in LONG.entries if entry.label in ROWS)
SEEDS = frozen_seeds(NAME)


def chosen_weights(record: Path) -> dict[str, float]:
    """The key weight of each row, as the leaderboard's record has it.

    Args:
        record: Record of the long regime.

    Raises:
        StudySkippedError: If it is not there or lacks a row.
    """
    found = read_json(record)["findings"]["tuning"] if record.exists() else {}
    missing = [label for label in ROWS if label not in found]
    if missing:
        raise StudySkippedError(
            f"{record.name} has no weights for {', '.join(missing)}: run "
            "python -m studies.leaderboard first."
        )
    return {label: found[label]["chosen"] for label in ROWS}


def plan(
    file: Path,
    weights: Mapping[str, float],
    quick: bool = False,
    entries: Sequence[Entry] = ENTRIES,
    steps: int = LONG.steps,
) -> dict[str, list[Trial]]:
    """Trials by row.

    Args:
        file: The file of the sub-grid.
        weights: Key weights by label; a row with a parent takes its parent's.
        quick: Whether to plan the tiny version.
        entries: The rows.
        steps: Training steps; folders of another number than the usual one say so.
    """
    regime = dataclasses.replace(LONG, steps=steps)
    data: dict[str, Any] = {
        "dataset_options": {"file": str(file), "allow_partial": True},
        "data_dir": str(PREPARED),
    }
    return {
        entry.label: plan_entry(
            entry,
            SEEDS[:2] if quick else SEEDS,
            final_settings(entry, regime, quick=quick) | data,
            weights.get(entry.parent or entry.label),
            "final" if steps == LONG.steps else f"steps={steps}",
            dataset=DATASET,
        )
        for entry in entries
    }


def frozen_weights(study: Study) -> dict[str, float]:
    """`chosen_weights` of the study's records; the tiny version asks for no record."""
    return {} if study.quick else chosen_weights(study.results / f"{LONG.name}.json")


def main(arguments: Sequence[str] | None = None) -> None:
    description = "Five rows of the leaderboard on dSprites."
    study = Study.from_arguments(NAME, description, arguments, add_file)
    study = study.keeping_scores()
    try:
        file = find_file(study.options.file)
        weights = frozen_weights(study)
    except StudySkippedError as reason:
        print(f"Skipped: {reason}")
        return
    planned = plan(file, weights, study.quick)
    runs = study.run_by_seed(planned)
    groups = {label: summarise(label, found) for label, found in runs.items()}
    draw_scores(study, groups)
    draw_matrices(study, runs)
    claims = judge(load_claims(NAME), groups)
    settings = {
        "question": "Do the leaderboard's rows keep their order on other images?",
        "data": "46,080-image sub-grid of dSprites, sizes 3 x 6 x 10 x 16 x 16",
        "steps": LONG.steps,
        "seeds": SEEDS,
        "weights": weights,
    }
    study.write(settings, list(groups.values()), {"claims": claims})
    print(table(groups))
    for claim in claims:
        print(f"{claim['claim']}, {claim['score']}: {claim['verdict']}")


if __name__ == "__main__":
    main()
