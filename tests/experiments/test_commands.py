"""The commands as a user starts them, in processes of their own."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import numpy as np
import pytest

from experiments.settings.command_line import DIVERGED, IN_USE
from experiments.storage.checkpoints import CheckpointStore
from experiments.storage.run_directory import RunDirectory
from experiments.sweeps.child_process import Ended
from experiments.sweeps.trial_process import run_trial
from tests.experiments.reporting.browser import Browser, free_port
from tests.experiments.runs import read_rows, tiny_config

ROOT = Path(__file__).resolve().parents[2]
TINY = [
    "--profile=cpu",
    "--network=locatello",
    "--width=0.125",
    "--num_latents=4",
    "--batch_size=8",
    "--log_every=2",
    "--evaluation_size=200",
    "--metrics=fast",
]


def start(module, *arguments, **options):
    return subprocess.Popen(
        [sys.executable, "-m", f"experiments.{module}", *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def launch(module, *arguments):
    """Exit code, output and errors of a command."""
    process = start(module, *arguments)
    output, errors = process.communicate(timeout=600)
    return process.returncode, output, errors


def train_flags(folder, steps=60, every=20):
    flags = [f"--steps={steps}", f"--evaluate_every={every}", f"--workdir={folder}"]
    return [*TINY, *flags]


def stop_training(folder, number):
    """Sends a signal to a training, which saves the step that it names.

    Returns:
        Its exit code and what it wrote to the error output.
    """
    process = start("train", *train_flags(folder, steps=100_000, every=100_000))
    wait_for(lambda: (folder / "history.jsonl").exists(), process)
    process.send_signal(number)
    output, errors = process.communicate(timeout=120)
    step = int(re.search(r"Stopped at step (\d+)", output)[1])
    assert CheckpointStore(folder / "checkpoints").latest().step == step
    return process.returncode, errors


def wait_for(condition, process=None, seconds=300):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return
        if process is not None and process.poll() is not None:
            raise AssertionError(process.communicate())
        time.sleep(0.02)
    raise TimeoutError


@pytest.mark.slow
def test_killed_run_ends_like_a_whole_one(tmp_path):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert launch("train", *train_flags(whole))[0] == 0
    # Killed without warning, twice: at about step 10 and at about step 30.
    for step in (10, 30):
        process = start("train", *train_flags(killed), "--checkpoint_seconds=0.01")

        def reached(wanted=step):
            files = CheckpointStore(killed / "checkpoints").files()
            return any(int(file.stem[5:]) >= wanted for file in files)

        wait_for(reached, process)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert not (killed / "metrics.json").exists()
    code, output, _ = launch("train", *train_flags(killed))
    assert code == 0
    assert re.search(r"Continuing .* from step \d+", output)
    for name in ("history.jsonl", "evaluations.jsonl"):
        assert (killed / name).read_text() == (whole / name).read_text()
    states = [CheckpointStore(run / "checkpoints").latest() for run in (whole, killed)]
    for left, right in zip(*(state.arrays for state in states), strict=True):
        np.testing.assert_array_equal(left, right)
    scores = [
        json.loads((run / "metrics.json").read_text())["scores"]
        for run in (whole, killed)
    ]
    assert scores[0] == scores[1]

    code, output, _ = launch("train", *train_flags(killed))
    assert code == 0 and "nothing left to do" in output
    code, output, _ = launch("evaluate", f"--workdir={killed}")
    assert code == 0 and "infomec/modularity" in output
    again = json.loads((killed / "metrics.json").read_text())["scores"]
    assert again == scores[0]
    code, output, _ = launch("report", f"--workdir={tmp_path}")
    assert code == 0 and "| qlae" in output
    check_tensorboard(tmp_path)


@contextlib.contextmanager
def tensorboard(folder):
    """A TensorBoard of a folder that answers; yields its address."""
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "tensorboard.main", f"--logdir={folder}"]
    server = subprocess.Popen(
        [*command, f"--port={port}", "--load_fast=false"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )

    def answers():
        try:
            urllib.request.urlopen(address, timeout=10).close()
        except OSError:
            return False
        return True

    try:
        wait_for(answers, server)
        yield address
    finally:
        server.terminate()
        server.wait(60)


def check_tensorboard(folder):
    """TensorBoard lists what a run has written, and the projector shows it."""

    def get(path):
        with urllib.request.urlopen(f"{address}/{path}", timeout=30) as answer:
            return json.load(answer)

    def tags(plugin):
        try:
            return get(f"{plugin}/tags").get("whole", {})
        except OSError:
            return {}

    with tensorboard(folder) as server:
        address = f"{server}/data/plugin"
        wait_for(lambda: "final/infomec/modularity" in tags("scalars"))
        scalars = tags("scalars")
        assert "train/quantizer_commit_loss" in scalars
        assert "settings/learning_rate" in scalars
        assert "speed/images_per_second" in scalars
        assert "metrics/infomec/modularity" in scalars
        rows = get("scalars/scalars?run=whole&tag=train/loss")
        assert [row[1] for row in rows][-1] == 60
        assert {"reconstructions", "traversals/0", "nmi"} <= set(tags("images"))
        assert "codes/latent_0" in tags("histograms")
        wait_for(lambda: "whole/projector" in get("projector/runs"))
        info = get("projector/info?run=whole/projector")["embeddings"]
        assert info[0]["tensorName"] == "1-step-60"
        request = urllib.request.Request(
            f"{address}/hparams/experiment",
            data=json.dumps({"experimentName": ""}).encode(),
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            columns = json.load(answer)["hparamInfos"]
        assert "weight_decay" in {column["name"] for column in columns}


@pytest.mark.slow
def test_sigterm_saves(tmp_path):
    code, _ = stop_training(tmp_path, signal.SIGTERM)
    assert code == 143


@pytest.mark.slow
def test_sweep_goes_on_after_a_failure(tmp_path):
    sweep = [
        "--methods=ae,qlae",
        "--seeds=0",
        "--nopictures",
        *train_flags(tmp_path, 4, 4),
    ]
    broken = tmp_path / "mini_shapes3d-ae-seed0"
    broken.mkdir()
    (broken / "checkpoints").write_text("a file where a folder should be")
    code, output, _ = launch("sweep", *sweep)
    assert code != 0
    (broken / "checkpoints").unlink()
    code, output, _ = launch("sweep", *sweep)
    assert code == 0, output
    assert "2 trials" in output
    assert json.loads((broken / "status.json").read_text())["state"] == "finished"
    code, output, _ = launch("sweep", *sweep)
    assert "2 of them finished before" in output


def test_failed_trial_is_tried_twice_and_recorded(tmp_path):
    commands = []

    def fails_once(command, log, end):
        commands.append(command)
        log.write("out of luck\n")
        return Ended(1 if len(commands) == 1 else 0, 0.0)

    status = run_trial(tmp_path, start=fails_once)
    assert status == {"state": "finished", "attempts": 2}

    def fails(command, log, end):
        log.write("out of luck\n")
        return Ended(7, 0.0)

    status = run_trial(tmp_path, start=fails)
    assert (status["state"], status["attempts"], status["exit_code"]) == (
        "failed",
        2,
        7,
    )
    saved = json.loads((tmp_path / "status.json").read_text())
    assert "out of luck" in saved["log"]
    assert "reason" not in saved
    status = run_trial(tmp_path, start=lambda *_: Ended(DIVERGED, 0.0))
    assert (status["state"], status["reason"]) == ("failed", "diverged")


@pytest.mark.slow
def test_divergence_is_an_exit_code_and_a_failed_trial(tmp_path):
    """A learning rate with which the second step's loss overflows."""
    flags = [*train_flags(tmp_path / "run"), "--nopictures", "--learning_rate=1e30"]
    code, output, _ = launch("train", *flags)
    assert code == DIVERGED != 0
    assert "Training diverged: `loss` is nan at step 2" in output
    assert CheckpointStore(tmp_path / "run" / "checkpoints").latest().step == 0


