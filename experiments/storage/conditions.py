"""What a run's last bits depend on beside its settings, and how it changed."""

import os
from typing import Any

from experiments.settings.config import RunConfig
from experiments.settings.environment import onednn_enabled
from experiments.settings.processor import processor
from experiments.settings.xla import uses_xla
from experiments.storage.files import read_record, write_json
from experiments.storage.provenance import code_version
from experiments.storage.run_directory import RunDirectory

_CONTINUED = "continued"
# Name -> what the user can do to continue bit for bit.
_WORDS = {
    "code": "the code",
    "threads": "the number of threads (--threads)",
    "processor": "the processor",
    "onednn": "oneDNN (TF_ENABLE_ONEDNN_OPTS)",
    "xla": "XLA (--jit)",
}


def conditions(config: RunConfig) -> dict[str, Any]:
    """Code, threads, processor, oneDNN and XLA of this process.

    Args:
        config: Settings of the run.

    Example:

    ```python
    conditions(config)["threads"]  # 2
    ```
    """
    return {
        "code": code_version(),
        "threads": config.threads or os.cpu_count() or 1,
        "processor": processor(),
        "onednn": onednn_enabled(),
        "xla": uses_xla(config),
    }


def changed_conditions(
    directory: RunDirectory, now: dict[str, Any]
) -> dict[str, tuple[Any, Any]]:
    """What differs from the last start, as `name -> (then, now)`.

    Args:
        directory: Folder of a run that goes on.
        now: What `conditions` says of this process.
    """
    record = read_record(directory.config_file)
    starts = [record.get("provenance", {}), *record.get(_CONTINUED, [])]
    # A run that is older than this record says nothing of some of them.
    return {
        name: (starts[-1][name], value)
        for name, value in now.items()
        if starts[-1].get(name) is not None and starts[-1][name] != value
    }


def record_continuation(
    directory: RunDirectory, step: int, now: dict[str, Any]
) -> None:
    """Notes in the config that the run goes on under other conditions."""
    record = read_record(directory.config_file)
    continued = [*record.get(_CONTINUED, []), {"step": step, **now}]
    write_json(directory.config_file, {**record, _CONTINUED: continued})


def describe_changes(changes: dict[str, tuple[Any, Any]], step: int) -> str:
    """The changes as a warning.

    Args:
        changes: What `changed_conditions` found.
        step: The step that the run goes on from.
    """
    texts = [f"{_WORDS[n]} was {a!r} and is {b!r}" for n, (a, b) in changes.items()]
    return (
        f"From step {step} on, {'; '.join(texts)}: the run does not end bit for bit "
        "like one that was not interrupted. config.json says so."
    )
