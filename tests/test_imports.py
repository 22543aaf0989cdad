"""Imports go one way, between packages and between the rooms of `experiments`."""

import ast
from pathlib import Path

import pytest

from tests.conftest import ROOT

PACKAGES = ("qlayers", "models", "experiments", "studies", "benchmarks")
# The commands of `experiments` are its modules at the top.
COMMANDS = "experiments commands"
LIBRARIES = ("qlayers", "models")
SETTINGS, STORAGE, RUNNING, SWEEPS, REPORTING = ROOMS = tuple(
    f"experiments.{name}"
    for name in ("settings", "storage", "running", "sweeps", "reporting")
)
# What each place may import beside itself.
ALLOWED = {
    "qlayers": (),
    "models": ("qlayers",),
    SETTINGS: LIBRARIES,
    STORAGE: (*LIBRARIES, SETTINGS),
    RUNNING: (*LIBRARIES, SETTINGS, STORAGE),
    SWEEPS: (*LIBRARIES, SETTINGS, STORAGE, RUNNING),
    REPORTING: (*LIBRARIES, SETTINGS, STORAGE),
    COMMANDS: (*LIBRARIES, *ROOMS),
    "studies": (*LIBRARIES, *ROOMS, "benchmarks"),
    "benchmarks": (*LIBRARIES, *ROOMS, "studies"),
}


def place_of(module: str) -> str | None:
    """The package or room that a module belongs to; None for other projects."""
    package, _, rest = module.partition(".")
    if package not in PACKAGES:
        return None
    if package != "experiments":
        return package
    room = f"experiments.{rest.partition('.')[0]}"
    return room if room in ROOMS else COMMANDS


def imported_modules(source: str, module: str) -> set[str]:
    """Names of all modules that a source imports, inside functions as well."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            parts = module.split(".")[: -node.level] if node.level else []
            base = ".".join([*parts, *([node.module] if node.module else [])])
            # `from experiments import settings` names a module in its second half.
            found |= {f"{base}.{alias.name}" for alias in node.names}
    return found


def forbidden_imports(source: str, module: str) -> list[str]:
    """Imports against the direction."""
    place = place_of(module)
    assert place is not None, module
    allowed = {place, None, *ALLOWED[place]}
    # A command stands alone: not even another command imports it.
    if place == COMMANDS:
        allowed.remove(COMMANDS)
    names = imported_modules(source, module)
    return sorted(name for name in names if place_of(name) not in allowed)


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


SOURCES = sorted(p for package in PACKAGES for p in (ROOT / package).rglob("*.py"))


def test_imports_go_one_way():
    wrong = {
        module_name(path): found
        for path in SOURCES
        if (found := forbidden_imports(path.read_text("utf-8"), module_name(path)))
    }
    assert wrong == {}


def test_every_folder_of_experiments_is_a_room():
    folders = {p.parent.name for p in (ROOT / "experiments").glob("*/__init__.py")}
    assert {f"experiments.{name}" for name in folders} == set(ROOMS)


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("qlayers.losses", "import models"),
        ("qlayers.losses", "def f():\n    from experiments.settings import config"),
        ("models.build", "from experiments import settings"),
        ("models.build", "from studies.study import ROOT"),
        ("experiments.settings.config", "from experiments.storage import files"),
        ("experiments.storage.files", "from ..running import setup"),
        ("experiments.running.setup", "from experiments.sweeps.plan import Trial"),
        ("experiments.running.setup", "import experiments.reporting.summary"),
        ("experiments.reporting.page", "from experiments.running import board"),
        ("experiments.sweeps.plan", "from experiments.sweep import main"),
        ("experiments.sweep", "from experiments import train"),
        ("experiments.sweep", "from studies import study"),
    ],
)
def test_a_wrong_import_is_found(module, source):
    assert forbidden_imports(source, module)


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("experiments.sweeps.plan", "from experiments.running import setup\nimport os"),
        ("experiments.sweep", "from experiments.reporting.summary import COLUMNS"),
        ("experiments.storage.files", "from . import folder_lock"),
        ("studies.circles", "from experiments.running.setup import load_dataset"),
    ],
)
def test_a_right_import_passes(module, source):
    assert not forbidden_imports(source, module)
