"""Prepares a dataset once, however many processes want it at the same time."""

import errno
import fcntl
import os
import shutil
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tensorflow as tf
import tensorflow_datasets as tfds
from tensorflow_datasets.core.utils import tqdm_utils

from qlayers.datasets.builders.factor_grid_builder import FactorGridBuilder

_SECONDS_BETWEEN_TRIES = 0.5
_SECONDS_BETWEEN_LINES = 60.0


class PreparationLock:
    """Lets one process at a time prepare a version folder; the others wait.

    The operating system releases the lock when the process ends, however it ends.

    Args:
        folder: The version folder; the lock lies beside it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder.parent / f".{folder.name}.lock"

    def __enter__(self) -> "PreparationLock":
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o664)
        told = -_SECONDS_BETWEEN_LINES
        while not self._try():
            if time.monotonic() - told >= _SECONDS_BETWEEN_LINES:
                told = time.monotonic()
                self._say_what_is_awaited()
            time.sleep(_SECONDS_BETWEEN_TRIES)
        os.ftruncate(self._lock, 0)
        os.pwrite(self._lock, f"{os.getpid()} on {socket.gethostname()}\n".encode(), 0)
        return self

    def __exit__(self, *exception: Any) -> None:
        os.close(self._lock)

    def _try(self) -> bool:
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _say_what_is_awaited(self) -> None:
        owner = os.pread(self._lock, 200, 0).decode(errors="replace").strip()
        print(
            f"Waiting for process {owner or 'unknown'}, which prepares {self.folder}.",
            file=sys.stderr,
            flush=True,
        )


def prepared(
    make_builder: Callable[[], FactorGridBuilder], manual_dir: Path
) -> FactorGridBuilder:
    """A builder whose dataset is prepared: all of it, or an error.

    Args:
        make_builder: Makes the builder; called again after a wait, because a builder
            looks for its files when it is made.
        manual_dir: Where files that were downloaded by hand lie.
    """
    builder = make_builder()
    if builder.is_prepared():
        return builder
    folder = Path(builder.data_dir)
    with PreparationLock(folder):
        builder = make_builder()
        if not builder.is_prepared():
            _remove_stale_parts(builder, folder)
            _prepare(builder, manual_dir)
    return builder


# A preparation cannot go on where another one was killed. TensorFlow Datasets orders
# the examples by a hash of their keys over the whole dataset: the first record file is
# begun after the last image is read. Until then the examples lie in memory and in
# bucket files under a random name, whose last entries may be cut off and whose lengths
# are known to the dead process alone. What was killed while it wrote record files has
# deleted its buckets one by one. Nothing in the folder is a finished part.
def _remove_stale_parts(builder: FactorGridBuilder, folder: Path) -> None:
    """Removes what a killed preparation left, and says what was lost.

    Nobody else works here now: the lock is ours.
    """
    stale = list(folder.parent.glob(f"incomplete.*_{folder.name}"))
    if not stale:
        return
    size = sum(f.stat().st_size for part in stale for f in part.rglob("*"))
    for part in stale:
        shutil.rmtree(part, ignore_errors=True)
    print(
        f"{builder.info.full_name}: an earlier preparation was interrupted. Its "
        f"{size / 1e6:,.1f} MB cannot be continued and are removed; this one starts "
        "with the first image.",
        file=sys.stderr,
        flush=True,
    )


def _prepare(builder: FactorGridBuilder, manual_dir: Path) -> None:
    settings = tfds.download.DownloadConfig(
        manual_dir=manual_dir, compute_stats=tfds.download.ComputeStatsMode.SKIP
    )
    bars = tqdm_utils._active
    # Its bars know no total; the builder prints lines that do.
    tfds.display_progress_bar(enable=False)
    try:
        builder.download_and_prepare(download_config=settings)
    except (OSError, tf.errors.ResourceExhaustedError) as error:
        if getattr(error, "errno", None) == errno.ENOSPC or isinstance(
            error, tf.errors.ResourceExhaustedError
        ):
            raise OSError(
                errno.ENOSPC,
                f"The disk filled up while {builder.name} was being prepared in "
                f"{builder.data_dir}; nothing was kept. Free some space or choose "
                "another `data_dir`.",
            ) from error
        raise
    finally:
        tfds.display_progress_bar(enable=bars)
