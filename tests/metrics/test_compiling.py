"""The cache of compiled loops."""

import subprocess
import sys

import pytest

pytest.importorskip("numba", reason="numba is an extra")

from qlayers.metrics._trees.compiling import drop_stale_caches

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
# A process of its own: numba looks at the cache when a function is called first.
COMMAND = """
import sys

sys.path.insert(0, "{folder}")
import outer

print(outer.twice())
"""


def run(folder):
    done = subprocess.run(
        [sys.executable, "-c", COMMAND.format(folder=folder)],
        check=True,
        capture_output=True,
        text=True,
    )
    return int(done.stdout)


def test_a_function_sees_changes_in_the_files_of_those_it_calls(tmp_path):
    (tmp_path / "inner.py").write_text(INNER.format(1))
    (tmp_path / "outer.py").write_text(OUTER)
    assert run(tmp_path) == 2
    (tmp_path / "inner.py").write_text(INNER.format(5))
    drop_stale_caches(tmp_path)
    assert run(tmp_path) == 10


def test_functions_that_are_up_to_date_stay(tmp_path):
    (tmp_path / "inner.py").write_text(INNER.format(1))
    (tmp_path / "outer.py").write_text(OUTER)
    run(tmp_path)
    (index,) = tmp_path.glob("__pycache__/outer.*.nbi")
    before = index.stat().st_mtime_ns
    drop_stale_caches(tmp_path)
    run(tmp_path)
    assert index.stat().st_mtime_ns == before
