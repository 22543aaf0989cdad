"""The frozen claims and the rule that decides them."""

import numpy as np
import pytest
from scipy import stats

from studies import (
    balls,
    circles,
    cliff_synthetic,
    dsprites,
    second_dataset,
)
from studies.claims import (
    Claim,
    holm,
    judge,
    load_claims,
    seeds_to_decide,
    verdict,
)
from studies.leaderboard_entries import ENTRIES
from studies.leaderboard_plan import LONG, final_settings
from studies.summaries import spread

SCORE = "infomec/modularity"


def group(label, values, **others):
    scores = {SCORE: values, **others}
    return {
        "label": label,
        "runs": [
            {"seed": seed, "scores": {name: row[seed] for name, row in scores.items()}}
            for seed in range(len(values))
        ],
        "scores": {name: spread(row) for name, row in scores.items()},
    }


def claim(least=0.0, **more):
    fields = {"direction": "above", **more}
    return Claim(
        "a-b", "qlae", "", "leaderboard", "A", "B", SCORE, least=least, **fields
    )


def judged(first, second, the_claim, **others):
    groups = {"A": group("A", first, **others), "B": group("B", second, **others)}
    (found,) = judge([the_claim], groups)
    return found


def test_all_claims_are_about_rows_and_papers_that_exist():
    claims = load_claims()
    assert len({c.id for c in claims}) == len(claims) >= 15
    assert {c.paper for c in claims} == {
        "qlae",
        "tripod",
        "factor_qvae",
        "friede",
        "cliff",
    }
    labels = {entry.label for entry in ENTRIES}
    of_board = load_claims("leaderboard")
    assert {c.first for c in of_board} | {c.second for c in of_board} <= labels


def test_probability_is_mann_and_whitneys():
    first, second = [0.5, 0.7, 0.45, 0.8], [0.5, 0.6, 0.4, 0.55]
    found = judged(first, second, claim())["probability"]
    expected = stats.mannwhitneyu(first, second).statistic / 16
    assert found["mean"] == pytest.approx(expected)
    assert 0 <= found["low"] < found["mean"] < found["high"] <= 1
    below = judged(first, second, claim(direction="below"))["probability"]
    assert below["mean"] == pytest.approx(1 - expected)


def test_verdicts_follow_a_paired_t_test():
    rng = np.random.default_rng(0)
    for _ in range(50):
        first = rng.normal(0.5 + rng.choice([0.0, 0.1, -0.1]), 0.05, 5)
        second = rng.normal(0.5, 0.05, 5)
        low, high = stats.ttest_rel(first, second).confidence_interval(0.95)
        found = judged(list(first), list(second), claim())
        expected = "undecided"
        if low > 0:
            expected = "confirmed"
        elif high < 0:
            expected = "contradicted"
        assert found["verdict"] == expected


def test_least_difference_counts():
    assert verdict(0.3, 0.1, least=0.25) == "confirmed"
    assert verdict(0.2, 0.1, least=0.25) == "undecided"
    assert verdict(0.1, 0.1, least=0.25) == "contradicted"
    assert verdict(0.3, None, least=0.0) == "undecided"


def test_below_turns_the_difference():
    found = judged([0.1, 0.11, 0.12], [0.5, 0.52, 0.51], claim(direction="below"))
    assert found["verdict"] == "confirmed"
    assert found["difference"] == pytest.approx(0.4)


def test_rows_that_have_not_learned_decide_nothing():
    needs = {"infomec/explicitness": 0.9}
    values = [0.9, 0.91, 0.92], [0.2, 0.22, 0.21]
    poor = judged(*values, claim(needs=needs), **{"infomec/explicitness": [0.6] * 3})
    assert poor["verdict"] == "undecided"
    assert len(poor["missed"]) == 2
    good = judged(*values, claim(needs=needs), **{"infomec/explicitness": [0.95] * 3})
    assert good["verdict"] == "confirmed"


def test_needs_are_those_of_the_seeds_that_decide():
    name = "infomec/explicitness"
    values = [0.9, 0.91, 0.92, 0.9], [0.2, 0.22, 0.21, 0.2]
    asked = claim(needs={name: 0.9}, seeds=(0, 1, 2))
    high = judged(*values, asked, **{name: [0.85, 0.85, 0.85, 1.5]})
    assert high["verdict"] == "undecided" and len(high["missed"]) == 2
    low = judged(*values, asked, **{name: [0.95, 0.95, 0.95, 0.1]})
    assert low["verdict"] == "confirmed"


def test_seeds_to_decide_is_where_the_interval_gets_small_enough():
    count = seeds_to_decide(0.1, 0.2, 0.0)
    widths = [stats.t.ppf(0.975, n - 1) * 0.2 / np.sqrt(n) for n in (count - 1, count)]
    assert widths[0] >= 0.1 > widths[1]
    assert seeds_to_decide(1e-6, 1.0, 0.0) is None


def test_an_undecided_claim_says_how_many_seeds_would_do():
    found = judged([0.5, 0.7, 0.45, 0.8], [0.5, 0.5, 0.5, 0.5], claim())
    assert found["verdict"] == "undecided"
    assert found["seeds_to_decide"] > 4