@pytest.mark.slow
def test_bad_command_lines_write_nothing(tmp_path):
    folder = tmp_path / "run"
    code, _, errors = launch(
        "train", f"--workdir={folder}", "--method=qlae", "--set=speed=3"
    )
    assert code == 2
    assert "no hyperparameter speed. It has: beta_1" in errors
    assert "Traceback" not in errors
    assert not folder.exists()


@pytest.mark.slow
def test_a_folder_in_use_has_an_exit_code_of_its_own(tmp_path):
    with RunDirectory(tmp_path) as directory:
        directory.start(tiny_config())
        code, _, errors = launch("evaluate", f"--workdir={tmp_path}")
    assert code == IN_USE == 3
    assert "in use by process" in errors and "Traceback" not in errors


@pytest.mark.slow
def test_help_dry_run_and_unknown_flags(tmp_path):
    folder = tmp_path / "run"
    code, output, _ = launch("train", f"--workdir={folder}", "--dry_run")
    assert code == 0
    settings = json.loads(output[: output.rindex("}") + 1])
    assert settings["method"] == "qlae"
    unset = re.search(r"Left at the method's own default: (.*)\.", output)[1].split(
        ", "
    )
    assert "clip_value" in unset
    assert not set(unset) & set(settings["hyperparameters"])
    code, _, errors = launch("train", f"--workdir={folder}", "--metod=qlae")
    assert code == 1 and "Unknown command line flag 'metod'" in errors
    code, _, errors = launch("train")
    assert code == 1 and "Name a folder, for example --workdir=" in errors
    file = tmp_path / "file"
    file.write_text("")
    code, _, errors = launch("train", f"--workdir={file}", *TINY)
    assert code == 2 and "Traceback" not in errors
    code, _, errors = launch("show_data", "--variant=toy", f"--folder={folder}")
    assert code == 2 and "Traceback" not in errors
    for module in ("train", "evaluate", "sweep", "report"):
        _, output, _ = launch(module, "--help")
        assert "--workdir: " in output
        assert f"python -m experiments.{module}" in output
        assert ("--batch_size: " in output) == (module in ("train", "sweep"))
    code, _, errors = launch("evaluate", f"--workdir={folder}")
    assert code == 2 and "holds no run" in errors
    assert not folder.exists()


