"""A disk that fills up costs time, never the run."""

import errno
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from experiments.running.training_loop import FINISHED, TrainingLoop
from experiments.settings.command_line import UNWRITABLE, _FullDiskStream
from experiments.storage import patience
from experiments.storage.checkpoints import CheckpointStore
from experiments.storage.folder_lock import WorkdirInUseError
from experiments.storage.patience import Patience, UnwritableError
from experiments.storage.run_directory import RunDirectory
from experiments.storage.step_table import StepTable
from qlayers import files
from qlayers.files import write_bytes
from tests.experiments.runs import tiny_run

FULL = OSError(errno.ENOSPC, "No space left on device")


class FullDisk:
    """Refuses writes while `full` is set, at the two functions that all go through."""

    def __init__(self, monkeypatch) -> None:
        self.full = False
        write, append = Path.write_bytes, os.write

        def write_some(path, content):
            if self.full:
                write(path, bytes(content)[:3])
                raise FULL
            return write(path, content)

        def append_some(descriptor, content):
            if self.full:
                append(descriptor, content[:3])
                raise FULL
            return append(descriptor, content)

        monkeypatch.setattr(files.Path, "write_bytes", write_some)
        monkeypatch.setattr(os, "write", append_some)


@pytest.fixture
def disk(monkeypatch):
    return FullDisk(monkeypatch)


def test_the_error_names_the_file_and_leaves_the_old_one(tmp_path, disk):
    path = tmp_path / "weights.bin"
    write_bytes(path, b"old")
    disk.full = True
    with pytest.raises(OSError, match=r"No space left on device: '.*weights\.bin'"):
        write_bytes(path, b"new")
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["weights.bin"]


def test_rows_wait_in_memory(tmp_path, disk):
    table = StepTable(tmp_path / "history.jsonl")
    table.append({"step": 1})
    disk.full = True
    table.append({"step": 2})
    table.append({"step": 3})
    with pytest.raises(OSError, match=r"history\.jsonl"):
        table.flush()
    assert table.path.read_text() == '{"step": 1}\n'
    disk.full = False
    table.append({"step": 4})
    assert [row["step"] for row in table.read()] == [1, 2, 3, 4]


def test_a_folder_on_a_full_disk_can_be_locked(tmp_path, disk):
    disk.full = True
    with (
        RunDirectory(tmp_path),
        pytest.raises(WorkdirInUseError),
        RunDirectory(tmp_path),
    ):
        pass


def test_patience_ends(tmp_path, monkeypatch):
    clock, said = [0.0], []
    monkeypatch.setattr(patience.time, "monotonic", lambda: clock[0])

    def sleep(seconds):
        clock[0] += seconds

    def write():
        raise FULL

    monkeypatch.setattr(patience.time, "sleep", sleep)
    with pytest.raises(
        UnwritableError, match="nothing could be written for 6"
    ) as error:
        Patience(tmp_path, said.append).insist(write)
    assert error.value.exit_code == UNWRITABLE == 5
    assert patience.PATIENCE_SECONDS <= clock[0] < patience.PATIENCE_SECONDS + 20
    assert len(said) == 1
    # A run that is told to end does not wait.
    clock[0] = 0.0
    with pytest.raises(UnwritableError):
        Patience(tmp_path, said.append, lambda: True).insist(write)
    assert clock[0] == 0.0


def test_output_to_a_full_disk_is_lost_in_silence():
    class Stream:
        def write(self, text):
            raise FULL

        flush = write

    stream = _FullDiskStream(Stream())
    assert stream.write("text") == 4
    broken = Stream()
    broken.write = lambda text: (_ for _ in ()).throw(BrokenPipeError(32, "broken"))
    with pytest.raises(BrokenPipeError):
        _FullDiskStream(broken).write("text")


def assert_same_files(ours, theirs):
    for name in ("history.jsonl", "evaluations.jsonl"):
        assert (ours / name).read_text() == (theirs / name).read_text()
    states = [CheckpointStore(f / "checkpoints").latest() for f in (ours, theirs)]
    for left, right in zip(*(state.arrays for state in states), strict=True):
        np.testing.assert_array_equal(left, right)
    metrics = [RunDirectory(f).load_metrics() for f in (ours, theirs)]
    assert metrics[0]["scores"] == metrics[1]["scores"]
    assert metrics[0]["checkpoint"] == metrics[1]["checkpoint"]
    assert "value" in metrics[0]["checkpoint"]


def run_through_full_disk(folder, fill, free, steps):
    """Fills the disk after the row of step 4 and frees it after that of `free`."""
    run = tiny_run(folder, steps=steps)
    log = run._log

    def logged(step, terms):
        log(step, terms)
        if step == 4:
            fill()
        if step == free[0]:
            free[1]()

    run._log = logged
    return run.run()


@pytest.fixture(scope="module")
def whole_run(tmp_path_factory):
    """A run that nothing hindered."""
    folder = tmp_path_factory.mktemp("whole")
    assert tiny_run(folder).run() == FINISHED
    return folder


def test_a_run_bears_with_a_full_disk_and_ends_the_same(
    whole_run, tmp_path, disk, monkeypatch
):
    monkeypatch.setattr(TrainingLoop, "_is_due", lambda self: True)

    def switch(state):
        disk.full = state

    # The best checkpoint of step 6 cannot be written when it is found.
    outcome = run_through_full_disk(
        tmp_path, lambda: switch(True), (10, lambda: switch(False)), 12
    )
    assert outcome == FINISHED
    assert_same_files(whole_run, tmp_path)


@pytest.mark.slow
def test_a_run_that_cannot_write_at_all_stops_and_goes_on_later(
    whole_run, tmp_path, disk, monkeypatch
):
    monkeypatch.setattr(TrainingLoop, "_is_due", lambda self: True)
    monkeypatch.setattr(patience, "PATIENCE_SECONDS", 0.0)

    def fill():
        disk.full = True

    with pytest.raises(UnwritableError):
        run_through_full_disk(tmp_path, fill, (None, None), 12)
    disk.full = False
    assert tiny_run(tmp_path).run() == FINISHED
    assert_same_files(whole_run, tmp_path)


@pytest.mark.slow
def test_a_run_on_a_file_system_that_is_full(tmp_path, monkeypatch):
    """A real one of a few hundred kB: with pictures, weights and TensorBoard files."""
    small = tmp_path / "small"
    small.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(small)]
    if os.getuid() != 0 or subprocess.run(mount, check=False).returncode != 0:
        pytest.skip("only root can mount a small file system")
    monkeypatch.setattr(TrainingLoop, "_is_due", lambda self: True)

    def fill():
        file = os.open(small / "filler", os.O_WRONLY | os.O_CREAT)
        try:
            while os.write(file, bytes(512)):
                pass
        except OSError:
            os.close(file)

    try:
        whole, full = tmp_path / "whole", small / "full"
        assert tiny_run(whole).run() == FINISHED
        free = (10, (small / "filler").unlink)
        assert run_through_full_disk(full, fill, free, 12) == FINISHED
        assert_same_files(whole, full)
    finally:
        subprocess.run(["umount", "-l", str(small)], check=False)
