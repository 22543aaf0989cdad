"""A run that is interrupted ends like one that is not."""

import errno
import json
import re

import numpy as np
import pytest

from experiments.running.training_loop import DIVERGED, FINISHED, STOPPED, TrainingLoop
from experiments.running.training_run import NOTHING_TO_DO
from experiments.settings.environment import onednn_enabled
from experiments.storage.checkpoints import CheckpointStore, read_snapshot
from experiments.storage.conditions import changed_conditions, conditions
from experiments.storage.folder_lock import WorkdirInUseError
from experiments.storage.run_directory import RunDirectory
from tests.experiments.runs import read_rows, tiny_config, tiny_run


@pytest.fixture(scope="module")
def whole_run(tmp_path_factory):
    """A run that nothing interrupted."""
    folder = tmp_path_factory.mktemp("whole")
    assert tiny_run(folder).run() == FINISHED
    return folder


def assert_same_result(ours, theirs):
    a, b = (
        CheckpointStore(folder / "checkpoints").latest() for folder in (ours, theirs)
    )
    assert a.step == b.step == tiny_config().steps
    for left, right in zip(a.arrays, b.arrays, strict=True):
        np.testing.assert_array_equal(left, right)
    for name in ("history.jsonl", "evaluations.jsonl"):
        assert (ours / name).read_text() == (theirs / name).read_text()
    scores = [json.loads((f / "metrics.json").read_text()) for f in (ours, theirs)]
    assert scores[0]["scores"] == scores[1]["scores"]
    assert scores[0]["checkpoint"] == scores[1]["checkpoint"]


class Crash(Exception):
    """Stands for a kill: nothing is tidied up after it."""


def checkpoint_at(monkeypatch, *steps):
    """Makes checkpoints due at given steps instead of after some seconds."""
    monkeypatch.setattr(TrainingLoop, "_is_due", lambda self: self.step in steps)


def crash_at(run, step):
    """Makes a run raise after its hook of a step, without a last checkpoint."""
    log = run._log

    def crashing(at, terms):
        log(at, terms)
        if at == step:
            raise Crash

    run._log = crashing
    with pytest.raises(Crash):
        run.run()


def test_workdir_contents(whole_run):
    config = json.loads((whole_run / "config.json").read_text())
    assert config["hyperparameters"]["commit_weight"] == 0.01
    assert config["model"]["optimizer"]["learning_rate"] == pytest.approx(1e-3)
    assert config["provenance"]["packages"]["keras"]
    metrics = json.loads((whole_run / "metrics.json").read_text())
    assert 0 <= metrics["scores"]["infomec/modularity"] <= 1
    assert metrics["settings"]["samples"] == 200
    steps = [row["step"] for row in read_rows(whole_run / "history.jsonl")]
    assert steps == [2, 4, 6, 8, 10, 12]
    evaluated = [row["step"] for row in read_rows(whole_run / "evaluations.jsonl")]
    assert evaluated == [0, 6, 12]
    assert not list(whole_run.rglob("partial-*"))


def test_reported_checkpoint_is_the_best_infom(whole_run):
    rows = read_rows(whole_run / "evaluations.jsonl")
    chosen = json.loads((whole_run / "metrics.json").read_text())["checkpoint"]
    # An untrained model is never reported.
    best = max(row["infomec/modularity"] for row in rows if row["step"])
    assert chosen["value"] == best


def test_exported_networks_need_qlayers_alone(whole_run):
    import keras

    encoder = keras.models.load_model(whole_run / "encoder.keras")
    decoder = keras.models.load_model(whole_run / "decoder.keras")
    images = np.random.default_rng(0).random((2, 32, 32, 3), dtype="float32")
    assert decoder(encoder(images)).shape == (2, 32, 32, 3)


def test_finished_run_has_nothing_to_do(whole_run):
    said = []
    before = (whole_run / "metrics.json").read_bytes()
    run = tiny_run(whole_run, said.append)
    assert run.run() == NOTHING_TO_DO
    assert "nothing left to do" in said[0]
    assert (whole_run / "metrics.json").read_bytes() == before