@pytest.mark.slow
def test_sweep_on_a_local_ray(tmp_path):
    pytest.importorskip("ray", reason="needs the extra `ray`")
    sweep = ["--methods=ae", "--seeds=0,1", "--nopictures", "--engine=ray"]
    code, output, errors = launch("sweep", *sweep, *train_flags(tmp_path, 4, 4))
    assert code == 0, output + errors
    assert "All finished" in output


@pytest.mark.slow
def test_two_workers_train_one_model(tmp_path):
    cluster = {"worker": [f"127.0.0.1:{free_port()}" for _ in range(2)]}
    flags = [*train_flags(tmp_path, 6, 6), "--strategy=multiworker"]
    flags += ["--method=ae", "--nopictures"]
    workers = []
    for index in range(2):
        task = {"cluster": cluster, "task": {"type": "worker", "index": index}}
        environment = {**os.environ, "TF_CONFIG": json.dumps(task)}
        workers.append(start("train", *flags, env=environment))
    answers = [worker.communicate(timeout=500) for worker in workers]
    assert [worker.returncode for worker in workers] == [0, 0], answers
    found = read_rows(tmp_path / "history.jsonl")
    # The same batches and weights as on one machine, up to rounding.
    alone = tmp_path / "alone"
    flags = [*train_flags(alone, 6, 6), "--method=ae", "--nopictures"]
    assert launch("train", *flags)[0] == 0
    wanted = read_rows(alone / "history.jsonl")
    assert [row["step"] for row in found] == [2, 4, 6]
    for ours, theirs in zip(found, wanted, strict=True):
        assert ours["reconstruction"] == pytest.approx(
            theirs["reconstruction"], rel=1e-4
        )


@pytest.mark.slow
def test_projector_in_a_browser(tmp_path):
    """The projector draws the points of a run."""
    from experiments.running.training_run import TrainingRun

    TrainingRun(tiny_config(steps=2), tmp_path / "run", print).run()
    with Browser(tmp_path / "profile") as browser, tensorboard(tmp_path) as server:
        browser.open(f"{server}/#projector")
        text = """
            function texts(node) {
              let found = node.textContent || "";
              for (const child of node.querySelectorAll("*")) {
                if (child.shadowRoot) found += texts(child.shadowRoot);
                if (child.tagName === "IFRAME" && child.contentDocument) {
                  found += texts(child.contentDocument);
                }
              }
              return found;
            }
            return texts(document).includes("Points: 1000");"""
        browser.wait_for(text, seconds=120)
        assert browser.run(text.replace("Points: 1000", "1-step-2"))
        (tmp_path / "projector.png").write_bytes(browser.screenshot())


@pytest.mark.slow
def test_reproduce_takes_a_published_row(tmp_path):
    code, output, _ = launch("train", "--reproduce=list")
    assert code == 0
    assert re.search(r"^qlae:table1:qlae/shapes3d +runs", output, re.MULTILINE)
    assert re.search(
        r"^friede:table1:selection/dsprites +not here, because", output, re.M
    )
    row = "--reproduce=tripod:table1:tripod_no_nhp/isaac3d"
    flags = [row, "--variant=code", f"--workdir={tmp_path / 'row'}", "--dry_run"]
    code, output, _ = launch("train", *flags, "--seed=3")
    assert code == 0
    config = json.loads(output[: output.rindex("}") + 1])
    found = [config[name] for name in ("method", "dataset", "steps", "protocol")]
    assert found == ["tripod", "isaac3d", 250_000, "tripod"]
    assert config["hyperparameters"]["nhp_weight"] == 0.0
    assert config["hyperparameters"]["learning_rate"] == 2e-4
    assert config["profile"] == "tripod:table1:tripod_no_nhp/isaac3d@code"
