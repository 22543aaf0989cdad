"""Disturbs runs without mercy and compares what they end with.

    python -m benchmarks.soak --disturbances=100
    python -m benchmarks.soak --minutes=120 --images

A run is killed at random file writes (before, in the middle of and after one), meets a
full disk for some writes, and finds its files damaged when it starts again. In the end
its last checkpoint, history, evaluations and scores must be those of a run that nothing
disturbed, bit for bit. The table says how many disturbances of each kind were tried and
how many of them left such a run.
"""

import argparse
import collections
import errno
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from experiments.settings.config import RunConfig, resolve
from experiments.storage.checkpoints import CheckpointStore
from experiments.storage.run_directory import RunDirectory
from qlayers.files import PARTIAL

KILLS = ("kill before a write", "kill in a write", "kill after a write")
FULL = "full disk"
_POINTS = {"network": "mlp", "num_latents": 2, "evaluation_size": 100}
_IMAGES = {
    "image_size": 32,
    "network": "locatello",
    "width": 0.125,
    "num_latents": 4,
    "evaluation_size": 200,
}
_SETTINGS: dict[str, Any] = {
    "batch_size": 8,
    "steps": 12,
    "log_every": 2,
    "evaluate_every": 4,
    "metrics": "fast",
    "psnr_threshold": None,
    "select": "infom",
    "checkpoint_seconds": 1e-3,
    "threads": 1,
}


