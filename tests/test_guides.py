"""The Python blocks of the guides run as they stand there, page by page."""

import re
from pathlib import Path

import pytest

from tests.conftest import ROOT

PAGES = sorted((ROOT / "docs" / "guides").glob("*.md"))
_BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)


@pytest.mark.usefixtures("registries")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_blocks_run_in_order(page: Path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = _BLOCK.findall(page.read_text(encoding="utf-8"))
    if not blocks:
        pytest.skip("a page without Python")
    names: dict[str, object] = {}
    for code in blocks:
        exec(compile(code, page.name, "exec"), names)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_images_and_pages_that_are_linked_exist(page: Path):
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (page.parent / target).exists(), target
