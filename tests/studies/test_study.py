"""Resumption and records of the studies."""

import dataclasses
import json
import shutil
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from experiments.settings.processor import processor
from experiments.sweeps.plan import plan_sweep
from studies import trials as trials_module
from studies.study import ROOT, Study
from studies.summaries import summarise
from studies.trials import read_spent, renamed, run_apart, run_here
from tests.studies.test_summaries import TINY, t_interval

RESULTS = sorted((ROOT / "studies" / "results").glob("*.json"))


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A study with two finished trials."""
    folder = tmp_path_factory.mktemp("study")
    study = Study.from_arguments("x", "", ["--quick", f"--workdir={folder}"])
    trials = renamed(plan_sweep(["hfs"], ["grid2d"], [3, 4], settings=TINY), "kind")
    return study, trials, study.run(trials)


@pytest.mark.slow
def test_runs_are_those_of_a_sweep(finished):
    _, trials, runs = finished
    assert [run.path.name for run in runs] == [trial.name for trial in trials]
    assert [run.config for run in runs] == [trial.config for trial in trials]
    for run in runs:
        assert len((run.path / "history.jsonl").read_text().splitlines()) == 2
        assert json.loads((run.path / "status.json").read_text())["state"] == "finished"


def test_finished_trials_are_not_run_again(finished, capsys):
    study, trials, runs = finished

    def refuse(folder, pictures, stop):
        raise AssertionError(f"{folder} was run again")

    again = study.run(trials, start=refuse)
    assert [run.metrics for run in again] == [run.metrics for run in runs]
    assert "2 of them finished before" in capsys.readouterr().out


def test_only_what_is_missing_is_run_and_ends_the_same(finished):
    study, trials, runs = finished
    (runs[1].path / "metrics.json").unlink()
    started = []

    def note(folder, pictures, stop):
        started.append(folder)
        return run_here(folder, pictures, stop)

    before = read_spent(runs[1].path)["seconds"]
    again = study.run(trials, start=note)
    assert started == [runs[1].path]
    assert again[1].metrics["scores"] == runs[1].metrics["scores"]
    assert read_spent(runs[1].path)["seconds"] > before


def test_kept_scores_serve_where_the_runs_are_gone(tmp_path):
    arguments = ["--quick", f"--workdir={tmp_path / 'first'}", f"--results={tmp_path}"]
    study = dataclasses.replace(
        Study.from_arguments("x", "", arguments),
        keeps_scores=True,
        keeps=("history.jsonl",),
    )
    trials = plan_sweep(["hfs"], ["grid2d"], [3], settings=TINY)
    (run,) = study.run(trials)
    history = (run.path / "history.jsonl").read_text()
    shutil.rmtree(study.workdir)

    def refuse(folder, pictures, stop):
        raise AssertionError("trained again")

    (kept,) = study.run(trials, start=refuse)
    assert kept.metrics == run.metrics and kept.config == run.config
    assert read_spent(kept.path)["seconds"] > 0
    assert (kept.path / "history.jsonl").read_text() == history
    # A run of the same name with other settings is another run.
    config = dataclasses.replace(trials[0].config, steps=3)
    with pytest.raises(AssertionError, match="trained again"):
        study.run([dataclasses.replace(trials[0], config=config)], start=refuse)


def test_only_kept_trials_count_as_finished(tmp_path):
    arguments = ["--quick", f"--workdir={tmp_path / 'runs'}", f"--results={tmp_path}"]
    study = Study.from_arguments("x", "", arguments).keeping_scores()
    first, second = plan_sweep(["hfs"], ["grid2d"], [3, 4], settings=TINY)
    other = dataclasses.replace(first, name="other")
    study.run([first])
    planned = {"HFS": [first, second], "others": [other]}
    assert study.finished(planned) == {"HFS": [first]}


def test_rounds_go_by_seed_where_groups_differ_in_length(tmp_path, monkeypatch):
    study = Study.from_arguments("x", "", ["--quick", f"--workdir={tmp_path}"])
    trials = plan_sweep(["hfs"], ["grid2d"], [0, 1, 2], settings=TINY)
    long, short = renamed(trials, "long"), renamed(trials[:1], "short")
    asked = []

    def note(self, rounds, start):
        asked.extend(trial.name for trial in rounds)
        return []

    monkeypatch.setattr(Study, "run", note)
    study.run_by_seed({"long": long, "short": short})
    assert asked == [long[0].name, short[0].name, long[1].name, long[2].name]


def test_a_diverged_run_stays_in_the_record_and_is_not_tried_again(tmp_path):
    arguments = ["--quick", f"--workdir={tmp_path / 'first'}", f"--results={tmp_path}"]
    study = dataclasses.replace(
        Study.from_arguments("x", "", arguments), keeps_scores=True
    )
    sound, broken = plan_sweep(["hfs"], ["grid2d"], [3, 4], settings=TINY)
    started = []

    def start(folder, pictures, stop):
        started.append(folder.name)
        status = {"state": "failed", "attempts": 2, "reason": "diverged"}
        if folder.name == broken.name:
            (folder / "status.json").write_text(json.dumps(status))
            return status
        return run_here(folder, pictures, stop)

    groups = study.run_by_seed({"HFS": [sound, broken]}, start)
    assert [run.config.seed for run in groups["HFS"]] == [3]
    shutil.rmtree(study.workdir)
    again = dataclasses.replace(study, diverged={})
    groups = again.run_by_seed({"HFS": [sound, broken]}, start)
    assert len(started) == 2
    path = again.write({"question": "?"}, [summarise("HFS", groups["HFS"])], {})
    diverged = json.loads(path.read_text())["diverged"]
    assert diverged == {broken.name: {"seed": 4, "label": "HFS"}}


def _keeping(tmp_path, *further):
    arguments = ["--quick", f"--workdir={tmp_path / 'work'}", f"--results={tmp_path}"]
    return Study.from_arguments("x", "", arguments).keeping_scores(*further)


def _longer(trial):
    return dataclasses.replace(trial, config=dataclasses.replace(trial.config, steps=3))


def test_a_longer_run_replaces_one_that_diverged(tmp_path):
    (trial,) = plan_sweep(["hfs"], ["grid2d"], [3], settings=TINY)

    def diverge(folder, pictures, stop):
        status = {"state": "failed", "attempts": 2, "reason": "diverged"}
        (folder / "status.json").write_text(json.dumps(status))
        return status

    assert _keeping(tmp_path).run([trial], start=diverge) == []
    study = _keeping(tmp_path)
    (run,) = study.run([_longer(trial)])
    assert run.config.steps == 3
    assert study.diverged == {}


def test_what_is_kept_of_a_run_has_no_figures_of_single_images(tmp_path):
    folder, keep = tmp_path / "run", tmp_path / "kept"
    folder.mkdir()
    results = {
        "psnr": {"psnr": 20.0, "psnr_per_image": [19.0, 21.0], "mse_per_image": [1.0]},
        "mig": {"mig": 0.5, "gap_per_source": [0.5]},
    }
    metrics = {"scores": {"psnr/psnr": 20.0}, "results": results}

    def start(folder, pictures, stop):
        (folder / "metrics.json").write_text(json.dumps(metrics))
        (folder / "config.json").write_text("{}")
        return {"state": "finished", "cpu_seconds": 1.0}

    names = ("config.json", "metrics.json", "spent.json")
    trials_module.run_and_keep(folder, start, keep, names, threading.Event())
    kept = json.loads((keep / "run" / "metrics.json").read_text())
    assert kept["results"] == {"psnr": {"psnr": 20.0}, "mig": results["mig"]}
    assert kept["scores"] == metrics["scores"]
    # The run itself has all of them.
    assert json.loads((folder / "metrics.json").read_text()) == metrics


def test_a_run_of_other_settings_in_the_work_folder_is_not_the_one_that_is_kept(
    tmp_path,
):
    (trial,) = plan_sweep(["hfs"], ["grid2d"], [3], settings=TINY)
    first = _keeping(tmp_path)
    first.run([trial])
    # Elsewhere the longer run was made, and what is kept of it came back.
    shutil.move(first.workdir, tmp_path / "old")
    first.run([_longer(trial)])
    shutil.rmtree(first.workdir)
    shutil.move(tmp_path / "old", first.workdir)
    (run,) = _keeping(tmp_path).run([_longer(trial)])
    assert run.config.steps == 3
    assert run.path.parent == first.kept


def test_what_an_interruption_left_unkept_is_kept_at_the_next_start(tmp_path):
    """The scores are written; the file that is made of them afterwards is not."""
    trials = plan_sweep(["hfs"], ["grid2d"], [3], settings=TINY)
    is_first = [True]

    def start(folder, pictures, stop):
        status = run_here(folder, pictures, stop)
        if is_first.pop() if is_first else False:
            raise KeyboardInterrupt
        (folder / "more.txt").write_text(folder.name)
        return status

    with pytest.raises(KeyboardInterrupt):
        _keeping(tmp_path, "more.txt").run(trials, start=start)
    study = _keeping(tmp_path, "more.txt")
    runs = study.run(trials, start=start)
    assert [(run.path / "more.txt").read_text() for run in runs] == [
        trial.name for trial in trials
    ]
    assert study.finished({"HFS": trials}) == {"HFS": trials}


def test_a_failed_trial_stops_the_study_and_names_its_log(finished, tmp_path):
    study, trials, _ = finished
    elsewhere = dataclasses.replace(study, workdir=tmp_path)

    def fail(folder, pictures, stop):
        return {"state": "failed", "attempts": 2}

    with pytest.raises(RuntimeError, match=r"1 trials failed(.|\n)*log\.txt"):
        elsewhere.run(trials[:1], start=fail)


def test_record(finished):
    study, _, runs = finished
    groups = [summarise("HFS", runs, [{"more/score": 1.0}, {"more/score": 2.0}])]
    path = study.write({"question": "?"}, groups, {"found": 1})
    assert path.parent == study.workdir  # a quick study leaves the project alone
    record = json.loads(path.read_text())
    check_record(record)
    assert record["groups"][0]["scores"]["more/score"]["mean"] == 1.5
    rows = record["groups"][0]["runs"]
    assert [row["seed"] for row in rows] == [3, 4]
    assert {row["processor"] for row in rows} == {processor()}
    assert record["seconds"]["all_runs"] > 0


def check_record(record):
    """What every record must hold; intervals are computed again from single runs."""
    for name in ("study", "command", "settings", "code", "machine", "findings"):
        assert record[name] or name == "findings", name
    assert {"processor", "cores", "packages"} <= set(record["machine"])
    assert record["seconds"]["all_runs"] > 0
    for entry in record["groups"]:
        assert "data_dir" not in entry["config"]
        for name, value in entry["scores"].items():
            single = [row["scores"].get(name) for row in entry["runs"]]
            single = [number for number in single if number is not None]
            assert value["count"] == len(single)
            assert value["mean"] == pytest.approx(np.mean(single))
            if len(single) > 1:
                assert value["half_width"] == pytest.approx(t_interval(single))


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_committed_records(path):
    record = json.loads(path.read_text())
    assert record["study"] == path.stem
    assert not record["quick"]
    check_record(record)


def test_processor_time_of_a_trial_leaves_out_its_neighbours(tmp_path, monkeypatch):
    """One process works, the other sleeps, at the same time."""
    work = "import time\nwhile time.process_time() < 0.6: pass"
    commands = {"busy": work, "idle": "import time; time.sleep(1)"}

    def run_trial(folder, pictures, start, stop):
        with open(folder / "log.txt", "w", encoding="utf-8") as log:
            command = [sys.executable, "-c", commands[folder.name]]
            ended = start(command, log, lambda: None)
        return {"state": "finished" if ended.code == 0 else "failed"}

    monkeypatch.setattr(trials_module, "run_trial", run_trial)
    for name in commands:
        (tmp_path / name).mkdir()
    with ThreadPoolExecutor(2) as pool:
        folders = [tmp_path / name for name in commands]
        busy, idle = pool.map(run_apart, folders)
    assert busy["state"] == idle["state"] == "finished"
    assert busy["cpu_seconds"] >= 0.6 > 0.4 > idle["cpu_seconds"]
