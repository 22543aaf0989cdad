"""Notebooks are stored without outputs and run, at a small size."""

import json
import re
import sys

import pytest

from tests.conftest import ROOT

FOLDER = ROOT / "notebooks"
NAMES = sorted(path.stem for path in FOLDER.glob("*.ipynb"))
QUICK = ("layers", "scores")
# Cells name their sizes in a line of their own, such as `STEPS = 600`.
SMALL = {"STEPS": 2, "NUM_IMAGES": 300, "NUM_SAMPLES": 300}


def cells(name):
    return json.loads((FOLDER / f"{name}.ipynb").read_text(encoding="utf-8"))["cells"]


def small(code):
    for size, value in SMALL.items():
        code = re.sub(rf"^{size} = \d+$", f"{size} = {value}", code, flags=re.MULTILINE)
    return code


def run(name, folder, monkeypatch):
    """Runs the code cells in order, in one namespace, as a kernel does."""
    matplotlib = pytest.importorskip("matplotlib")
    monkeypatch.chdir(folder)
    matplotlib.use("Agg")
    module = type(sys)("__main__")
    monkeypatch.setitem(sys.modules, "notebook_under_test", module)
    for number, cell in enumerate(cells(name)):
        if cell["cell_type"] == "code":
            code = compile(small("".join(cell["source"])), f"{name}[{number}]", "exec")
            exec(code, module.__dict__)
    return module.__dict__


def test_five_notebooks_without_outputs():
    assert NAMES == ["layers", "own_folder", "qlae_page", "scores", "tokens"]
    guide = (ROOT / "docs" / "guides" / "notebooks.md").read_text(encoding="utf-8")
    for name in NAMES:
        assert f"notebooks/{name}.ipynb" in guide
        found = cells(name)
        assert len({cell["id"] for cell in found}) == len(found)
        assert found[0]["cell_type"] == "markdown"
        for cell in found:
            if cell["cell_type"] == "code":
                assert cell["outputs"] == [] and cell["execution_count"] is None
        text = "".join(line for cell in found for line in cell["source"])
        assert small(text) != text, "nothing makes it small"


@pytest.mark.parametrize("name", QUICK)
def test_quick_notebooks_run(name, tmp_path, monkeypatch):
    made = run(name, tmp_path, monkeypatch)
    if name == "scores":
        assert made["results"]["one each"].modularity > 0.9
        assert made["results"]["mixed"].modularity < 0.8
        assert made["results"]["one lost"].explicitness < 0.8


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in NAMES if name not in QUICK])
def test_long_notebooks_run(name, tmp_path, monkeypatch):
    made = run(name, tmp_path, monkeypatch)
    if name == "qlae_page":
        assert "&lt;canvas" in made["Frame"](made["page"])._repr_html_()
    if name == "tokens":
        assert made["samples"].shape == (6, 32, 32, 3)
