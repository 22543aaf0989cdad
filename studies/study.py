"""One study: its arguments, where it works, what it runs, and the record it writes."""

import argparse
import dataclasses
import functools
import itertools
import logging
import os
import platform
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from experiments.reporting.summary import FinishedRun, load_run
from experiments.settings.processor import processor
from experiments.storage.files import write_json
from experiments.storage.provenance import provenance
from experiments.storage.run_directory import RunDirectory
from experiments.sweeps.engines import run_local
from experiments.sweeps.plan import Trial
from experiments.sweeps.run_sweep import run_sweep
from studies.figures import save_png
from studies.trials import (
    KEPT,
    KEPT_OF_DIVERGED,
    read_spent,
    run_and_keep,
    run_apart,
    run_here,
)

ROOT = Path(__file__).resolve().parents[1]
_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


class StudySkippedError(Exception):
    """A study cannot run here; the text says what is missing."""


@dataclass(frozen=True)
class Study:
    """Where a study works and writes, and how large it is.

    Attributes:
        name: Name of the study and of its files.
        quick: Whether this is the tiny version that tests run.
        workdir: Folder of the runs.
        results: Folder of the record.
        images: Folder of the pictures.
        workers: Trials at a time; each has one thread.
        options: All arguments, with those that the study added.
        command: What starts it again.
        keeps_scores: Whether settings and scores of finished runs are also kept beside
            the record and taken from there: for studies that need no more of a run.
        diverged: Runs whose loss was no longer finite, by name. With `keeps_scores`
            they stay in the record; without, they end the study.
        keeps: Names of further files of a run that are kept then.

    Example:

    ```python
    study = Study.from_arguments("circles", "Axis alignment.", ["--quick"])
    runs = study.run(plan_sweep(["d_vae"], ["circles"], [0], settings={"threads": 1}))
    study.write({"question": "..."}, [summarise("D-VAE", runs)], {})
    ```
    """

    name: str
    quick: bool
    workdir: Path
    results: Path
    images: Path
    workers: int = 1
    options: argparse.Namespace = field(default_factory=argparse.Namespace)
    command: str = ""
    keeps_scores: bool = False
    diverged: dict[str, dict[str, Any]] = field(default_factory=dict)
    keeps: tuple[str, ...] = ()
    started: float = field(default_factory=time.perf_counter)

    @classmethod
    def from_arguments(
        cls,
        name: str,
        description: str,
        arguments: Sequence[str] | None = None,
        add_options: Callable[[argparse.ArgumentParser], Any] = lambda parser: None,
    ) -> "Study":
        """Reads the command line; `--quick` keeps away from the committed files."""
        parser = argparse.ArgumentParser(f"python -m studies.{name}", None, description)
        parser.add_argument("--quick", action="store_true", help="a tiny version")
        parser.add_argument("--workdir", type=Path, help="default: runs/studies/NAME")
        parser.add_argument("--results", type=Path, help="default: studies/results")
        parser.add_argument("--images", type=Path, help="default: docs/images")
        parser.add_argument("--workers", type=int, default=1, help="trials at a time")
        add_options(parser)
        given = parser.parse_args(arguments)
        folder = f"{name}-quick" if given.quick else name
        workdir = given.workdir or ROOT / "runs" / "studies" / folder
        results, images = ROOT / "studies" / "results", ROOT / "docs" / "images"
        if given.quick:
            results = images = workdir
        return cls(
            name,
            given.quick,
            workdir,
            given.results or results,
            given.images or images,
            given.workers,
            given,
            f"python -m studies.{name}" + (" --quick" if given.quick else ""),
        )

    def keeping_scores(self, *further: str) -> "Study":
        """The same study with `keeps_scores`.

        Args:
            *further: Names of further files of a run that are kept then.
        """
        return dataclasses.replace(self, keeps_scores=True, keeps=further)

    def named(self, name: str, folder: str, command: str) -> "Study":
        """The same study under another name, with runs in another folder.

        Args:
            name: Name of the record.
            folder: Name of the folder of the runs, unless `--workdir` was given.
            command: What starts it again.
        """
        own = self.quick or self.options.workdir
        workdir = self.workdir if own else self.workdir.parent / folder
        study = dataclasses.replace(self, name=name, workdir=workdir)
        return dataclasses.replace(study, command=command)

    def run(
        self, trials: Sequence[Trial], start: Callable[..., Any] | None = None
    ) -> list[FinishedRun]:
        """Trains and scores what is not finished, then returns all runs in order.

        Args:
            trials: Trials as `experiments.sweeps.plan.plan_sweep` makes them.
            start: Runs one trial's folder: `run_apart` in a process of its own, the
                default, or `run_here` in this one, the default of `--quick`.
        """
        for name in _ONE_THREAD:
            os.environ.setdefault(name, "1")
        logging.getLogger("tensorflow").setLevel(logging.ERROR)
        start = start or (run_here if self.quick else run_apart)
        keep = self.kept if self.keeps_scores else None
        names = (*KEPT, *self.keeps)
        run = functools.partial(run_and_keep, start=start, keep=keep, names=names)
        engine = functools.partial(run_local, workers=self.workers, run=run)
        left = [t for t in trials if not (self._is_kept(t) or self._has_diverged(t))]
        failed = run_sweep(left, self.workdir, engine=engine, pictures=False)
        self._keep_the_rest(left, run)
        lost = [trial for trial in trials if self._has_diverged(trial)]
        self.diverged.update({t.name: {"seed": t.config.seed} for t in lost})
        broken = [path for path in failed if path.name not in self.diverged]
        if broken:
            logs = "\n".join(f"  {folder / 'log.txt'}" for folder in broken)
            raise RuntimeError(f"{len(broken)} trials failed; their logs:\n{logs}")
        return [load_run(self.folder_of(t)) for t in trials if t not in lost]

    def _keep_the_rest(self, trials: Sequence[Trial], run: Callable[..., Any]) -> None:
        """Ends what an interruption left between a run's scores and their keeping."""
        if not self.keeps_scores:
            return
        for trial in trials:
            folder = self.workdir / trial.name
            if RunDirectory(folder).is_finished() and not self._is_kept(trial):
                run(folder, stop=threading.Event())

    @property
    def kept(self) -> Path:
        """Where settings and scores of finished runs are kept, beside the record.

        They are small enough to be committed: a study then goes on from a fresh clone.
        """
        return self.results / "runs" / self.workdir.name

    def folder_of(self, trial: Trial) -> Path:
        """The folder of a finished run; what was kept if the run itself is gone.

        The work folder may hold a run of the same name with other settings.
        """
        folder = self.workdir / trial.name
        if not self._is_kept(trial):
            return folder
        directory = RunDirectory(folder)
        is_there = directory.is_finished() and directory.load_config() == trial.config
        return folder if is_there else self.kept / trial.name

    def _is_kept(self, trial: Trial, files: Sequence[str] | None = None) -> bool:
        """Whether this very run is kept: same settings, not just the same name."""
        folder, files = self.kept / trial.name, files or (*KEPT, *self.keeps)
        is_there = all((folder / name).exists() for name in files)
        if not self.keeps_scores or not is_there:
            return False
        return RunDirectory(folder).load_config() == trial.config

    def _has_diverged(self, trial: Trial) -> bool:
        """Whether this very run is kept as one that diverged: it would do so again."""
        return self._is_kept(trial, KEPT_OF_DIVERGED)

    def finished(
        self, planned: Mapping[str, Sequence[Trial]]
    ) -> dict[str, list[Trial]]:
        """Those of the planned trials that have been run and are kept.

        Args:
            planned: Trials of each group.

        Returns:
            The trials of each group; no group is empty.
        """
        found = {
            label: [t for t in trials if self._is_kept(t) or self._has_diverged(t)]
            for label, trials in planned.items()
        }
        return {label: trials for label, trials in found.items() if trials}

    def run_by_seed(
        self,
        planned: Mapping[str, Sequence[Trial]],
        start: Callable[..., Any] | None = None,
    ) -> dict[str, list[FinishedRun]]:
        """Runs the first seed of all groups, then the second, and so on.

        An interruption then leaves all groups with the same number of seeds.

        Args:
            planned: Trials of each group; some may have fewer seeds than others.
            start: Runs one trial's folder, see `run`.

        Returns:
            The runs of each group without those that diverged; no group is empty.
        """
        seeds = itertools.zip_longest(*planned.values())
        rounds = [trial for row in seeds for trial in row if trial is not None]
        finished = {run.path.name: run for run in self.run(rounds, start)}
        for label, trials in planned.items():
            for lost in self.diverged.keys() & {trial.name for trial in trials}:
                self.diverged[lost]["label"] = label
        groups = {
            label: [finished[t.name] for t in trials if t.name in finished]
            for label, trials in planned.items()
        }
        return {label: runs for label, runs in groups.items() if runs}

    def write(
        self,
        settings: Mapping[str, Any],
        groups: Sequence[Mapping[str, Any]],
        findings: Mapping[str, Any],
        other_runs: Sequence[FinishedRun] = (),
    ) -> Path:
        """Writes the record of the study.

        Args:
            settings: The question, and how it was asked.
            groups: Groups of runs as `summarise` makes them.
            findings: Results that follow from the groups.
            other_runs: Runs that are in no group but took time.
        """
        spent = [run for group in groups for run in group["runs"]]
        spent = [*spent, *(read_spent(run.path) for run in other_runs)]
        training = sum(run["seconds"] for run in spent)
        session = time.perf_counter() - self.started
        path = self.results / f"{self.name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        versions = {v for group in groups for v in group["code"]}
        write_json(
            path,
            {
                "study": self.name,
                "command": self.command,
                "quick": self.quick,
                "settings": settings,
                "code": sorted(versions),
                "machine": machine(),
                "seconds": {
                    "all_runs": training,
                    "all_runs_processor": sum(run["cpu_seconds"] for run in spent),
                    "last_start": session,
                    "threads_per_run": 1,
                    "runs_at_a_time": self.workers,
                },
                "groups": [
                    {k: v for k, v in group.items() if k != "code"} for group in groups
                ],
                "diverged": self.diverged,
                "findings": findings,
            },
        )
        print(
            f"{len(spent)} runs took {training / 60:.1f} min in all, this start "
            f"{session / 60:.1f} min. Written: {path}",
            flush=True,
        )
        return path

    def save_figure(self, figure: Any, name: str) -> Path:
        """Saves a Matplotlib figure as `NAME.png` beside the other pictures."""
        path = self.images / f"{name}.png"
        save_png(figure, path)
        print(f"Written: {path}", flush=True)
        return path


def machine() -> dict[str, Any]:
    """What the study ran on."""
    found = provenance()
    return {
        "processor": processor(),
        "cores": os.cpu_count(),
        "system": platform.system(),
        "python": found["python"],
        "packages": found["packages"],
        "onednn": found["onednn"],
    }
