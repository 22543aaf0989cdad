"""What the page is told of a run."""

import json

import pytest

from experiments.reporting.page import make_page
from experiments.reporting.run_payload import run_payload, verdict
from experiments.reporting.summary import find_runs, group_runs
from experiments.storage.files import read_json
from experiments.storage.run_directory import RunDirectory
from tests.experiments.reporting.handwritten_runs import make_run


def payload_of(folder):
    (group,) = group_runs(find_runs([folder])[0])
    return run_payload(group.runs[0], group)


@pytest.fixture
def directory(tmp_path):
    """A finished run without a history."""
    directory = RunDirectory(make_run(tmp_path, {"infomec/modularity": 0.5}))
    directory.history.path.unlink()
    return directory


@pytest.mark.parametrize("count", [1, 2, 300, 600, 601, 1_001])
def test_thinned_curves_end_with_the_last_value(directory, count):
    # Rows need not hold the same: here every second one has another name.
    for step in range(1, count + 1):
        row = {"step": step, "loss": 1 / step, ("even", "odd")[step % 2]: step}
        directory.history.append(row)
    curves = payload_of(directory.path)["curves"]
    assert curves["loss"][0] == [1, 1.0]
    assert curves["loss"][-1] == [count, 1 / count]
    assert curves[("even", "odd")[count % 2]][-1] == [count, count]
    assert len(curves["loss"]) <= 601


def judged(**checkpoint):
    settings = {"psnr_threshold": 30.0, "selection": "infom"}
    return {"settings": settings, "checkpoint": {"step": 12, **checkpoint}}


def test_verdict_says_why_the_last_checkpoint_stands_there():
    lost = "the last checkpoint: the chosen one was lost (best.weights.h5 is damaged)"
    assert verdict(judged(note=lost)) == f"These are the scores of {lost}."
    missed = (
        "the last checkpoint: none reached a PSNR of 30.0 dB, so this run does not "
        "pass the reconstruction filter"
    )
    assert verdict(judged(note=missed)) == f"These are the scores of {missed}."
    for other in ({}, {"note": ""}, {"note": 3}):
        assert "no checkpoint reached a PSNR of 30 dB" in verdict(judged(**other))
    assert verdict(judged(value=0.5)).startswith("Passes")


@pytest.mark.parametrize(
    "share", [float("nan"), float("inf"), 10**400], ids=["nan", "inf", "huge"]
)
def test_pictures_with_shares_that_are_no_numbers_are_left_out(directory, share):
    file = directory.pictures / "index.json"
    index = {**read_json(file), "frequencies": [[0.5, share], [1.0], [1.0]]}
    file.write_text(json.dumps(index))
    assert payload_of(directory.path)["pictures"] is None
    make_page(group_runs(find_runs([directory.path])[0]), "Page")


def test_numbers_that_no_float_holds_are_left_out(directory):
    rows = [
        {"step": 1, "loss": 0.5},
        {"step": 2, "loss": -(10**400)},
        {"step": 10**400, "loss": 0.5},
        {"step": 4, "loss": 0.25},
    ]
    lines = [json.dumps(row) + "\n" for row in rows]
    directory.history.path.write_text("".join(lines))
    file = directory.metrics_file
    results = {"infomec": {"nmi": [[10**400, 0.5]]}}
    file.write_text(json.dumps({**read_json(file), "results": results}))
    payload = payload_of(directory.path)
    assert payload["curves"] == {"loss": [[1, 0.5], [4, 0.25]]}
    assert payload["matrices"][0]["rows"] == [[None, 0.5]]
    make_page(group_runs(find_runs([directory.path])[0]), "Page")
