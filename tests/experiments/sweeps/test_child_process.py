"""Trials end when they are told to, when they hang, and with their sweep."""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from experiments.settings.command_line import INTERRUPTED, TERMINATED
from experiments.storage.checkpoints import CheckpointStore
from experiments.sweeps import trial_process
from experiments.sweeps.child_process import Ended, run_child
from experiments.sweeps.engines import run_local
from experiments.sweeps.trial_process import run_trial
from tests.conftest import ROOT
from tests.experiments.test_commands import (
    start,
    stop_training,
    train_flags,
    wait_for,
)

SAVES = """
import signal, sys, time
def save(*_):
    print("saved", flush=True)
    sys.exit(143)
signal.signal(signal.SIGTERM, save)
print("ready", flush=True)
time.sleep(600)
"""
HANGS = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready", flush=True)
time.sleep(600)
"""


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that nobody has waited for does not."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii")
    except OSError:
        return False
    return text.rpartition(")")[2].split()[0] != "Z"


def run_script(script, tmp_path, end, **options):
    path = tmp_path / "log.txt"
    with open(path, "a", encoding="utf-8") as log:
        ended = run_child(
            [sys.executable, "-c", script], log, lambda: end(path), **options
        )
    return ended, path.read_text()


def when_ready(reason):
    return lambda log: reason if "ready" in log.read_text() else None


def test_a_process_ends_by_itself(tmp_path):
    ended, text = run_script("print(1); raise SystemExit(3)", tmp_path, lambda _: None)
    assert (ended.code, ended.reason, text) == (3, None, "1\n")


def test_a_process_that_is_told_to_end_saves(tmp_path):
    ended, text = run_script(SAVES, tmp_path, when_ready("stopped"))
    assert (ended.code, ended.reason, text) == (143, "stopped", "ready\nsaved\n")


def test_a_process_that_does_not_end_is_killed(tmp_path):
    ended, _ = run_script(HANGS, tmp_path, when_ready("stopped"), grace=0.3)
    assert ended.code == -signal.SIGKILL


def test_an_error_of_the_caller_ends_the_process(tmp_path):
    def fail(log):
        if "ready" in log.read_text():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_script(SAVES, tmp_path, fail)
    assert "saved" in (tmp_path / "log.txt").read_text()


@pytest.mark.parametrize("kills", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_process_ends_with_the_one_that_started_it(tmp_path, kills):
    child = (
        "import os, time\nfrom experiments.sweeps.child_process import end_with_stdin\n"
        "end_with_stdin()\nprint(os.getpid(), flush=True)\ntime.sleep(600)"
    )
    # A shell starts what runs in the background with Ctrl-C ignored.
    parent = (
        "import signal, sys\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from experiments.sweeps.child_process import run_child\n"
        f"run_child([sys.executable, '-c', {child!r}], open({str(tmp_path / 'log')!r}, "
        "'w'))"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", parent], cwd=ROOT, stderr=subprocess.DEVNULL
    )
    log = tmp_path / "log"
    wait_for(lambda: log.exists() and log.read_text().endswith("\n"), process)
    pid = int(log.read_text())
    assert is_alive(pid)
    process.send_signal(kills)
    process.wait(60)
    wait_for(lambda: not is_alive(pid), seconds=60)


def test_a_stopped_sweep_starts_no_trial_again(tmp_path):
    """What Ctrl-C does to a local sweep: the consumer of its trials goes away."""
    commands, ready = [], threading.Event()

    def runs_until_told(command, log, end):
        commands.append(command)
        ready.set()
        wait_for(end)
        return Ended(143, 0.0, end())

    def run(folder, stop):
        return run_trial(folder, start=runs_until_told, stop=stop)

    folders = [tmp_path / name for name in "abc"]
    for folder in folders:
        folder.mkdir()

    def interrupt(folder, stop):
        if folder.name == "a":
            ready.wait(60)
            return {"state": "finished", "attempts": 1}
        return run(folder, stop)

    trials = run_local(folders, workers=2, run=interrupt)
    assert next(trials)[0].name == "a"
    trials.close()
    saved = json.loads((folders[1] / "status.json").read_text())
    assert saved == {"state": "stopped", "attempts": 1}
    assert len(commands) <= 2  # `b`, and `c` if it took the place of `a`


def test_a_trial_without_progress_is_ended_and_recorded(tmp_path, monkeypatch):
    """Each attempt lives as long as its files change, by a clock that the test sets."""
    clock, answers = [0.0], []
    monkeypatch.setattr(trial_process.time, "monotonic", lambda: clock[0])

    def works_then_hangs(command, log, end):
        for row in range(1, 8):
            clock[0] += 40.0
            if row <= 5:
                (tmp_path / "history.jsonl").write_text("x" * row)
            answers.append(end())
        return Ended(-9, 0.0, answers[-1])

    status = run_trial(tmp_path, start=works_then_hangs, timeout=60.0)
    assert answers == [*[None] * 6, "timeout"] * 2
    assert (status["state"], status["reason"]) == ("failed", "timeout")
    assert json.loads((tmp_path / "status.json").read_text()) == status


@pytest.mark.parametrize("error", [OSError("folder is gone"), ValueError("broken")])
def test_an_error_around_a_trial_fails_it_alone(tmp_path, error):
    def run(folder, stop):
        if folder.name == "a":
            raise error
        return {"state": "finished", "attempts": 1}

    found = dict(run_local([tmp_path / "a", tmp_path / "b"], run=run))
    assert found[tmp_path / "a"]["state"] == "failed"
    assert str(error) in found[tmp_path / "a"]["log"]
    assert found[tmp_path / "b"]["state"] == "finished"


def trial_processes(folder) -> list[int]:
    """Trials whose folder lies below one."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = entry.read_bytes().split(b"\0")
        except OSError:
            continue
        if any(w.startswith(f"--workdir={folder}/".encode()) for w in words):
            found.append(int(entry.parent.name))
    return [pid for pid in found if is_alive(pid)]


@pytest.mark.slow
@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs /proc")
@pytest.mark.parametrize(
    ("number", "code"),
    [
        (signal.SIGINT, INTERRUPTED),
        (signal.SIGTERM, TERMINATED),
        (signal.SIGKILL, -signal.SIGKILL),
    ],
)
def test_trials_end_with_their_sweep(tmp_path, number, code):
    flags = ["--methods=ae", "--seeds=0,1", "--workers=2", "--nopictures"]
    flags += train_flags(tmp_path, steps=100_000, every=100_000)
    process = start("sweep", *flags)
    folders = [tmp_path / f"mini_shapes3d-ae-seed{seed}" for seed in (0, 1)]
    wait_for(lambda: all((f / "history.jsonl").exists() for f in folders), process)
    assert len(trial_processes(tmp_path)) == 2
    process.send_signal(number)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == code
    assert "Traceback" not in errors
    wait_for(lambda: not trial_processes(tmp_path), seconds=60)
    for folder in folders:
        assert CheckpointStore(folder / "checkpoints").latest().step > 0
        state = json.loads((folder / "status.json").read_text())["state"]
        assert state == ("running" if number == signal.SIGKILL else "stopped")


@pytest.mark.slow
def test_ctrl_c_saves_without_a_traceback(tmp_path):
    code, errors = stop_training(tmp_path, signal.SIGINT)
    assert code == INTERRUPTED
    assert "Traceback" not in errors
