"""The version of the code is that of the process's start."""

import shutil
import subprocess

import pytest

from experiments.storage.provenance import code_version


def _git(folder, *words):
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    command = ["git", "-C", str(folder), *identity, *words]
    subprocess.run(command, check=True, capture_output=True)


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not here")
def test_a_checkout_that_moves_on_leaves_the_version_of_the_code_that_runs(tmp_path):
    _git(tmp_path, "init")
    _git(tmp_path, "commit", "--allow-empty", "-m", "first")
    first = code_version(tmp_path)
    _git(tmp_path, "commit", "--allow-empty", "-m", "second")
    assert code_version(tmp_path) == first
    assert code_version.__wrapped__(tmp_path) != first


def test_a_folder_without_git_has_no_version(tmp_path):
    assert code_version(tmp_path / "none") is None
