"""Packaging of qlayers. Only the package `qlayers` goes into the wheel."""

import re
from pathlib import Path

from setuptools import find_packages, setup

ROOT = Path(__file__).parent
VERSION = re.search(
    r'^__version__ = "(.+)"$', (ROOT / "qlayers/version.py").read_text(), re.MULTILINE
).group(1)

# The layers need nothing else; the backend (TensorFlow, JAX or PyTorch) is the user's.
INSTALL = ["keras>=3.12", "numpy>=1.26"]

EXTRAS = {
    "tensorflow": ["tensorflow>=2.21"],
    "jax": ["jax>=0.4.30"],
    # The one torch release whose plain package is a CPU build where this is tested.
    "torch": ["torch==2.13.0"],
    "metrics": ["matplotlib>=3.8", "scikit-learn>=1.6", "scipy>=1.11"],
    # Boosted trees and forests in machine code; without it plain NumPy computes them.
    "fast": ["numba>=0.61"],
    "data": [
        "h5py>=3.11",
        # TFDS imports it without declaring it; every builder outside TFDS needs it.
        "importlib_resources>=6.0",
        "pillow>=10.0",
        "scipy>=1.11",
        "tensorflow>=2.21",
        "tensorflow-datasets>=4.9.10",
        "tensorflow-probability>=0.25",
        "tf-keras>=2.21",
    ],
    "tensorboard": [
        "matplotlib>=3.8",
        "pillow>=10.0",
        "tensorboard>=2.21",
        "tensorflow>=2.21",
    ],
    # Sweeps on a cluster: experiments.sweep --engine=ray.
    "ray": ["ray>=2.40"],
    "docs": ["mkdocs>=1.6", "mkdocstrings[python]>=1.0"],
    # What the benchmarks compare with. Users never need it.
    "bench": ["torch==2.13.0", "vector-quantize-pytorch>=1.20"],
}
EXTRAS["lab"] = [
    "absl-py>=2.0",
    *sorted(
        {
            requirement
            for extra in ("tensorflow", "metrics", "fast", "data", "tensorboard")
            for requirement in EXTRAS[extra]
        }
    ),
]
EXTRAS["all"] = EXTRAS["lab"]
EXTRAS["dev"] = [
    *EXTRAS["all"],
    # dill: tfds.testing.DatasetBuilderTestCase imports it without declaring it.
    "dill>=0.3",
    "hypothesis>=6.100",
    "mypy>=1.10",
    "pytest>=8.0",
    "pytest-xdist>=3.5",
    "ruff>=0.6",
]

setup(
    # The index has another project named qlayers.
    name="keras-qlayers",
    version=VERSION,
    description="Keras 3 layers for quantized, disentangled latent spaces",
    long_description=(ROOT / "README.md").read_text(),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    python_requires=">=3.11,<3.14",
    packages=find_packages(include=["qlayers", "qlayers.*"]),
    package_data={
        "qlayers": ["py.typed"],
        "qlayers.datasets": ["**/*.md", "**/*.bib", "**/*.tsv", "**/*.txt"],
    },
    install_requires=INSTALL,
    extras_require=EXTRAS,
    classifiers=[
        "License :: OSI Approved :: Apache Software License",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
    ],
)
