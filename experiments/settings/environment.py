"""What must be settled before TensorFlow loads, and how it is loaded quietly."""

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

# A user's own values win.
DEFAULTS = {
    # Some virtual machines advertise AMX and then refuse it; without this line
    # bfloat16 kernels die there with "Illegal instruction".
    "ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16",
    # TensorFlow leaves oneDNN off on processors without AVX-512, where it made steps of
    # the style networks a third faster (AMD EPYC, AVX2).
    "TF_ENABLE_ONEDNN_OPTS": "1",
    "TF_CPP_MIN_LOG_LEVEL": "2",
}
_LOG_LEVEL = "TF_CPP_MIN_LOG_LEVEL"
# Files that a driver makes: NVIDIA's own, and that of Windows' Linux.
_GPU_FILES = ("/dev/nvidiactl", "/proc/driver/nvidia/version", "/dev/dxg")
# What TensorFlow's libraries print before they read the log level.
_NOISE = (
    b"All log messages before absl::InitializeLog()",
    b"oneDNN custom operations are on",
    b"cudart_stub.cc",
    b"cuInit",
)


def set_defaults() -> None:
    """Sets the variables that TensorFlow reads when it loads, unless a user has."""
    for name, value in DEFAULTS.items():
        os.environ.setdefault(name, value)


def load_tensorflow() -> None:
    """Loads TensorFlow, without its complaints about a GPU that is not there."""
    set_defaults()
    with _held_back_noise():
        import tensorflow as tf

        tf.config.list_physical_devices("GPU")  # the last to complain


def onednn_enabled() -> bool:
    """Whether TensorFlow computes with oneDNN, which changes rounding and speed."""
    if "tensorflow" in sys.modules:
        with contextlib.suppress(ImportError, AttributeError):
            from tensorflow.python.util import _pywrap_util_port

            return bool(_pywrap_util_port.IsMklEnabled())
    # What it will do, or did in a version that tells nobody.
    return os.environ.get("TF_ENABLE_ONEDNN_OPTS", "1").lower() in ("1", "true")


@contextlib.contextmanager
def _held_back_noise() -> Iterator[None]:
    """Holds standard error back and then prints what is not noise."""
    wants_all = os.environ.get(_LOG_LEVEL) in ("0", "1")
    if wants_all or any(Path(name).exists() for name in _GPU_FILES):
        yield
        return
    sys.stderr.flush()
    original = os.dup(2)
    with tempfile.TemporaryFile() as held:
        os.dup2(held.fileno(), 2)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(original, 2)
            os.close(original)
            held.seek(0)
            for line in held:
                if not any(mark in line for mark in _NOISE):
                    os.write(2, line)