def test_rows_that_are_not_there_are_passed_over():
    assert judge([claim()], {"A": group("A", [0.1, 0.2])}) == []


def test_a_row_with_a_diverged_seed_decides_nothing():
    groups = {"A": group("A", [0.9, 0.91, 0.92]), "B": group("B", [0.2, 0.22, 0.21])}
    assert judge([claim()], groups)[0]["verdict"] == "confirmed"
    del groups["A"]["runs"][1]
    (found,) = judge([claim()], groups)
    assert found["verdict"] == "undecided"
    text = "A: 1 of the seeds are not run yet or have no score"
    assert found["missed"] == [text]


def test_a_claim_waits_for_the_seeds_it_was_frozen_with():
    values = [0.9, 0.91, 0.92], [0.2, 0.22, 0.21]
    early = judged(*values, claim(seeds=tuple(range(5))))
    assert early["verdict"] == "undecided"
    assert early["missed"] == ["3 of 5 seeds so far"]
    assert judged(*values, claim(seeds=(0, 1, 2)))["verdict"] == "confirmed"
    other = claim(seeds=(7, 8, 9))  # none of the runs there are may decide it
    groups = {"A": group("A", values[0]), "B": group("B", values[1])}
    assert judge([other], groups) == []
    seeds = {c.study: len(c.seeds) for c in load_claims()}
    assert (seeds["leaderboard"], seeds["cliff_synthetic"]) == (5, 10)


def test_runs_of_another_budget_decide_nothing():
    config = {"steps": 12_000, "select": "last"}
    groups = {
        "A": {**group("A", [0.9, 0.91, 0.92]), "config": config},
        "B": {**group("B", [0.2, 0.22, 0.21]), "config": {**config, "steps": 6_000}},
    }
    assert judge([claim(steps=(12_000, 6_000))], groups)[0]["verdict"] == "confirmed"
    assert judge([claim(steps=(6_000, 12_000))], groups) == []
    assert judge([claim(steps=(12_000, 12_000))], groups) == []
    groups["A"]["config"] = {**config, "select": "infom"}
    assert judge([claim(steps=(12_000, 6_000))], groups) == []


def test_every_claim_was_frozen_with_the_steps_of_its_studys_plan(tmp_path):
    data = tmp_path / "dsprites.npz"
    planned = {
        "circles": {
            circles.METHODS[method]: trials for method, trials in circles.plan().items()
        },
        "balls": balls.plan(),
        "cliff_synthetic": cliff_synthetic.plan(),
        "dsprites": dsprites.plan(data),
        "second_dataset": second_dataset.plan(data, {}),
    }
    entries = {entry.label: entry for entry in ENTRIES}
    for frozen in load_claims():
        for label, steps in zip(
            (frozen.first, frozen.second), frozen.steps, strict=True
        ):
            if frozen.study == "leaderboard":
                settings = final_settings(entries[label], LONG)
                assert (settings["steps"], settings["select"]) == (steps, "last")
                continue
            configs = [trial.config for trial in planned[frozen.study][label]]
            assert {(c.steps, c.select) for c in configs} == {(steps, "last")}, label


def test_a_run_without_the_score_is_no_run():
    values = [0.9, 0.91, 0.92], [0.2, None, 0.21]
    found = judged(*values, claim(seeds=(0, 1, 2)))
    assert found["verdict"] == "undecided" and found["seeds"] == 2
    assert "B: 1 of the seeds are not run yet or have no score" in found["missed"]
    del values[0][:]
    assert judge([claim()], {"A": group("A", []), "B": group("B", values[1])}) == []


def test_a_need_is_asked_of_every_run():
    name = "infomec/explicitness"
    values = [0.9, 0.91, 0.92], [0.2, 0.22, 0.21]
    asked = claim(needs={name: 0.9})
    found = judged(*values, asked, **{name: [0.95, None, None]})
    assert found["verdict"] == "undecided"
    assert found["missed"] == [f"{row}: not all runs have {name}" for row in "AB"]


def test_p_value_is_that_of_a_paired_t_test():
    first, second = [0.5, 0.7, 0.45, 0.8], [0.5, 0.6, 0.4, 0.55]
    expected = stats.ttest_rel(first, second).pvalue
    assert judged(first, second, claim())["p_value"] == pytest.approx(expected)
    below = judged(first, second, claim(direction="below"))
    assert below["p_value"] == pytest.approx(expected)
    assert judged([0.5], [0.4], claim())["p_value"] is None


def test_holm_stops_at_the_first_that_is_too_large():
    # 0.05 over 4, 3, 2 and 1: 0.0125, 0.0167, 0.025, 0.05.
    assert holm({"a": 0.04, "b": 0.01, "c": 0.02, "d": 0.3}) == ["b"]
    assert holm({"a": 0.03, "b": 0.01, "c": 0.016, "d": 0.02}) == ["b", "c", "d", "a"]
    assert holm({"a": 0.013, "b": 0.5, "c": 0.5, "d": 0.5}) == []
    assert holm({}) == []
