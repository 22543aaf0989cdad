"""Your own methods and datasets: launchers import every file of this folder."""

import importlib
import pkgutil


def has_extensions() -> bool:
    """Whether there is a file to import."""
    return any(True for _ in pkgutil.iter_modules(__path__))


def load_extensions() -> None:
    """Imports the files, which register what they define."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
