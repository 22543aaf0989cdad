"""Whether XLA compiles a run's training step."""

import os

from experiments.settings.config import RunConfig
from experiments.settings.processor import instruction_set

# The step under XLA over the plain one, by network and size of images: two threads of
# an AMD EPYC without AVX-512 (docs/speed.md, `train_step`); with AVX-512 it was slower.
STEP_RATIOS = {
    ("style", 32): 0.85,
    ("style", 64): 1.0,
    ("residual", 32): 0.5,
    ("residual", 64): 0.7,
    ("locatello", 32): 0.75,
    ("locatello", 64): 1.25,
    ("dalle", 32): 1.0,
    ("dalle", 64): 1.0,
}
# Rounding of these ratios, and what is too little to change a run's rounding for.
_LEAST_GAIN = 0.1
# What was measured; other methods have not been put through XLA on a CPU for long.
MEASURED_METHODS = ("ae", "qlae", "tripod", "cliff")
# A step compiles for up to a minute, which shorter trainings do not win back.
LEAST_STEPS = 5_000


def uses_xla(config: RunConfig) -> bool:
    """What `--jit` means for a run: on, off, or decided by a table.

    `"auto"` takes XLA on GPUs, and on CPUs where its step was measured to be shorter. A
    table decides, not a stopwatch: the load of the machine must not decide how a run
    rounds.

    Args:
        config: Settings of the run.

    Example:

    ```python
    uses_xla(resolve("qlae", settings={"jit": "on"}))  # True
    ```
    """
    if config.jit != "auto":
        return config.jit == "on"
    return _has_gpu() or _is_faster_on_cpu(config)


def _has_gpu() -> bool:
    import tensorflow as tf

    return bool(tf.config.list_physical_devices("GPU"))


def _is_faster_on_cpu(config: RunConfig) -> bool:
    threads = config.threads or os.cpu_count() or 1
    is_plain = (config.strategy, config.mixed_precision) == ("none", "none")
    return (
        is_plain
        and not config.deterministic
        and threads > 1
        and config.steps >= LEAST_STEPS
        and config.method in MEASURED_METHODS
        and _step_ratio(config) < 1.0 - _LEAST_GAIN
        and instruction_set() == "AVX2"
    )


def _step_ratio(config: RunConfig) -> float:
    """The ratio at the next larger size that was measured; 1 if there is none."""
    measured = [
        (size, ratio)
        for (network, size), ratio in STEP_RATIOS.items()
        if network == config.network and size >= config.image_size
    ]
    return min(measured)[1] if measured else 1.0
