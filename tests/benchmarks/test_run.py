"""The command that runs all benchmarks and keeps their ratios."""

import json

import pytest

from benchmarks import run


@pytest.fixture
def files(tmp_path):
    return tmp_path / "results.json", tmp_path / "speed.md"


def start(files, *names):
    return run.main([*names, f"--json={files[0]}", f"--table={files[1]}"])


def measured(ratio):
    return {"case": "a step", "ours": "qlayers", "peer": "peer", "ratio": ratio}


def test_named_benchmarks_replace_only_their_own_rows(files, monkeypatch):
    monkeypatch.setattr(run, "rows_of", lambda name: [measured(0.5)])
    assert start(files, "quantizers", "metrics") == 0
    monkeypatch.setattr(run, "rows_of", lambda name: [measured(0.25)])
    assert start(files, "metrics") == 0
    records = json.loads(files[0].read_text())
    found = {name: record["rows"][0]["ratio"] for name, record in records.items()}
    assert found == {"quantizers": 0.5, "metrics": 0.25}
    table = files[1].read_text()
    assert "| a step | qlayers | peer | 0.5 |" in table
    assert "| a step | qlayers | peer | 0.25 |" in table
    assert "cores" in table  # the machine is named


def test_rows_without_a_peer_are_kept_but_not_tabulated(files, monkeypatch):
    rows = [{"case": "growth", "seconds": 2.0}]
    monkeypatch.setattr(run, "rows_of", lambda name: rows)
    assert start(files, "metrics") == 0
    assert json.loads(files[0].read_text())["metrics"]["rows"] == rows
    assert "growth" not in files[1].read_text()


def test_a_benchmark_that_crashes_fails_the_command(files, monkeypatch):
    monkeypatch.setattr(run, "_CHILD", "import sys; sys.exit(3)")
    assert start(files, "metrics") == 1
    (row,) = json.loads(files[0].read_text())["metrics"]["rows"]
    assert row["case"] == "failed with exit code 3"


def test_unknown_names_are_refused_before_anything_runs(files, capsys):
    with pytest.raises(SystemExit):
        start(files, "nothing")
    assert "no benchmark named nothing" in capsys.readouterr().err
    assert not files[0].exists()
