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
    (records,) = json.loads(files[0].read_text()).values()
    found = {name: record["rows"][0]["ratio"] for name, record in records.items()}
    assert found == {"quantizers": 0.5, "metrics": 0.25}
    table = files[1].read_text()
    assert "| a step | qlayers | peer | 0.5 |  |" in table
    assert "| a step | qlayers | peer | 0.25 |  |" in table
    assert table.count(" cores;") == 1  # the machine is named, once as it is the same


def test_every_processor_keeps_its_own_table(files, monkeypatch):
    for name, ratio in (("One", 0.5), ("Two", 0.25), ("One", 0.75)):
        monkeypatch.setattr(run, "processor", lambda name=name: name)
        monkeypatch.setattr(run, "rows_of", lambda _, ratio=ratio: [measured(ratio)])
        assert start(files, "metrics") == 0
    records = json.loads(files[0].read_text())
    found = {name: record["metrics"]["rows"] for name, record in records.items()}
    assert found == {"One": [measured(0.75)], "Two": [measured(0.25)]}
    first, second = files[1].read_text().split("## Two")
    assert "## One" in first and "| peer | 0.75 |" in first
    assert "| peer | 0.25 |" in second and "at a load of" in second


def test_a_missed_goal_is_bold(files, monkeypatch):
    rows = [{**measured(1.26), "goal": 1.25}, {**measured(1.2503), "goal": 1.25}]
    monkeypatch.setattr(run, "rows_of", lambda name: rows)
    start(files, "metrics")
    table = files[1].read_text()
    assert "| **1.26** | 1.25 |" in table
    assert "| 1.25 | 1.25 |" in table


def test_committed_table_is_that_of_the_committed_measurements():
    records = json.loads((run.FOLDER / "results.json").read_text(encoding="utf-8"))
    measured_somewhere = {name for record in records.values() for name in record}
    assert sorted(measured_somewhere) == run.benchmark_names()
    assert run.TABLE.read_text(encoding="utf-8") == run.ratio_table(records)


def test_rows_without_a_peer_are_kept_but_not_tabulated(files, monkeypatch):
    rows = [{"case": "growth", "seconds": 2.0}]
    monkeypatch.setattr(run, "rows_of", lambda name: rows)
    assert start(files, "metrics") == 0
    (records,) = json.loads(files[0].read_text()).values()
    assert records["metrics"]["rows"] == rows
    assert "growth" not in files[1].read_text()


def test_a_benchmark_that_crashes_fails_the_command(files, monkeypatch):
    monkeypatch.setattr(run, "_CHILD", "import sys; sys.exit(3)")
    assert start(files, "metrics") == 1
    (records,) = json.loads(files[0].read_text()).values()
    (row,) = records["metrics"]["rows"]
    assert row["case"] == "failed with exit code 3"


def test_unknown_names_are_refused_before_anything_runs(files, capsys):
    with pytest.raises(SystemExit):
        start(files, "nothing")
    assert "no benchmark named nothing" in capsys.readouterr().err
    assert not files[0].exists()
