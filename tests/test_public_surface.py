"""What `import qlayers` brings, and what waits until it is used."""

import importlib
import subprocess
import sys

import pytest

PACKAGES = ("", ".blocks", ".functional", ".quantizers", ".regularizers", ".testing")
PACKAGES += (".metrics", ".datasets", ".callbacks")

_SCRIPT = """
import sys
import keras  # brings scikit-learn and matplotlib itself, if they are there
before = {*sys.modules}
import qlayers
new = {*sys.modules} - before
heavy = {"tensorflow_datasets", "sklearn", "matplotlib", "scipy"} & new
assert not heavy, heavy
assert "qlayers.metrics" not in sys.modules
assert {"metrics", "datasets", "callbacks", "testing"} <= {*dir(qlayers)}
assert qlayers.metrics.psnr and qlayers.callbacks.TrainingScalars
assert qlayers.datasets.load and qlayers.testing.check_layer
try:
    qlayers.metrix
except AttributeError as error:
    assert "metrix" in str(error)
else:
    raise AssertionError("no error")
"""


def test_heavy_parts_are_imported_at_first_use():
    subprocess.run([sys.executable, "-c", _SCRIPT], check=True)


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_package_lists_its_names(package):
    module = importlib.import_module(f"qlayers{package}")
    assert len(module.__all__) == len({*module.__all__}) > 0
    assert all(hasattr(module, name) for name in module.__all__)


def test_hooks_that_a_quantizer_must_write_are_abstract():
    from qlayers.quantizers.base import BaseQuantizer
    from qlayers.regularizers.base import LatentRegularizer

    for base, hook in ((BaseQuantizer, "value_table"), (LatentRegularizer, "add_term")):
        with pytest.raises(TypeError, match=hook):
            type("Unfinished", (base,), {})()
