"""How time and memory grow: measured sizes, and the exponent of the largest ones."""

import dataclasses
import math
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.timing import Row, peak_growth_of

Side = Callable[[], object]
_SECONDS = 0.25  # that a size is measured for, at least
_REPEATS = 3
# A size whose predecessor took longer is left out: its time is computed, not measured.
_LONGEST = 10.0


@dataclasses.dataclass(frozen=True)
class Sweep:
    """One thing over growing sizes.

    Attributes:
        name: What is measured.
        axis: What grows.
        sizes: Its sizes, ascending.
        make: A size -> a call to time. Everything that is not timed happens in it.
        fixed: The other sizes, for the reader.
    """

    name: str
    axis: str
    sizes: Sequence[int]
    make: Callable[[int], Side]
    fixed: str = ""


def measure_time(sweep: Sweep) -> Row:
    """Processor seconds of each size; stops where the next would take too long.

    Processor time counts all threads and, unlike the clock, is not lengthened by what
    else the machine does: exponents then hold on a busy one too.
    """
    sizes: list[int] = []
    seconds: list[float] = []
    # Loops that compile in their first call would look like a long smallest size.
    sweep.make(sweep.sizes[0])()
    for size in sweep.sizes:
        if seconds and seconds[-1] > _LONGEST:
            break
        call = sweep.make(size)
        sizes.append(size)
        seconds.append(_seconds_of(call))
    return {
        "case": sweep.name,
        "axis": sweep.axis,
        "fixed": sweep.fixed,
        "sizes": sizes,
        "seconds": seconds,
        "exponent": exponent(sizes, seconds),
    }


def measure_memory(sweep: Sweep) -> list[float]:
    """Megabytes that one call of each size takes at its peak, once it is warm."""
    found = []
    for size in sweep.sizes:
        call = sweep.make(size)
        call()
        found.append(peak_growth_of(call))
    return found


def _seconds_of(call: Side) -> float:
    first = _timed(call)
    if first > _LONGEST:
        return first  # once is enough
    # The first filled caches.
    times: list[float] = []
    while len(times) < _REPEATS or sum(times) < _SECONDS:
        times.append(_timed(call))
    return statistics.median(times)


def _timed(call: Side) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start


def exponent(sizes: Sequence[float], found: Sequence[float], last: int = 3) -> float:
    """Slope of the logarithms over the largest sizes, by least squares.

    Args:
        sizes: Sizes, ascending.
        found: What was measured, positive.
        last: How many of the largest sizes count. Small ones show what a call costs.
    """
    x = [math.log(size) for size in sizes[-last:]]
    y = [math.log(max(value, 1e-12)) for value in found[-last:]]
    if len(x) < 2:
        return float("nan")
    mean_x, mean_y = statistics.fmean(x), statistics.fmean(y)
    spread = sum((a - mean_x) ** 2 for a in x)
    return sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True)) / spread


def text_of(value: Any, unit: str) -> str:
    """A number with three digits and its unit, in a size that reads well."""
    if unit == "s" and value < 1:
        return f"{1e3 * value:.3g} ms"
    return f"{value:.3g} {unit}"
