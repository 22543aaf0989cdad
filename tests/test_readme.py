"""The code in README.md runs as it stands there."""

import re

import keras
import pytest

from tests.conftest import ROOT

_BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)
BLOCKS = _BLOCK.findall((ROOT / "README.md").read_text(encoding="utf-8"))


def test_there_are_blocks():
    assert len(BLOCKS) >= 4


@pytest.mark.parametrize(
    "code", BLOCKS, ids=lambda code: code.strip().split("\n")[-1][:40]
)
def test_block_runs(code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # One step shows that a training call is right.
    code = re.sub(r"steps_per_epoch=\d+", "steps_per_epoch=1", code)
    names = {"keras": keras}
    exec("import qlayers", names)
    exec(compile(code, "README.md", "exec"), names)
    if "Sequential" in code and "fit" not in code and "NormalizedHessian" not in code:
        _check_quantized(names["model"])


def _check_quantized(model):
    import numpy as np

    x = np.random.default_rng(0).normal(size=(32, 64)).astype("float32")
    history = model.fit(x, x, verbose=0).history
    assert "latent_quantizer_perplexity" in {
        re.sub(r"_\d+_", "_", name) for name in history
    }
