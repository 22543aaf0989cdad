"""A method that sizes its latents within the laboratory's loop."""

import json

import numpy as np
import pytest

from experiments.running.training_loop import FINISHED
from experiments.storage.checkpoints import CheckpointStore
from tests.experiments.running.test_training import (
    assert_same_result,
    checkpoint_at,
    crash_at,
)
from tests.experiments.runs import read_rows, tiny_run

# A target that an untrained model meets: every look makes edits.
SIZING = {
    "num_values": 4,
    "warmup_steps": 3,
    "adapt_every": 3,
    "adaptation_size": 16,
    "tolerance": 2.0,
}


def sized_run(folder):
    return tiny_run(folder, method="self_sizing", hyperparameters=SIZING)


@pytest.mark.slow  # other methods resume in the default run
def test_a_run_that_sizes_itself_resumes_bit_for_bit(tmp_path, monkeypatch):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    assert sized_run(whole).run() == FINISHED
    # The checkpoint lies between two looks; the target is that of the first.
    checkpoint_at(monkeypatch, 5)
    crash_at(sized_run(parts), 8)
    middle = CheckpointStore(parts / "checkpoints").latest()
    assert middle.step == 5
    assert sized_run(parts).run() == FINISHED
    assert_same_result(whole, parts)
    check_sizes(whole)


def check_sizes(folder):
    metrics = json.loads((folder / "metrics.json").read_text())
    sizes = metrics["results"]["sizes"]["sizes"]
    assert len(sizes) == 4 and sum(sizes) < 16
    active = [size for size in sizes if size > 1]
    assert metrics["scores"]["sizes/active_latents"] == len(active)
    assert metrics["scores"]["sizes/values_left"] == sum(active)
    rows = read_rows(folder / "history.jsonl")
    left = [row["quantizer_values_left"] for row in rows]
    # Nothing changes before the first look; later rows have no more than earlier ones.
    assert left[0] == 16 and np.all(np.diff(left) <= 0)
    assert rows[-1]["quantizer_active_latents"] >= len(active)
    # Checkpoints are evaluated with their sizes too.
    assert "sizes/values_left" in read_rows(folder / "evaluations.jsonl")[-1]
