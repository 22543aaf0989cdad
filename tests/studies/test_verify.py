"""A record is scored again from its weights; a wrong record is found."""

import json
import shutil

import pytest

from experiments.sweeps.plan import plan_sweep
from models.pretrained import file_checksum
from studies import store_weights, verify
from studies.study import Study

TINY = {"steps": 3, "evaluate_every": 3, "log_every": 1, "evaluation_size": 60}
TINY |= {"batch_size": 8, "threads": 1, "image_size": 16, "width": 0.125}
TINY |= {"metrics": "fast"}


def train(folder):
    study = Study.from_arguments("x", "", ["--quick", f"--workdir={folder}"])
    trials = plan_sweep(["qlae"], ["mini_shapes3d"], [1], profile="cpu", settings=TINY)
    (run,) = study.run(trials)
    return run


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return train(tmp_path_factory.mktemp("study"))


def test_weights_give_the_recorded_scores(run, capsys):
    before = (run.path / "metrics.json").read_bytes()
    assert verify.main([f"--run={run.path}", "--tolerance=0"]) == 0
    assert "infomec/modularity" in capsys.readouterr().out
    assert (run.path / "metrics.json").read_bytes() == before


def test_a_changed_record_is_found(run, tmp_path, capsys):
    metrics = json.loads((run.path / "metrics.json").read_text())
    metrics["scores"]["infomec/modularity"] += 0.01
    (tmp_path / "metrics.json").write_text(json.dumps(metrics))
    config = (run.path / "config.json").read_text()
    (tmp_path / "config.json").write_text(config)
    assert verify.main([f"--run={run.path}", f"--record={tmp_path}"]) == 1
    assert "Off by more than 1e-06: infomec/modularity." in capsys.readouterr().out


def test_stored_weights_score_like_the_record(run, tmp_path, capsys):
    """What `studies.store_weights` stores of final runs is enough to score them."""
    study, output, listed = (tmp_path / n for n in ("study", "weights", "list.json"))
    shutil.copytree(run.path, study / "final-run")
    shutil.copytree(run.path, study / "tune-run")
    found = store_weights.store(study, output, listed)
    assert list(found) == ["final-run"]
    file = output / "final-run" / "model.keras"
    assert found["final-run"]["checksum"] == file_checksum(file)
    assert found["final-run"]["precision"] == "half"
    record = tmp_path / "kept"
    record.mkdir()
    for name in ("config.json", "metrics.json"):
        shutil.copy(run.path / name, record)
    arguments = [f"--run={record}", f"--weights={file}", "--tolerance=0.05"]
    assert verify.main(arguments) == 0
    capsys.readouterr()
    assert store_weights.store(study, output, listed) == found
    assert "final-run" not in capsys.readouterr().out  # stored once


def test_a_score_that_is_missing_now_is_off():
    (found,) = verify.compare({"dci/d": 0.5}, {})
    assert not found.difference <= 1.0
    (both,) = verify.compare({"dci/d": None}, {})
    assert both.difference == 0.0


@pytest.mark.slow
def test_a_run_is_repeated_bit_for_bit(run, tmp_path):
    again = train(tmp_path)
    assert again.metrics["scores"] == run.metrics["scores"]
    rows = [
        [json.loads(line) for line in (r.path / "history.jsonl").open()]
        for r in (run, again)
    ]
    for one, other in zip(*rows, strict=True):
        for name, value in one.items():
            if "second" not in name and name != "time":
                assert other[name] == value, name
