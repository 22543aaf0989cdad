"""The wheel and the sdist: what is in them, and that the wheel works alone."""

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def _build(kind: str, folder: Path) -> Path:
    """Builds in a copy of the tracked files: no `build/` is left in the checkout."""
    pytest.importorskip("setuptools")
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
    )
    if listed.returncode:
        pytest.skip("not a git checkout")
    source = folder / "source"
    for name in listed.stdout.decode().split("\0"):
        if name.startswith("qlayers/") or name in (
            "setup.py",
            "pyproject.toml",
            "README.md",
            "LICENSE",
        ):
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes((ROOT / name).read_bytes())
    subprocess.run(
        [sys.executable, "setup.py", "-q", kind, "--dist-dir", str(folder)],
        cwd=source,
        check=True,
        capture_output=True,
    )
    return next(p for p in folder.iterdir() if p.suffix in (".whl", ".gz"))


def test_wheel_holds_the_library_alone_and_works_from_a_folder(tmp_path):
    wheel = _build("bdist_wheel", tmp_path)
    assert wheel.name.startswith("keras_qlayers-")
    with zipfile.ZipFile(wheel) as archive:
        tops = {name.split("/")[0] for name in archive.namelist()}
        assert "qlayers/py.typed" in archive.namelist()
        archive.extractall(tmp_path / "installed")
    assert {top for top in tops if not top.endswith(".dist-info")} == {"qlayers"}
    code = (
        "import qlayers, numpy, pathlib; "
        "q = qlayers.FiniteScalarQuantizer(5); q.build((None, 3)); "
        "print(pathlib.Path(qlayers.__file__).parents[1]); "
        "print(q.codes(numpy.zeros((1, 3), 'float32')).shape)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=tmp_path / "installed",
    )
    assert done.returncode == 0, done.stderr
    place, shape = done.stdout.splitlines()[-2:]
    assert Path(place) == tmp_path / "installed"
    assert "1, 3" in shape


def test_sdist_can_be_built_from(tmp_path):
    sdist = _build("sdist", tmp_path)
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"setup.py", "qlayers/version.py", "README.md", "LICENSE"} <= names
