"""Makes one page for each public package, with every public name from its docstring."""

import importlib
from typing import Any

from mkdocs.structure.files import File, Files
from mkdocs.structure.nav import Navigation

_PACKAGES = {
    "qlayers.quantizers": "Quantizers",
    "qlayers.regularizers": "Regularizers",
    "qlayers.functional": "Functions",
    "qlayers.metrics": "Metrics",
    "qlayers.datasets": "Datasets",
    "qlayers.callbacks": "Callbacks",
    "qlayers.blocks": "Blocks",
    "qlayers.testing": "Testing",
    "models": "Models",
}


def on_config(config: Any) -> Any:
    """Adds the pages to the navigation."""
    pages = [{title: f"api/{name}.md"} for name, title in _PACKAGES.items()]
    config.nav.append({"API": pages})
    return config


def on_files(files: Files, config: Any) -> Files:
    """Writes the pages: the package's docstring, then each name of its `__all__`."""
    for name, title in _PACKAGES.items():
        package = importlib.import_module(name)
        lines = [f"# {title}", f"`{name}`: {(package.__doc__ or '').strip()}"]
        for public in sorted(package.__all__):
            lines.append(f"::: {name}.{public}")
        text = "\n\n".join(lines) + "\n"
        files.append(File.generated(config, f"api/{name}.md", content=text))
    return files


def on_nav(nav: Navigation, config: Any, files: Files) -> Navigation:
    """Refuses a package without public names: its page would be empty."""
    for name in _PACKAGES:
        if not importlib.import_module(name).__all__:
            raise ValueError(f"{name} has no public names.")
    return nav
