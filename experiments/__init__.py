"""The laboratory: commands that train, evaluate, sweep and report."""

import os

# Must be set before TensorFlow loads; the Makefile gives the reason.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
