"""Optional dependencies, named in the error when one is missing."""

import importlib.util

# Module -> the extra of the distribution that installs it.
EXTRA_OF_MODULE = {
    "absl": "lab",
    "h5py": "data",
    "matplotlib": "metrics",
    "numba": "fast",
    "PIL": "data",
    "scipy": "metrics",
    "sklearn": "metrics",
    "tensorboard": "tensorboard",
    "tensorflow": "tensorflow",
    "tensorflow_datasets": "data",
    "tensorflow_probability": "data",
}


def require(owner: str, *modules: str) -> None:
    """Raises an ImportError that names the extra to install, without importing.

    Args:
        owner: Name of the part that needs the modules, for the message.
        *modules: Top-level modules, keys of `EXTRA_OF_MODULE`.

    Example:

    ```python
    require("qlayers.metrics", "scipy", "sklearn")
    ```
    """
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    if missing:
        extras = ",".join(sorted({EXTRA_OF_MODULE[name] for name in missing}))
        raise ImportError(
            f"{owner} needs {', '.join(missing)}, which is not installed. Install it "
            f'with: pip install "keras-qlayers[{extras}]"'
        )
