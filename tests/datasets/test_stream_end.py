"""A program that ends while a stream works ahead must end."""

import os
import subprocess
import sys

import pytest

# The iterator is left to the interpreter, as in a script that trains and stops. One
# inter-op thread is what callbacks could starve.
SCRIPT = """
import tensorflow as tf
tf.config.threading.set_inter_op_parallelism_threads(1)
from qlayers import datasets
iterator = iter(datasets.load({name!r}, image_size=32).as_tf_dataset(32, seed=0))
for _ in range(3):
    next(iterator)
other = iter(datasets.load({name!r}, image_size=32).as_tf_dataset(8, seed=1))
next(other)
print("last line")
"""

SLOW = ("circles", "balls")


@pytest.mark.parametrize(
    "name",
    ["mini_shapes3d", *(pytest.param(n, marks=pytest.mark.slow) for n in SLOW)],
)
@pytest.mark.slow
def test_program_ends_after_its_last_line(name):
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(name=name)],
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.stdout.strip() == "last line"
    assert done.returncode == 0
