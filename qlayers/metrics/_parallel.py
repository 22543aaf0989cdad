"""One thread per piece of work, each with a single-threaded BLAS."""

import os
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from qlayers.metrics._progress import Progress

Item = TypeVar("Item")
Result = TypeVar("Result")


class _SingleThreadedBLAS:
    """One BLAS thread while anybody is inside; afterwards as many as were found.

    The number of threads is the process's. Were every caller to note and restore it,
    one that enters while another is inside would note 1, and leave 1 behind.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._limits: Any = None

    def __enter__(self) -> None:
        from threadpoolctl import threadpool_limits

        with self._lock:
            if self._inside == 0:
                self._limits = threadpool_limits(1, user_api="blas")
            self._inside += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._limits.restore_original_limits()


_single_threaded_blas = _SingleThreadedBLAS()


def map_threads(
    function: Callable[[Item], Result],
    items: Iterable[Item],
    *,
    label: str = "",
    verbose: bool = False,
) -> list[Result]:
    """Applies `function` to every item on all cores, keeping the order.

    NumPy and scikit-learn let go of the interpreter lock in their inner loops. The
    matrices here are small, so threads inside BLAS would wait for each other (on a
    busy machine they made a fit twenty times slower); threads around it do not.
    """
    pieces = list(items)
    workers = min(len(pieces), os.cpu_count() or 1)
    with Progress(len(pieces), label, verbose) as progress:

        def run(item: Item) -> Result:
            result = function(item)
            progress.advance()
            return result

        with _single_threaded_blas:
            if workers < 2:
                return [run(piece) for piece in pieces]
            with ThreadPoolExecutor(workers) as pool:
                return list(pool.map(run, pieces))