def test_crashed_run_continues_bit_for_bit(whole_run, tmp_path, monkeypatch):
    # The checkpoint is in the middle of a row's running means, and rows of steps 6 and
    # 8 and an evaluation have been written since.
    checkpoint_at(monkeypatch, 5)
    crash_at(tiny_run(tmp_path), 8)
    assert '"step": 8' in (tmp_path / "history.jsonl").read_text()
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["provenance"]["onednn"] == onednn_enabled()
    assert config["provenance"]["xla"] is False  # too short to be compiled
    config["provenance"]["onednn"] = not onednn_enabled()
    config["provenance"] |= {"threads": 99, "code": "abc1234"}
    (tmp_path / "config.json").write_text(json.dumps(config))
    said = []
    again = tiny_run(tmp_path, said.append)
    assert again.run() == FINISHED
    assert_header(said[0], again)
    assert re.match(r"Continuing .* from step 5\.", said[1])
    assert "From step 5 on, the code was 'abc1234'" in said[2]
    assert "(--threads) was 99 and is" in said[2] and "oneDNN" in said[2]
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    (start,) = metrics["provenance"]["continued"]
    assert start["step"] == 5 and start["onednn"] == onednn_enabled()
    # The next start compares with this one.
    directory = RunDirectory(tmp_path)
    assert not changed_conditions(directory, conditions(tiny_config()))
    changed = changed_conditions(directory, conditions(tiny_config(threads=77)))
    assert list(changed) == ["threads"] and changed["threads"][1] == 77
    changed = changed_conditions(directory, conditions(tiny_config(jit="on")))
    assert changed == {"xla": (False, True)}
    assert_same_result(whole_run, tmp_path)


def assert_header(text, run):
    """A run opens with what it is; the counts are Keras's own."""
    rows = dict(line.split(maxsplit=1) for line in text.splitlines())
    assert rows["method"].startswith("qlae (Hsu et al. 2023")
    assert rows["dataset"].startswith("mini_shapes3d: 480,000 images of 32x32x3; floor")
    encoder, decoder = (
        sum(w.numpy().size for w in part.trainable_weights)
        for part in (run.model.encoder, run.model.decoder)
    )
    assert f"encoder {encoder:,}, decoder {decoder:,}" in rows["networks"]
    assert "4 latents, LatentQuantizer" in rows["networks"]
    assert rows["training"].startswith("12 steps of 8 images")
    assert rows["folder"].startswith(str(run.directory.path))


@pytest.mark.slow
def test_stopped_run_saves_and_continues(whole_run, tmp_path):
    run = tiny_run(tmp_path)
    log = run._log
    run._log = lambda step, *rest: (log(step, *rest), step >= 4 and run._stop.set())
    assert run.run() == STOPPED
    assert (
        read_snapshot(CheckpointStore(tmp_path / "checkpoints").files()[-1]).step == 4
    )
    assert tiny_run(tmp_path).run() == FINISHED
    assert_same_result(whole_run, tmp_path)


