"""Several steps in one call are the same steps."""

import json

import pytest

from experiments.running.training_loop import DIVERGED, FINISHED, TrainingLoop
from tests.experiments.running.test_training import (
    assert_same_result,
    checkpoint_at,
    crash_at,
    poisoned,
)
from tests.experiments.runs import tiny_run

# Rows every six steps: calls of four and of two steps alternate.
ROWS = {"log_every": 6}
OPTIONS = {
    "qlae": {},
    "tripod": {},
    "factor_qvae": {},
    "d_vae": {},
    "ql_infowgan_gp": {"network": "style", "batch_size": 10},
    "self_sizing": {
        "hyperparameters": {
            "num_values": 4,
            "warmup_steps": 3,
            "adapt_every": 5,
            "adaptation_size": 16,
            "tolerance": 2.0,
        }
    },
}


def counts_of(monkeypatch):
    """How many steps each call took, as a list that fills."""
    counts = []
    original = TrainingLoop._steps_of_call

    def noting(self):
        counts.append(original(self))
        return counts[-1]

    monkeypatch.setattr(TrainingLoop, "_steps_of_call", noting)
    return counts


@pytest.mark.parametrize(
    "method",
    [
        pytest.param(name, marks=[] if name == "qlae" else pytest.mark.slow)
        for name in OPTIONS
    ],
)
def test_calls_of_several_steps_end_bit_for_bit_alike(tmp_path, monkeypatch, method):
    settings = {**ROWS, **OPTIONS[method], "method": method}
    assert tiny_run(tmp_path / "single", **settings).run() == FINISHED
    counts = counts_of(monkeypatch)
    several = tiny_run(tmp_path / "several", steps_per_call=4, **settings)
    assert several.run() == FINISHED
    assert_same_result(tmp_path / "single", tmp_path / "several")
    # To the next row, or to the next look of a model that sizes itself (every five).
    sized = method == "self_sizing"
    assert counts == ([4, 1, 1, 4, 2] if sized else [4, 2, 4, 2])


@pytest.mark.slow
def test_a_run_goes_on_with_another_number_of_steps_in_a_call(tmp_path, monkeypatch):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    assert tiny_run(whole, **ROWS).run() == FINISHED
    checkpoint_at(monkeypatch, 9)
    crash_at(tiny_run(parts, steps_per_call=3, **ROWS), 12)
    assert tiny_run(parts, steps_per_call=5, **ROWS).run() == FINISHED
    assert_same_result(whole, parts)


@pytest.mark.slow
def test_divergence_within_a_call_is_that_of_its_step(tmp_path, monkeypatch):
    poisoned(monkeypatch, 9)
    found = []
    for count in (1, 6):
        folder = tmp_path / str(count)
        assert tiny_run(folder, steps_per_call=count, **ROWS).run() == DIVERGED
        found.append(json.loads((folder / "status.json").read_text()))
    assert found[0] == found[1]
    # The copy of step 6 had been tried: step 7's loss was finite.
    assert (found[1]["step"], found[1]["restored_step"]) == (9, 6)


@pytest.mark.slow
def test_replicas_take_several_steps_in_a_call(tmp_path):
    settings = {"method": "ae", "strategy": "mirrored", "select": "last", **ROWS}
    for count in (1, 4):
        run = tiny_run(tmp_path / str(count), steps_per_call=count, **settings)
        assert run.run() == FINISHED
    assert_same_result(tmp_path / "1", tmp_path / "4")


def test_a_call_takes_at_least_one_step(tmp_path):
    with pytest.raises(ValueError, match="steps_per_call"):
        tiny_run(tmp_path, steps_per_call=0)