class Saboteur:
    """Counts the writes of a process and does something to some of them.

    Args:
        kill_at: Number of the write to be killed at, with the kind of the kill.
        full: First write that finds no room, and how many do.
    """

    def __init__(
        self, kill_at: tuple[int, str] | None, full: tuple[int, int] | None
    ) -> None:
        self.kill_at = kill_at
        self.full = full
        self.writes = 0

    def install(self) -> None:
        """Takes the place of the functions that all writes of a run go through."""
        whole, part = Path.write_bytes, os.write

        def write_bytes(path: Path, content: Any) -> int:
            return self._write(lambda data: whole(path, data), bytes(content))

        def write(descriptor: int, content: bytes) -> int:
            return self._write(lambda data: part(descriptor, data), content)

        setattr(Path, "write_bytes", write_bytes)  # noqa: B010
        setattr(os, "write", write)  # noqa: B010

    def _write(self, write: Callable[[bytes], int], content: bytes) -> int:
        self.writes += 1
        number, kind = self.kill_at or (0, "")
        if number == self.writes and kind != KILLS[2]:
            if kind == KILLS[1]:
                write(content[: len(content) // 2])
            os.kill(os.getpid(), signal.SIGKILL)
        if self.full and 0 <= self.writes - self.full[0] < self.full[1]:
            write(content[: len(content) // 3])
            raise OSError(errno.ENOSPC, "No space left on device")
        done = write(content)
        if number == self.writes:
            os.kill(os.getpid(), signal.SIGKILL)
        return done


def live(config: RunConfig, folder: Path, saboteur: Saboteur) -> int:
    """Runs in a process of its own; returns its exit code, negative for a signal."""
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            with open(folder.with_suffix(".log"), "a", buffering=1) as log:
                os.dup2(log.fileno(), 1)
                os.dup2(log.fileno(), 2)
                from experiments.running.training_run import TrainingRun

                run = TrainingRun(config, folder, pictures=config.has_decoder)
                saboteur.install()
                code = 0 if run.run() in ("finished", "nothing to do") else 1
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def damage(folder: Path, generator: np.random.Generator) -> str | None:
    """Damages something that a run's folder holds; returns what, or None."""
    directory = RunDirectory(folder)
    kinds: list[Callable[[], str | None]] = [
        lambda: _damage_checkpoint(directory, generator),
        lambda: _cut_row(directory),
        lambda: _spoil(directory.status_file, "status.json"),
        lambda: _leave_partial(directory),
    ]
    return kinds[int(generator.integers(len(kinds)))]()


def _damage_checkpoint(
    directory: RunDirectory, generator: np.random.Generator
) -> str | None:
    files = CheckpointStore(directory.checkpoints).files()
    if not files:
        return None
    content = bytearray(files[-1].read_bytes())
    if generator.random() < 0.3:
        del content[int(generator.integers(len(content))) :]
    for place in generator.integers(0, max(len(content), 1), 20):
        if place < len(content):
            content[place] ^= 1 << int(generator.integers(8))
    files[-1].write_bytes(content)
    return "damaged checkpoint"


def _cut_row(directory: RunDirectory) -> str | None:
    """Half a row at the end, as a crash of the machine leaves it."""
    if not directory.history.path.exists():
        return None
    with open(directory.history.path, "ab") as file:
        file.write(b'{"step": 1')
    return "half a row"


def _spoil(path: Path, name: str) -> str | None:
    if not path.parent.exists():
        return None
    path.write_bytes(b"\xff{")
    return f"damaged {name}"


def _leave_partial(directory: RunDirectory) -> str | None:
    if not directory.checkpoints.exists():
        return None
    (directory.checkpoints / f"{PARTIAL}step-000000099.npz").write_bytes(b"half")
    return "left-over partial file"


def result_of(folder: Path) -> dict[str, Any]:
    """What two runs must have in common."""
    directory = RunDirectory(folder)
    metrics = directory.load_metrics() or {}
    state = CheckpointStore(directory.checkpoints).latest()
    return {
        "arrays": [] if state is None else [a.tobytes() for a in state.arrays],
        "history": directory.history.path.read_text(),
        "evaluations": directory.evaluations.path.read_text(),
        "scores": metrics.get("scores"),
        "checkpoint": metrics.get("checkpoint"),
        "pictures": sorted(path.name for path in directory.pictures.glob("*")),
    }


def disturbed_run(
    config: RunConfig, folder: Path, generator: np.random.Generator
) -> list[str]:
    """Runs to the end through kills, full disks and damage; returns what it met."""
    met: list[str] = []
    spoiled = False
    while True:
        found = {damage(folder, generator) for _ in range(3)}
        met += sorted(kind for kind in found if kind is not None)
        kill = (int(generator.integers(2, 12)), KILLS[int(generator.integers(3))])
        full = (int(generator.integers(1, kill[0])), int(generator.integers(1, 4)))
        is_full = generator.random() < 0.7
        # A disk that is full before a run has begun is an error of its start.
        is_full = is_full and (folder / "history.jsonl").exists()
        code = live(config, folder, Saboteur(kill, full if is_full else None))
        met += [FULL] if is_full else []
        if code == -signal.SIGKILL:
            met.append(kill[1])
        elif code != 0:
            met.append(f"ended with {code}")
            return met
        elif spoiled or generator.random() < 0.5:
            return met
        else:
            spoiled = True
            _spoil(RunDirectory(folder).metrics_file, "metrics.json")
            met.append("damaged metrics.json")


def soak(
    config: RunConfig, root: Path, given: argparse.Namespace
) -> dict[str, list[int]]:
    """Disturbs runs until there were enough; returns tried and held by kind."""
    generator = np.random.default_rng(given.seed)
    whole = root / "whole"
    if live(config, whole, Saboteur(None, None)) != 0:
        raise RuntimeError(f"The undisturbed run failed; see {whole}.log.")
    wanted = result_of(whole)
    table: dict[str, list[int]] = collections.defaultdict(lambda: [0, 0])
    end = time.monotonic() + 60 * given.minutes
    number = 0
    while time.monotonic() < end and sum(t for t, _ in table.values()) < given.most:
        number += 1
        folder = root / f"run-{number}"
        met = disturbed_run(config, folder, generator)
        held = not met or not met[-1].startswith("ended")
        held = held and result_of(folder) == wanted
        for kind in met:
            table[kind][0] += 1
            table[kind][1] += held
        tried = sum(t for t, _ in table.values())
        print(
            f"run {number}: {len(met)} disturbances, {held=}, {tried} so far",
            flush=True,
        )
        if held:
            shutil.rmtree(folder)
        else:
            print(f"  kept in {folder}")
    return dict(table)


def format_rows(table: dict[str, list[int]]) -> str:
    """The table as Markdown."""
    total = [sum(column) for column in zip(*table.values(), strict=True)]
    rows = [*sorted(table.items()), ("all", total or [0, 0])]
    lines = ["| disturbance | tried | held |", "|---|---|---|"]
    lines += [f"| {kind} | {tried} | {held} |" for kind, (tried, held) in rows]
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=30.0, help="longest time")
    parser.add_argument(
        "--disturbances",
        dest="most",
        type=int,
        default=10**9,
        help="stop after so many",
    )
    parser.add_argument("--images", action="store_true", help="QLAE with pictures")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(arguments)
    kind = ("qlae", "mini_shapes3d") if given.images else ("hfs", "grid2d")
    settings = {**_SETTINGS, **(_IMAGES if given.images else _POINTS)}
    config = resolve(*kind, profile="cpu", settings=settings)
    # Loaded once: processes that are forked from here start at once. TensorFlow has
    # computed nothing yet, so that there is no thread to lose.
    import experiments.running.training_run  # noqa: F401

    root = Path(tempfile.mkdtemp(prefix="soak-"))
    table = soak(config, root, given)
    print(format_rows(table))
    held = all(tried == good for tried, good in table.values())
    if held:
        shutil.rmtree(root)
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
