"""The demo: the same seed on the same machine gives the same models."""

import re

import pytest

from tests.experiments.test_commands import launch


@pytest.mark.slow
def test_two_runs_are_equal_to_the_last_bit(tmp_path):
    """Scores, pictures and the page, which holds weights, codes and scores."""
    tables, files = [], []
    for run in ("first", "second"):
        folder = tmp_path / run
        flags = ["--steps=30", "--eval_images=400", f"--output={folder}"]
        code, output, errors = launch("demo", *flags)
        assert code == 0, errors
        assert not re.search(r"[\b\r\x1b]", output)  # a log file stays readable
        assert "step 30/30" in output
        tables.append(re.findall(r"^(?:ae|qlae) .*dB$", output, re.MULTILINE))
        files.append({path.name: path.read_bytes() for path in folder.iterdir()})
    assert len(tables[0]) == 2
    assert tables[0] == tables[1]
    assert {"page.html", "nmi_qlae.png", "traversal_ae.png"} <= set(files[0])
    for name, content in files[0].items():
        assert content == files[1][name], f"{name} differs"


@pytest.mark.slow
def test_another_seed_gives_another_model(tmp_path):
    """The comparison above can fail."""
    pages = []
    for seed in (0, 1):
        flags = ["--steps=2", "--eval_images=400", f"--seed={seed}"]
        code, _, errors = launch("demo", *flags, f"--output={tmp_path / str(seed)}")
        assert code == 0, errors
        pages.append((tmp_path / str(seed) / "page.html").read_bytes())
    assert pages[0] != pages[1]
