"""How the loops are compiled, and when they are compiled again."""

import contextlib
from pathlib import Path

from numba import njit

compiled = njit(cache=True, nogil=True)


def drop_stale_caches(folder: Path) -> None:
    """Deletes compiled functions that are older than a source file of the folder.

    numba's cache looks at the file of a function, not at those of the functions it
    calls: after a change in one file, the others would go on with the old code.

    Args:
        folder: Where the source files are, with numba's files in `__pycache__`.
    """
    newest = max(file.stat().st_mtime_ns for file in folder.glob("*.py"))
    for index in folder.glob("__pycache__/*.nbi"):
        with contextlib.suppress(OSError):  # another process was faster
            if index.stat().st_mtime_ns <= newest:
                index.unlink()


drop_stale_caches(Path(__file__).parent)
