"""A folder's lock, and what others may have put in its place."""

import pytest

from experiments.storage.folder_lock import FolderLock, WorkdirInUseError


def test_a_lock_keeps_others_out_until_it_is_left(tmp_path):
    with FolderLock(tmp_path), pytest.raises(WorkdirInUseError, match="in use by"):
        FolderLock(tmp_path).__enter__()
    with FolderLock(tmp_path):
        pass


def test_a_lock_that_is_a_link_is_refused(tmp_path):
    """Its target would be overwritten, wherever it lies."""
    target = tmp_path / "precious.txt"
    target.write_text("mine")
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / ".lock").symlink_to(target)
    with pytest.raises(ValueError, match=r"run/\.lock is a link"):
        FolderLock(folder).__enter__()
    assert target.read_text() == "mine"
    target.unlink()
    with pytest.raises(ValueError, match="is a link"):
        FolderLock(folder).__enter__()
    assert not target.exists()


def test_a_folder_may_be_reached_through_a_link(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "latest").symlink_to("run")
    with FolderLock(tmp_path / "latest"):
        assert (tmp_path / "run" / ".lock").is_file()
