"""Claims about what ranks runs, and the rule that decides them."""

import dataclasses

import numpy as np
import pytest
from scipy import stats

from studies import dsprites
from studies.rank_claims import (
    RankClaim,
    judge_ranks,
    load_rank_claims,
    rank_correlation,
)

CLAIM = RankClaim("gap", "friede", "", "dsprites", "gap/gap", "mig/mig", "below", 20)


def groups(gaps, scores):
    runs = [
        {"seed": seed, "scores": {"gap/gap": gap, "mig/mig": score}}
        for seed, (gap, score) in enumerate(zip(gaps, scores, strict=True))
    ]
    without = {"seed": 0, "scores": {"mig/mig": 0.5}}  # a Gaussian run has no gap
    return [{"label": "D-VAE", "runs": runs}, {"label": "VAE", "runs": [without]}]


def verdict_of(gaps, scores, claim=CLAIM):
    (found,) = judge_ranks([claim], groups(gaps, scores))
    return found


def test_claims_are_about_scores_and_runs_that_the_study_has(tmp_path):
    planned = dsprites.plan(tmp_path / "dsprites.npz")
    discrete = [trials for label, trials in planned.items() if "DVAE" in label]
    count = sum(map(len, discrete)) + len(planned["D-VAE"])
    claims = load_rank_claims("dsprites")
    assert {claim.id for claim in claims} == {"gap-mig", "gap-dci"}
    assert {claim.runs for claim in claims} == {count}
    assert {claim.score for claim in claims} <= set(dsprites._RANKED)


@pytest.mark.parametrize("rho", [0.0, -0.6, 0.8])
def test_the_interval_covers_as_often_as_it_says(rho):
    """Of normal pairs, whose rank correlation is known."""
    rng = np.random.default_rng(0)
    truth = 6 / np.pi * np.arcsin(rho / 2)
    covered = 0
    for _ in range(400):
        x, y = rng.multivariate_normal([0, 0], [[1, rho], [rho, 1]], size=20).T
        found = rank_correlation(x, y)
        covered += found["low"] <= truth <= found["high"]
    # 95 % of 400 with a standard deviation of 4.4.
    assert 365 <= covered <= 395


def test_verdicts_are_those_of_the_side_on_which_the_interval_lies():
    x = np.arange(20.0)
    noise = np.random.default_rng(1).normal(size=20)
    assert verdict_of(x, -x + noise)["verdict"] == "confirmed"
    assert verdict_of(x, x + noise)["verdict"] == "contradicted"
    assert verdict_of(x, noise)["verdict"] == "undecided"
    above = dataclasses.replace(CLAIM, direction="above")
    assert verdict_of(x, x + noise, above)["verdict"] == "confirmed"
    perfect = verdict_of(x, -x)
    assert perfect["verdict"] == "confirmed" and perfect["correlation"] == -1


def test_fewer_runs_than_frozen_decide_nothing():
    x = np.arange(19.0)
    found = verdict_of(x, -x)
    assert (found["verdict"], found["runs"]) == ("undecided", 19)
    assert judge_ranks([CLAIM], groups([1.0, 2.0], [2.0, 1.0])) == []


def test_runs_of_other_seeds_decide_nothing():
    x = np.arange(20.0)
    assert verdict_of(x, -x)["verdict"] == "confirmed"
    frozen = dataclasses.replace(CLAIM, seeds=tuple(range(10)))
    assert verdict_of(x, -x, frozen)["runs"] == 10
    assert {claim.seeds for claim in load_rank_claims()} == {(0, 1, 2, 3, 4)}


def test_runs_of_another_budget_or_without_a_score_decide_nothing():
    x = np.arange(20.0)
    frozen = dataclasses.replace(CLAIM, steps=20_000)
    config = {"steps": 20_000, "select": "last"}
    found = [{**group, "config": config} for group in groups(x, -x)]
    assert judge_ranks([frozen], found)[0]["verdict"] == "confirmed"
    found[0]["runs"][3]["scores"]["mig/mig"] = None
    assert judge_ranks([frozen], found)[0]["runs"] == 19
    found[0]["config"] = {**config, "steps": 3_000}
    assert judge_ranks([frozen], found) == []


def test_correlation_is_scipys_and_equal_scores_have_no_interval():
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(2, 12))
    found, expected = rank_correlation(x, y), stats.spearmanr(x, y)
    assert found["correlation"] == pytest.approx(expected.statistic)
    assert found["p_value"] == pytest.approx(expected.pvalue)
    with pytest.warns(stats.ConstantInputWarning):
        assert rank_correlation(x, np.zeros(12))["low"] is None
