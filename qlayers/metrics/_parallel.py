"""One thread per piece of work, each with a single-threaded BLAS."""

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from qlayers.metrics._progress import Progress

Item = TypeVar("Item")
Result = TypeVar("Result")


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
    from threadpoolctl import threadpool_limits

    pieces = list(items)
    workers = min(len(pieces), os.cpu_count() or 1)
    with Progress(len(pieces), label, verbose) as progress:

        def run(item: Item) -> Result:
            result = function(item)
            progress.advance()
            return result

        with threadpool_limits(1, user_api="blas"):
            if workers < 2:
                return [run(piece) for piece in pieces]
            with ThreadPoolExecutor(workers) as pool:
                return list(pool.map(run, pieces))
