"""The study of sizes: matching, verdicts, and a tiny version of it."""

import numpy as np
import pytest

from studies import self_sizing
from tests.studies.test_studies import is_picture, run_twice


def test_a_factor_gets_the_size_of_its_latent():
    nmi = np.array([[0.9, 0.8, 0.1, 0.0], [0.8, 0.1, 0.2, 0.0], [0.0, 0.0, 0.0, 0.0]])
    # One to one: 0.8 + 0.8 beats 0.9 + 0.2. Nothing knows the third factor.
    assert self_sizing.matched_sizes(nmi, [5, 7, 9, 4]) == [7, 5, 1]
    # A latent that is gone is nobody's.
    assert self_sizing.matched_sizes(nmi, [5, 1, 9, 4]) == [5, 9, 1]


def group(label, rows):
    runs = [
        {"seed": seed, "cpu_seconds": row.pop("cpu"), "scores": row}
        for seed, row in enumerate(rows)
    ]
    return {"label": label, "runs": runs, "scores": {}}


def row(active, matched, modularity, compactness, cpu):
    return {
        "sizes/active_latents": active,
        "sizes/matched": matched,
        "infomec/modularity": modularity,
        "infomec/compactness": compactness,
        "cpu": cpu,
    }


def verdicts(ours, theirs):
    ours, theirs = group("ours", ours), group("theirs", theirs)
    ours = self_sizing.with_time(ours, theirs)
    found = self_sizing.judge(ours, theirs, [10, 10, 10, 8, 4, 15])
    return [goal["verdict"] for goal in found], [goal["found"] for goal in found]


def test_goals_are_met_failed_or_undecided():
    theirs = [row(12, 0, 0.7, 0.5, 100.0) for _ in range(10)]
    good = [row(7, 4, 0.8, 0.5, 120.0) for _ in range(10)]
    assert verdicts(good, theirs)[0] == ["met"] * 5
    # Seven of ten are too few; 1.31 times is too long.
    poor = [row(6, 4, 0.6, 0.4, 131.0) for _ in range(7)]
    poor += [row(8, 3, 0.9, 0.4 - 0.01 * i, 131.0) for i in range(3)]
    theirs = [row(12, 0, 0.7, 0.5, 100.0) for _ in range(10)]
    found, said = verdicts(poor, theirs)
    assert found == ["failed", "failed", "undecided", "failed", "failed"]
    assert said[0] == "7 of 10 seeds"


def test_seeds_of_development_and_study_differ():
    seeds = {seed for of in self_sizing.SEEDS.values() for seed in of}
    assert self_sizing.TUNING_SEED not in seeds
    assert max(seeds) < 100


def test_both_methods_have_one_budget():
    settings = self_sizing.settings_of("mini_shapes3d", None, quick=False)
    (ours,) = self_sizing.plan(
        "mini_shapes3d", "self_sizing", [0], settings, **self_sizing.SIZING
    )
    (theirs,) = self_sizing.plan("mini_shapes3d", "qlae", [0], settings, num_values=6)
    for name in ("steps", "batch_size", "num_latents", "network", "width", "select"):
        assert getattr(ours.config, name) == getattr(theirs.config, name)
    for name in ("learning_rate", "weight_decay"):
        mine, other = ours.config.hyperparameters, theirs.config.hyperparameters
        assert mine[name] == other[name]
    assert (
        theirs.name
        != self_sizing.plan("mini_shapes3d", "qlae", [0], settings, num_values=4)[
            0
        ].name
    )
    assert ours.config.hyperparameters["warmup_steps"] < ours.config.steps


@pytest.mark.slow
def test_self_sizing(tmp_path, monkeypatch):
    arguments = ["--datasets=mini_shapes3d"]
    record = run_twice(self_sizing, tmp_path, monkeypatch, *arguments)
    labels = [g["label"] for g in record["groups"]]
    chosen = record["findings"]["mini_shapes3d"]["tuning"]["chosen"]
    assert labels == [
        "mini_shapes3d, self-sizing",
        f"mini_shapes3d, QLAE, {chosen} values",
    ]
    assert len(record["findings"]["mini_shapes3d"]["verdicts"]) == 5
    text = self_sizing.sizing_table(record)
    assert "values (10, 10, 10, 8, 4, 15)" in text
    assert is_picture(tmp_path / "self_sizing.png")
