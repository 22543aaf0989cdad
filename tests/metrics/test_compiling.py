"""The cache of compiled loops."""

import subprocess
import sys

import pytest

pytest.importorskip("numba", reason="numba is an extra")

INNER = """
from numba import njit

@njit(cache=True)
def number():
    return {}
"""
OUTER = """
from inner import number
from numba import njit

@njit(cache=True)
def twice():
    return 2 * number()
"""
# The cache is looked at when a function is called first: after the import.
COMMAND = """
import sys
from pathlib import Path

sys.path.insert(0, "{folder}")
if {drop}:
    from qlayers.metrics._trees.compiling import drop_stale_caches

    drop_stale_caches(Path("{folder}"))
import outer

print(outer.twice())
"""


def run(folder, drop):
    command = COMMAND.format(folder=folder, drop=drop)
    done = subprocess.run(
        [sys.executable, "-c", command], check=True, capture_output=True, text=True
    )
    return int(done.stdout)


def test_a_function_sees_changes_in_the_files_of_those_it_calls(tmp_path):
    (tmp_path / "inner.py").write_text(INNER.format(1))
    (tmp_path / "outer.py").write_text(OUTER)
    assert run(tmp_path, drop=False) == 2
    (tmp_path / "inner.py").write_text(INNER.format(5))
    assert run(tmp_path, drop=True) == 10


def test_functions_that_are_up_to_date_stay(tmp_path):
    (tmp_path / "inner.py").write_text(INNER.format(1))
    (tmp_path / "outer.py").write_text(OUTER)
    run(tmp_path, drop=False)
    (index,) = tmp_path.glob("__pycache__/outer.*.nbi")
    before = index.stat().st_mtime_ns
    run(tmp_path, drop=True)
    assert index.stat().st_mtime_ns == before
