"""What produced a result: versions of the code, the packages and the machine."""

import functools
import platform
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

_PACKAGES = (
    "keras",
    "tensorflow",
    "tensorflow-datasets",
    "numpy",
    "scipy",
    "scikit-learn",
    "tensorboard",
)
_ROOT = Path(__file__).resolve().parents[2]


def provenance() -> dict[str, Any]:
    """Versions by name; the code's is that of git where the checkout has one."""
    from experiments.settings.environment import onednn_enabled
    from qlayers.version import __version__

    packages = {"qlayers": __version__}
    for name in _PACKAGES:
        try:
            packages[name] = version(name)
        except PackageNotFoundError:
            continue
    return {
        "code": code_version(),
        "python": sys.version.split()[0],
        "platform": platform.platform(),
        "packages": packages,
        "onednn": onednn_enabled(),
    }


@functools.cache
def code_version(root: Path = _ROOT) -> str | None:
    """What `git describe` says of the checkout; None without git.

    Asked once a process: the code that runs is that of its start, and the checkout may
    move on during a long run.
    """
    command = ["git", "-C", str(root), "describe", "--always", "--dirty", "--tags"]
    try:
        result = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=20
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return result.stdout.strip() or None
