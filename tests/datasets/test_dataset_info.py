"""Records of datasets against the datasets themselves."""

import os
import subprocess
import sys

import pytest

from qlayers import datasets
from qlayers.datasets.continuous_dataset import ContinuousDataset
from tests.conftest import ROOT


@pytest.mark.parametrize("name", ["mini_shapes3d", "circles", "balls", "grid2d"])
def test_info_agrees_with_the_dataset(name):
    record, loaded = datasets.info(name), datasets.load(name, image_size=32)
    assert record.name == loaded.name == name
    assert record.factor_names == loaded.factor_names
    assert record.num_factors == len(loaded.factor_sizes)
    assert record.continuous == isinstance(loaded, ContinuousDataset)
    assert record.continuous == (None in loaded.factor_sizes)
    assert record.images == (len(loaded.image_shape) == 3)
    assert not record.files


def test_numbers_of_factors_in_the_papers():
    # Hsu et al. 2023, table 4; Friede et al. 2023, appendix 6.
    published = {"shapes3d": 6, "mpi3d": 7, "falcor3d": 7, "isaac3d": 9}
    published |= {"dsprites": 5, "color_dsprites": 5, "smallnorb": 4, "cars3d": 3}
    for name, count in published.items():
        record = datasets.info(name)
        assert record.num_factors == count
        assert record.files and record.images and not record.continuous


def test_facts_need_no_tensorflow():
    pytest.importorskip("jax", reason="Keras's NumPy backend imports it")
    code = (
        "import sys; from qlayers import datasets;"
        "print([datasets.info(n).num_factors for n in datasets.names()]);"
        "assert not {'tensorflow', 'tensorflow_datasets'} & set(sys.modules)"
    )
    # Keras itself imports the TensorFlow backend.
    environment = {**os.environ, "KERAS_BACKEND": "numpy", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_names():
    with pytest.raises(ValueError, match="already"):
        datasets.register(datasets.info("balls"))
    with pytest.raises(ValueError, match="Unknown dataset 'mnist'; expected one of"):
        datasets.info("mnist")
