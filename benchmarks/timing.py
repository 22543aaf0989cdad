"""What the benchmarks share: fair timing of two sides, peak memory and tables."""

import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

Side = Callable[[], object]
Row = dict[str, object]

# One measurement lasts at least this long, so that the clock and its call do not show.
_SHORTEST_SECONDS = 5e-3


def use_threads(intra_op: int = 2, inter_op: int = 1) -> None:
    """Gives TensorFlow, and PyTorch if it is loaded, the same number of threads.

    Must run before TensorFlow has started an operation.
    """
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(intra_op)
    tf.config.threading.set_inter_op_parallelism_threads(inter_op)
    if "torch" in sys.modules:
        import torch

        torch.set_num_threads(intra_op)


def measure(
    sides: dict[str, Side], repeats: int = 15, warmup: int = 3
) -> dict[str, list[float]]:
    """Seconds per call of every side, once for each repeat.

    The sides take turns within a repeat, so that what else the machine does meets them
    alike. A fast side is called several times per measurement.

    Args:
        sides: Name -> function. A function must wait for its own result.
        repeats: Number of measurements of each side.
        warmup: Calls of each side before the first measurement.
    """
    counts = {}
    for name, call in sides.items():
        for _ in range(warmup):
            call()
        seconds = min(_seconds(call, 1) for _ in range(3))
        counts[name] = max(1, round(_SHORTEST_SECONDS / max(seconds, 1e-9)))
    times: dict[str, list[float]] = {name: [] for name in sides}
    names = list(sides)
    for repeat in range(repeats):
        # Every other repeat in reverse, so that no side always comes after the same.
        for name in names if repeat % 2 == 0 else reversed(names):
            times[name].append(_seconds(sides[name], counts[name]))
    return times


def _seconds(call: Side, count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - start) / count


def median_ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """Median over repeats of `ours / theirs`; below 1 means that ours is faster."""
    return statistics.median(a / b for a, b in zip(ours, theirs, strict=True))


def compared(
    case: str, ours: str, theirs: str, times: dict[str, list[float]], **more: object
) -> Row:
    """A table row from the times that `measure` returned.

    `ratio` is the median over the repeats; `best_ratio` compares the fastest repeat of
    each side, which is what remains comparable on a machine that is busy otherwise.
    """
    return {
        "case": case,
        "ours": ours,
        "peer": theirs,
        "ours_ms": 1e3 * statistics.median(times[ours]),
        "peer_ms": 1e3 * statistics.median(times[theirs]),
        "ratio": median_ratio(times[ours], times[theirs]),
        "best_ratio": min(times[ours]) / min(times[theirs]),
        **more,
    }


def peak_growth_of(work: Side) -> float:
    """Megabytes by which the peak resident size exceeds the size before `work`.

    On Linux the peak is reset first (`/proc/self/clear_refs`, `VmHWM`); elsewhere it is
    the growth of `ru_maxrss`, which misses what stays below an earlier peak.
    """
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
        before = _status_megabytes("VmRSS")
        work()
        return _status_megabytes("VmHWM") - before
    except OSError:
        before = peak_megabytes()
        work()
        return peak_megabytes() - before


def _status_megabytes(field: str) -> float:
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith(field):
            return int(line.split()[1]) / 1024.0
    raise OSError(f"/proc/self/status has no field {field}")


def peak_megabytes() -> float:
    """The most memory this process has had resident so far (`ru_maxrss`)."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0


def peak_memory_of(module: str, case: str) -> float | None:
    """Megabytes by which a case raises the peak of a fresh process.

    The process runs `python -m MODULE --memory CASE`, whose last line of output is the
    number, as `peak_growth_of` gives it for the case's work when everything it needs is
    loaded. None if the process fails.
    """
    result = subprocess.run(
        [sys.executable, "-m", module, "--memory", case],
        capture_output=True,
        text=True,
        check=False,
    )
    lines = result.stdout.strip().splitlines()
    return float(lines[-1]) if result.returncode == 0 and lines else None


def machine() -> str:
    """One line that names the machine and the versions of what was measured."""
    from importlib.metadata import PackageNotFoundError, version

    from experiments.settings.environment import onednn_enabled
    from experiments.settings.processor import processor

    parts = [
        f"{processor()}, {os.cpu_count()} cores",
        f"oneDNN {'on' if onednn_enabled() else 'off'}",
        f"Python {sys.version.split()[0]}",
    ]
    for package in ("tensorflow", "keras", "torch", "vector-quantize-pytorch"):
        try:
            parts.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            continue
    return "; ".join(parts)


def print_table(title: str, rows: Sequence[Row]) -> None:
    """Prints rows as an aligned table, columns in the order of their first use."""
    print(f"\n{title}")
    if not rows:
        print("  (nothing was measured)")
        return
    columns = list(dict.fromkeys(key for row in rows for key in row))
    cells = [[_as_text(row.get(column)) for column in columns] for row in rows]
    widths = [
        max(len(column), *(len(line[i]) for line in cells))
        for i, column in enumerate(columns)
    ]
    for line in [columns, ["-" * width for width in widths], *cells]:
        padded = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        print("  ".join(padded).rstrip())


def _as_text(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.3g}" if isinstance(value, float) else str(value)