@pytest.mark.slow
def test_damaged_checkpoint_falls_back(whole_run, tmp_path, monkeypatch):
    checkpoint_at(monkeypatch, 3, 5, 7)
    crash_at(tiny_run(tmp_path), 8)
    kept = CheckpointStore(tmp_path / "checkpoints").files()
    assert [path.name for path in kept] == ["step-000000005.npz", "step-000000007.npz"]
    newest = kept[-1]
    content = bytearray(newest.read_bytes())
    content[len(content) // 2] ^= 0xFF
    newest.write_bytes(bytes(content))
    said = []
    again = tiny_run(tmp_path, said.append)
    assert again.run() == FINISHED
    assert "step-000000007.npz is damaged" in said[1]
    assert "from step 5" in said[2]
    assert_same_result(whole_run, tmp_path)


@pytest.mark.slow
def test_full_disk_keeps_the_last_good_checkpoint(tmp_path, monkeypatch):
    from experiments.storage import checkpoints

    write_bytes = checkpoints.write_bytes
    calls = []

    def full(path, content):
        calls.append(path)
        if len(calls) in (3, 4, 5):
            raise OSError(errno.ENOSPC, "No space left on device")
        write_bytes(path, content)

    monkeypatch.setattr(checkpoints, "write_bytes", full)
    checkpoint_at(monkeypatch, 1, 2, 3, 4, 5, 6)
    said = []
    run = tiny_run(tmp_path, said.append, steps=6)
    assert run.run() == FINISHED
    failures = [text for text in said if "No space left" in text]
    assert len(failures) == 3
    assert "step-000000001.npz, step-000000002.npz" in failures[0]
    names = [path.name for path in CheckpointStore(tmp_path / "checkpoints").files()]
    assert names == ["step-000000002.npz", "step-000000006.npz"]
    assert not list(tmp_path.rglob("partial-*"))


def test_second_process_is_told(tmp_path):
    with RunDirectory(tmp_path) as first:
        first.start(tiny_config())
        run = tiny_run(tmp_path)
        with pytest.raises(WorkdirInUseError, match="in use by process"):
            run.run()


def test_other_settings_in_the_same_folder_are_refused(tmp_path):
    with RunDirectory(tmp_path) as directory:
        directory.start(tiny_config())
        with pytest.raises(ValueError, match="batch_size: 8 there, 16 now"):
            directory.start(tiny_config(batch_size=16))
        assert directory.start(tiny_config(threads=2))
        assert directory.start(tiny_config(steps=20))
        assert directory.load_config().steps == 20


def test_failure_before_the_start_leaves_nothing_behind(tmp_path):
    folder = tmp_path / "run"
    with pytest.raises(ValueError):
        tiny_run(folder, image_size=30).run()
    assert not folder.exists()
    with pytest.raises(ValueError, match="'mini_shapes3d' and its options do not"):
        tiny_run(folder, dataset_options={"colour": "red"}).run()
    assert not folder.exists()


def poisoned(monkeypatch, step):
    """Makes the batch of a step NaN, at every start."""
    from experiments.running import training_run as training

    make_stream = training.make_stream

    def stream(config, dataset, start):
        batches = make_stream(config, dataset, start).enumerate(start)
        return batches.map(lambda i, x: _nan_at(i, x, step))

    monkeypatch.setattr(training, "make_stream", stream)


def _nan_at(i, images, step):
    import tensorflow as tf

    images = tf.image.convert_image_dtype(images, tf.float32)
    return tf.where(i == step - 1, np.float32(np.nan), images)


@pytest.mark.parametrize("saves", [(5, 7, 8), pytest.param((), marks=pytest.mark.slow)])
@pytest.mark.slow
def test_diverged_run_keeps_the_last_good_state(tmp_path, monkeypatch, saves):
    poisoned(monkeypatch, 9)
    checkpoint_at(monkeypatch, *saves)
    said = []
    bad = tmp_path / "bad"
    run = tiny_run(bad, said.append)
    assert run.run() == DIVERGED
    assert "`loss` is nan at step 9" in said[-2]
    # Copies are taken at rows, every 2 steps; that of step 8 was never tried.
    status = json.loads((bad / "status.json").read_text())
    assert (status["state"], status["step"], status["restored_step"]) == (
        "diverged",
        9,
        6,
    )
    kept = CheckpointStore(bad / "checkpoints").latest()
    assert kept.step == 6
    assert not (bad / "metrics.json").exists()
    assert not (bad / "encoder.keras").exists()
    # A run of the same data that was saved at step 6, and ended there.
    checkpoint_at(monkeypatch, 6)
    good = tmp_path / "good"
    crash_at(tiny_run(good), 8)
    wanted = CheckpointStore(good / "checkpoints").latest()
    for ours, theirs in zip(kept.arrays, wanted.arrays, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    rows = read_rows(bad / "history.jsonl")
    assert [row["step"] for row in rows] == [2, 4, 6, 8]
    assert np.isfinite([row["loss"] for row in rows]).all()


@pytest.mark.slow
def test_diverged_run_goes_on_when_the_cause_is_gone(tmp_path, monkeypatch):
    whole, cured = tmp_path / "whole", tmp_path / "cured"
    with monkeypatch.context() as patch:
        poisoned(patch, 9)
        run = tiny_run(cured)
        assert run.run() == DIVERGED
        # And again, from the good state, as long as nothing has changed.
        run = tiny_run(cured)
        assert run.run() == DIVERGED
    poisoned(monkeypatch, -1)
    for folder in (whole, cured):
        run = tiny_run(folder)
        assert run.run() == FINISHED
    assert not (cured / "status.json").exists()
    assert_same_result(whole, cured)
