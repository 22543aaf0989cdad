"""Settings every test needs before a backend starts, and shared fixtures."""

import os
import sys
from pathlib import Path

# Must be set before TensorFlow loads; see the Makefile for the reason.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import pytest

ROOT = Path(__file__).resolve().parents[1]
SHARED_DATA = ROOT.parent / "shared" / "data"

# `models`, `experiments` and `benchmarks` are run from the checkout, not installed.
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))


def _split_cpu_into_two_virtual_devices() -> None:
    """Lets MirroredStrategy tests run two replicas on one CPU."""
    import tensorflow as tf

    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(
        cpu, [tf.config.LogicalDeviceConfiguration()] * 2
    )


if keras.backend.backend() == "tensorflow":
    _split_cpu_into_two_virtual_devices()


def pytest_collection_modifyitems(config, items):
    """On other backends only the tests marked `backends` make sense."""
    if keras.backend.backend() == "tensorflow":
        return
    skip = pytest.mark.skip(reason="needs the TensorFlow backend")
    for item in items:
        if "backends" not in item.keywords:
            item.add_marker(skip)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Folder with real samples of the benchmark data, beside the checkout."""
    if not SHARED_DATA.is_dir():
        pytest.skip(f"real samples not found at {SHARED_DATA}")
    return SHARED_DATA


@pytest.fixture
def registries():
    """What a test registers is forgotten afterwards."""
    import models
    from qlayers.datasets import registry

    known = (models.METHODS, registry._INFOS)
    before = [dict(records) for records in known]
    yield
    for records, entries in zip(known, before, strict=True):
        records.clear()
        records.update(entries)
