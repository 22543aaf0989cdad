"""The support of a whole dataset, as the recipes of synthetic data take it."""

import os
import subprocess
import sys

import pytest

from tests.conftest import ROOT


@pytest.mark.slow
def test_the_recipe_of_hfs_on_grids_takes_a_step(tmp_path):
    """5,000 samples at once: all triples of them would need 500 GB."""
    command = [sys.executable, "-m", "experiments.train", "--method=hfs"]
    command += ["--dataset=grid2d", "--steps=1", "--evaluate_every=1", "--log_every=1"]
    command += ["--metrics=fast", f"--workdir={tmp_path / 'run'}"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    gigabytes = usage.ru_maxrss / 2**20
    assert gigabytes < 3.0


def test_the_peak_of_a_search_grows_with_the_samples_not_their_square():
    """Value and gradient of 3,000 samples, whose squares alone would be 200 MB."""
    import numpy as np
    import tensorflow as tf

    from benchmarks.timing import peak_growth_of
    from qlayers.functional import hausdorff_factorized_support

    @tf.function(reduce_retracing=True)
    def differentiate(z):
        with tf.GradientTape() as tape:
            tape.watch(z)
            value = hausdorff_factorized_support(z)
        return tape.gradient(value, z)

    rng = np.random.default_rng(0)
    small, large = (rng.normal(size=(n, 3)).astype("float32") for n in (100, 3000))
    signature = differentiate.get_concrete_function(tf.TensorSpec((None, 3), "float32"))
    signature(tf.constant(small))
    grown = peak_growth_of(lambda: signature(tf.constant(large)).numpy())
    assert grown < 100.0
