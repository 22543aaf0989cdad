"""Intervals, paired differences and what a group of runs tells."""

import json

import numpy as np
import pytest
from scipy import stats

from experiments.reporting.summary import FinishedRun
from experiments.sweeps.plan import plan_sweep
from studies.summaries import paired_difference, spread, summarise

TINY = {"steps": 2, "evaluate_every": 2, "log_every": 1, "evaluation_size": 50}
TINY |= {"batch_size": 20, "threads": 1, "dataset_options": {"num_images": 50}}


def t_interval(values):
    """SciPy's own interval, half of its width."""
    if np.ptp(values) == 0:
        return 0.0  # which SciPy calls NaN
    low, high = stats.t.interval(
        0.95, len(values) - 1, loc=np.mean(values), scale=stats.sem(values)
    )
    return (high - low) / 2


def test_spread_is_scipys_t_interval():
    values = [0.3, 0.5, 0.45, 0.9]
    found = spread(values)
    assert found["mean"] == pytest.approx(np.mean(values))
    assert found["half_width"] == pytest.approx(t_interval(values))
    assert found["standard_error"] == pytest.approx(stats.sem(values))
    assert found["count"] == 4


def test_spread_leaves_out_what_is_no_number():
    assert spread([0.25, None, float("nan"), 0.75]) == spread([0.25, 0.75])


def test_spread_of_one_run_has_no_interval():
    assert spread([0.5]) == {
        "mean": 0.5,
        "half_width": None,
        "standard_error": None,
        "count": 1,
    }


def group(values):
    return {
        "runs": [{"seed": s, "scores": {"a/b": v}} for s, v in enumerate(values)],
    }


def test_paired_difference_is_that_of_a_paired_t_test():
    first, second = [0.9, 0.8, 0.95, 0.7], [0.5, 0.6, 0.55, 0.45]
    found = paired_difference(group(first), group(second), "a/b")
    low, high = stats.ttest_rel(first, second).confidence_interval(0.95)
    assert found["mean"] == pytest.approx((low + high) / 2)
    assert found["half_width"] == pytest.approx((high - low) / 2)


def test_other_seeds_cannot_be_paired():
    with pytest.raises(ValueError, match="same seeds"):
        paired_difference(group([0.1, 0.2]), {"runs": []}, "a/b")


def test_runs_without_the_score_are_left_out_of_pairs():
    first, second = (
        {"runs": [{"seed": i, "scores": row} for i, row in enumerate(rows)]}
        for rows in (
            [{"a": 1.0}, {"a": None}, {"a": 3.0}],
            [{"a": 0.5}, {"a": 0.0}, {}],
        )
    )
    found = paired_difference(first, second, "a")
    assert (found["mean"], found["count"]) == (0.5, 1)


def test_seeds_of_one_side_are_left_out():
    found = paired_difference(group([0.1, 0.4, 0.9]), group([0.0, 0.2]), "a/b")
    assert found == spread([0.1 - 0.0, 0.4 - 0.2])


def test_a_group_has_the_largest_of_notes_alike_and_all_versions(tmp_path):
    runs = []
    for seed, (percent, code) in enumerate([("0.12", "b"), ("0.26", "c")]):
        notes = {"infomec": {"notes": [f"too high by {percent}"]}, "sap": {}}
        metrics = {"scores": {}, "results": notes, "provenance": {"code": code}}
        record = {
            "provenance": {"code": "a", "processor": "X"},
            "continued": [{"step": 5, "code": "a-dirty", "processor": "Y"}],
        }
        folder = tmp_path / str(seed)
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps(record if seed else {}))
        config = plan_sweep(["hfs"], ["grid2d"], [seed], settings=TINY)[0].config
        runs.append(FinishedRun(folder, config, metrics))
    group = summarise("HFS", runs)
    assert group["notes"] == {"infomec": "too high by 0.26"}
    assert group["code"] == ["a", "a-dirty", "b", "c"]
    assert [row["processor"] for row in group["runs"]] == [None, "X, then Y"]
