"""The layers need keras, numpy and a backend; a missing extra is named."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from qlayers.extras import EXTRA_OF_MODULE, require

ROOT = Path(__file__).resolve().parents[1]

# Makes the named modules as good as not installed.
_BLOCKED = "import sys; sys.modules.update(dict.fromkeys({names!r}))\n"


def _run_without(names, code, backend):
    pytest.importorskip({"torch": "torch", "jax": "jax"}.get(backend, backend))
    program = _BLOCKED.format(names=set(names)) + code
    return subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={"KERAS_BACKEND": backend, "PATH": "", "TF_CPP_MIN_LOG_LEVEL": "2"},
    )


_TRAINS = """
import keras, qlayers
inputs = keras.Input((6,))
z = qlayers.LatentQuantizer(5)(keras.layers.Dense(4)(inputs))
z = qlayers.KernelMultiinformation(0.1)(z)
model = keras.Model(inputs, keras.layers.Dense(6)(z))
model.compile("adam", "mse")
x = keras.random.normal((32, 6))
model.fit(x, x, verbose=0)
"""


@pytest.mark.parametrize(
    "backend", ["jax", pytest.param("torch", marks=pytest.mark.slow)]
)
def test_layers_train_with_keras_numpy_and_a_backend_alone(backend):
    blocked = set(EXTRA_OF_MODULE)
    # Keras itself imports absl, h5py and, where it is there, scipy and PIL.
    blocked -= {"absl", "h5py", "scipy", "PIL"}
    done = _run_without(blocked, _TRAINS, backend)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("part", "module", "extra"),
    [
        ("metrics", "sklearn", "metrics"),
        ("datasets", "tensorflow_datasets", "data"),
        ("callbacks", "tensorboard", "tensorboard"),
    ],
)
def test_a_missing_extra_is_named(monkeypatch, part, module, extra):
    import importlib.util

    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name: None if name == module else found(name),
    )
    text = (ROOT / "qlayers" / part / "__init__.py").read_text()
    calls = [
        node
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "require"
    ]
    arguments = [ast.literal_eval(value) for value in calls[0].args]
    with pytest.raises(ImportError, match=rf"{module}.*keras-qlayers\[{extra}\]"):
        require(*arguments)


def test_every_known_module_has_an_extra_that_setup_declares():
    text = (ROOT / "setup.py").read_text()
    for extra in set(EXTRA_OF_MODULE.values()):
        assert f'"{extra}"' in text
