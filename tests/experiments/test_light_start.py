"""Commands answer `--help` and typos before they load TensorFlow."""

import os
import subprocess
import sys

import pytest

from tests.conftest import ROOT

COMMANDS = (
    "train",
    "evaluate",
    "sweep",
    "report",
    "show_data",
    "prepare",
    "demo",
    "select",
    "explore",
)
HEAVY = ("tensorflow", "keras", "sklearn", "tensorflow_datasets")
# Runs a command as `python -m` does, then says which heavy packages it loaded.
SCRIPT = """
import runpy, sys
sys.argv = ["experiments." + sys.argv[1], *sys.argv[2:]]
try:
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
except SystemExit as end:
    print("exit", end.code)
print("loaded", *[name for name in {heavy!r} if name in sys.modules])
"""


def run(*arguments, script=None, **variables):
    code = script or SCRIPT.replace("{heavy!r}", repr(HEAVY))
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=ROOT,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.parametrize("command", COMMANDS)
def test_help_loads_nothing_heavy(command):
    done = run(command, "--help")
    assert done.stdout.splitlines()[-2:] == ["exit 1", "loaded"], done
    assert "flags:" in done.stdout


@pytest.mark.parametrize(
    ("flag", "hint"),
    [("--method=qlea", "qlae"), ("--dataset=dsprite", "dsprites"), ("--stpes=3", "")],
)
def test_typos_load_nothing_heavy(flag, hint):
    done = run("train", flag, "--workdir=nowhere")
    assert done.stdout.splitlines()[-2:] == ["exit 1", "loaded"], done
    assert flag.partition("=")[0].lstrip("-") in done.stderr and hint in done.stderr


LOAD = """
import os
from experiments.settings import environment
environment.load_tensorflow()
import tensorflow as tf
tf.config.list_physical_devices()
print(environment.onednn_enabled(), os.environ["TF_ENABLE_ONEDNN_OPTS"])
os.write(2, b"a real complaint\\n")
"""


@pytest.mark.parametrize(
    ("given", "enabled"),
    [(None, "True 1"), pytest.param("0", "False 0", marks=pytest.mark.slow)],
)
@pytest.mark.slow
def test_onednn_unless_the_user_says_otherwise(given, enabled, monkeypatch):
    monkeypatch.delenv("TF_ENABLE_ONEDNN_OPTS", raising=False)
    variables = {} if given is None else {"TF_ENABLE_ONEDNN_OPTS": given}
    done = run(script=LOAD, TF_CPP_MIN_LOG_LEVEL="2", **variables)
    assert done.stdout.strip() == enabled, done.stderr
    assert "a real complaint" in done.stderr
    assert "cuInit" not in done.stderr and "InitializeLog" not in done.stderr
