"""Runs ranked by what needs no labels."""

import pytest

from experiments.reporting.ranking import (
    GAP,
    LABELS,
    UDR,
    rank_runs,
    ranking_text,
    trained_runs,
)
from experiments.reporting.summary import find_runs, load_run
from experiments.storage.files import read_json, write_json
from tests.experiments.reporting.handwritten_runs import make_run

# Seed -> gap, UDR, MIG. Of four runs: gap falls as MIG rises but for one swap.
RUNS = {0: (0.4, 0.1, 0.0), 1: (0.3, 0.2, 0.2), 2: (0.1, 0.4, 0.3), 3: (0.2, 0.3, 0.5)}


@pytest.fixture
def runs(tmp_path):
    for seed, (gap, _, mig) in RUNS.items():
        scores = {GAP: gap, "straight_through_gap/soft_loss": 1.0, "mig/mig": mig}
        make_run(tmp_path / f"d_vae-{seed}", scores, "d_vae", seed=seed, select="last")
    return find_runs([tmp_path])[0]


def udr_of(runs):
    return {run.path: RUNS[run.config.seed][1] for run in runs}


def test_smallest_gap_or_largest_agreement_is_first(runs):
    (by_gap,) = rank_runs(runs, udr_of(runs), by=GAP)
    assert [run.config.seed for run in by_gap.runs] == [2, 3, 1, 0]
    assert by_gap.best.config.seed == 2
    (by_udr,) = rank_runs(runs, udr_of(runs), by=UDR)
    assert [run.config.seed for run in by_udr.runs] == [2, 3, 1, 0]


def test_rank_correlations_with_every_score(runs):
    (ranking,) = rank_runs(runs, udr_of(runs))
    found = {(c.criterion, c.score): (c.rho, c.runs) for c in ranking.correlations}
    # One neighbouring swap among four: 1 - 6 * 2 / (4 * 15) = 0.8.
    assert found[GAP, "mig/mig"] == (pytest.approx(-0.8), 4)
    assert found[UDR, "mig/mig"] == (pytest.approx(0.8), 4)
    assert found[GAP, UDR] == (pytest.approx(-1.0), 4)
    assert (GAP, "straight_through_gap/soft_loss") not in found
    text = ranking_text(ranking)
    assert "| mig/mig" in text and "-0.80 (4)" in text


def test_validation_labels_choose_too(runs):
    for run in runs:
        file = run.path / "metrics.json"
        record = read_json(file)
        # The run of seed 1 has the smallest supervised loss.
        record["scores"]["label_validation/loss"] = abs(run.config.seed - 1.2)
        write_json(file, record)
    (ranking,) = rank_runs(find_runs([runs[0].path.parent])[0], {}, by=LABELS)
    assert [run.config.seed for run in ranking.runs] == [1, 2, 0, 3]


def test_runs_without_the_criterion_come_last(runs, tmp_path):
    same_loss = {"select": "last", "hyperparameters": {"reduction": "sum"}}
    make_run(tmp_path / "vae", {"mig/mig": 0.9}, "beta_vae", **same_loss)
    everyone = find_runs([tmp_path])[0]
    (ranking,) = rank_runs(everyone, {})
    assert ranking.runs[-1].config.method == "beta_vae"
    assert ranking.best.config.seed == 2
    assert "vae" in ranking_text(ranking)


def test_gaps_of_other_losses_are_ranked_apart(runs, tmp_path):
    """A sum over pixels is thousands of times a mean."""
    make_run(
        tmp_path / "mean",
        {GAP: 1e-6},
        "d_vae",
        select="last",
        hyperparameters={"reduction": "mean"},
    )
    everyone = find_runs([tmp_path])[0]
    pools = {ranking.loss: ranking for ranking in rank_runs(everyone, {})}
    assert set(pools) == {"bce sum", "bce mean"}
    assert pools["bce sum"].best.config.seed == 2


def test_gaps_with_and_without_total_correlation_are_ranked_apart(tmp_path):
    for name, weight, loss in (
        ("a", 10, "elbo"),
        ("b", 10.0, "total"),
        ("c", 20, "total"),
        ("d", "linear(0, 4)", "total"),
    ):
        make_run(
            tmp_path / name,
            {GAP: 0.1},
            "factor_d_vae",
            select="last",
            gap_loss=loss,
            hyperparameters={"tc_weight": weight},
        )
    rankings = rank_runs(find_runs([tmp_path])[0], {})
    *numbers, scheduled = sorted(ranking.loss for ranking in rankings)
    assert numbers == [
        "bce sum",
        "bce sum, gap of total with tc_weight 10",
        "bce sum, gap of total with tc_weight 20",
    ]
    assert "PolynomialDecay" in scheduled


def test_a_run_that_reports_step_0_is_left_out(runs):
    """Runs from before the rule may have chosen an untrained checkpoint."""
    file = runs[2].path / "metrics.json"
    write_json(file, {**read_json(file), "checkpoint": {"step": 0}})
    again, _ = find_runs([runs[0].path.parent])
    trained, untrained = trained_runs(again)
    assert [run.config.seed for run in untrained] == [2]
    (ranking,) = rank_runs(trained, {})
    assert ranking.best.config.seed == 3


def test_runs_on_other_images_are_not_ranked_together(tmp_path):
    runs = []
    for name in ("cats", "cars"):
        (tmp_path / name).mkdir()
        place = {"dataset": "folder", "data_dir": str(tmp_path / name)}
        runs.append(load_run(make_run(tmp_path / f"run-{name}", {GAP: 0.1}, **place)))
    rankings = rank_runs(runs, udr={})
    assert [len(ranking.runs) for ranking in rankings] == [1, 1]
    assert f"folder in {tmp_path / 'cats'}" in rankings[0].dataset
