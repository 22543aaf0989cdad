"""What the studies share: arguments, trials, intervals and the record they write."""

import argparse
import dataclasses
import functools
import io
import itertools
import logging
import os
import platform
import re
import shutil
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from experiments.reporting.summary import (
    FinishedRun,
    Interval,
    format_table,
    interval,
    load_run,
)
from experiments.settings.processor import processor
from experiments.storage.files import read_json, write_json
from experiments.storage.provenance import provenance
from experiments.storage.run_directory import RunDirectory
from experiments.sweeps.child_process import Ended, run_child
from experiments.sweeps.engines import run_local
from experiments.sweeps.plan import Trial, plan_sweep
from experiments.sweeps.run_sweep import run_sweep
from experiments.sweeps.trial_process import run_trial

ROOT = Path(__file__).resolve().parents[1]
LEVEL = 0.95
# Settings that make a run tiny, for `--quick`.
QUICK: dict[str, Any] = {"steps": 2, "evaluate_every": 2, "log_every": 1}
_SPENT = "spent.json"
_KEPT = ("config.json", "metrics.json", _SPENT)
_KEPT_OF_DIVERGED = ("config.json", "status.json", _SPENT)
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
        names = (*_KEPT, *self.keeps)
        run = functools.partial(_timed, start=start, keep=keep, names=names)
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
        folder, files = self.kept / trial.name, files or (*_KEPT, *self.keeps)
        is_there = all((folder / name).exists() for name in files)
        if not self.keeps_scores or not is_there:
            return False
        return RunDirectory(folder).load_config() == trial.config

    def _has_diverged(self, trial: Trial) -> bool:
        """Whether this very run is kept as one that diverged: it would do so again."""
        return self._is_kept(trial, _KEPT_OF_DIVERGED)

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
        """Saves a Matplotlib figure as `NAME.png` beside the other pictures.

        A palette of 128 colours makes clouds of points three times smaller.
        """
        import matplotlib.pyplot as plt
        from PIL import Image

        self.images.mkdir(parents=True, exist_ok=True)
        path = self.images / f"{name}.png"
        drawn = io.BytesIO()
        figure.savefig(drawn, dpi=90, bbox_inches="tight")
        plt.close(figure)
        with Image.open(drawn) as image:
            image.convert("RGB").quantize(128).save(path, optimize=True)
        print(f"Written: {path}", flush=True)
        return path


def _timed(
    folder: Path,
    start: Callable[..., Any],
    keep: Path | None,
    names: Sequence[str],
    stop: threading.Event,
) -> dict[str, Any]:
    """Runs a trial, adds to the time its folder has cost, and keeps its scores."""
    before, clock = read_spent(folder), time.perf_counter()
    processor, status = time.process_time(), {}
    try:
        status = start(folder, pictures=False, stop=stop)
    finally:
        used = status.pop("cpu_seconds", time.process_time() - processor)
        spent = {
            "seconds": before["seconds"] + time.perf_counter() - clock,
            "cpu_seconds": before["cpu_seconds"] + used,
        }
        write_json(folder / _SPENT, spent)
    if keep:
        kept = {"finished": names, "diverged": _KEPT_OF_DIVERGED}
        _keep(folder, keep, kept.get(status.get("reason", status["state"]), ()))
    return {**status, "seconds": spent["seconds"]}


def _keep(folder: Path, keep: Path, names: Sequence[str]) -> None:
    """Copies files of a run, in place of those of an earlier run of its name."""
    if not names:
        return
    target = keep / folder.name
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for name in names:
        shutil.copyfile(folder / name, target / name)


def run_apart(
    folder: Path, pictures: bool = False, stop: threading.Event | None = None
) -> dict[str, Any]:
    """Runs a trial in a process of its own; the status has its `cpu_seconds`.

    Args:
        folder: The trial's folder, with its config.
        pictures: Whether it writes TensorBoard files and pictures.
        stop: Ends the trial when it is set.
    """
    used = 0.0

    def start(command: list[str], log: Any, end: Callable[[], str | None]) -> Ended:
        nonlocal used
        ended = run_child(command, log, end)
        used += ended.cpu_seconds
        return ended

    status = run_trial(folder, pictures, start, stop)
    return {**status, "cpu_seconds": used}


def run_here(
    folder: Path, pictures: bool = False, stop: threading.Event | None = None
) -> dict[str, Any]:
    """Runs a trial in this process, for trials that take no longer than a start.

    The folder, its resumption and its scores are those of a trial with a process of its
    own; what ends this process ends the study, which goes on at its next start.

    Args:
        folder: The trial's folder, with its config.
        pictures: Whether it writes TensorBoard files and pictures.
        stop: Ends the trial when it is set.
    """
    import keras

    from experiments.running.training_run import TrainingRun

    keras.backend.clear_session()
    config = RunDirectory(folder).load_config()
    with open(folder / "log.txt", "a", encoding="utf-8") as log:

        def report(text: str) -> None:
            log.write(f"{text}\n")

        outcome = TrainingRun(config, folder, report, pictures, stop).run()
    status = {"state": "finished", "attempts": 1}
    if not RunDirectory(folder).is_finished():
        status |= {"state": "failed", "reason": outcome}
    write_json(RunDirectory(folder).status_file, status)
    return status


def read_spent(folder: Path) -> dict[str, float]:
    """Wall and processor seconds of a trial, over all its starts."""
    path = folder / _SPENT
    return read_json(path) if path.exists() else {"seconds": 0.0, "cpu_seconds": 0.0}


def plan_methods(
    dataset: str,
    seeds: Sequence[int],
    settings: Mapping[str, Any],
    hyperparameters: Mapping[str, Mapping[str, Any]],
) -> dict[str, list[Trial]]:
    """Trials of several methods, each with hyperparameters of its own.

    Args:
        dataset: Name of the dataset.
        seeds: Seeds of each method.
        settings: Settings of every run.
        hyperparameters: Hyperparameters by method.
    """
    return {
        method: plan_sweep(
            [method], [dataset], seeds, settings=settings, hyperparameters=values
        )
        for method, values in hyperparameters.items()
    }


def renamed(trials: Sequence[Trial], prefix: str) -> list[Trial]:
    """The same trials in folders whose names begin with `prefix`."""
    return [dataclasses.replace(t, name=f"{prefix}-{t.name}") for t in trials]


def summarise(
    label: str,
    runs: Sequence[FinishedRun],
    further: Sequence[Mapping[str, float]] | None = None,
) -> dict[str, Any]:
    """Scores of runs that differ in their seed, with means and 95 % t-intervals.

    Args:
        label: Name of the group.
        runs: Its runs.
        further: More scores of each run, by name.

    Example:

    ```python
    group = summarise("Cliff", runs)
    group["scores"]["mcc/mcc"]["mean"], group["scores"]["mcc/mcc"]["half_width"]
    ```
    """
    further = further or [{} for _ in runs]
    rows: list[dict[str, Any]] = [
        {
            "seed": run.config.seed,
            "scores": {**run.metrics["scores"], **more},
            "processor": ", then ".join(_seen(run, "processor")) or None,
            **read_spent(run.path),
        }
        for run, more in zip(runs, further, strict=True)
    ]
    names = sorted({name for row in rows for name in row["scores"]})
    config = runs[0].config.to_dict()
    for name in ("seed", "data_dir"):  # no result depends on where data lie
        config.pop(name)
    return {
        "label": label,
        "config": config,
        "runs": rows,
        "scores": {n: spread([row["scores"].get(n) for row in rows]) for n in names},
        "notes": _notes(runs),
        "code": sorted({version for run in runs for version in _versions(run)}),
    }


def _seen(run: FinishedRun, name: str) -> list[str]:
    return RunDirectory(run.path).conditions_seen(name)


def _versions(run: FinishedRun) -> set[str]:
    """Versions of the code that trained a run and that scored it."""
    return {*_seen(run, "code"), str(run.metrics["provenance"]["code"])}


def _notes(runs: Sequence[FinishedRun]) -> dict[str, str]:
    """What InfoMEC says of the scores of runs; of notes alike, the largest figures."""
    found = {
        re.sub(r"\d[\d.]*", "#", note): note
        for note in sorted(
            note
            for run in runs
            for note in run.metrics.get("results", {})
            .get("infomec", {})
            .get("notes", [])
        )
    }
    return {"infomec": "; ".join(found.values())} if found else {}


def spread(values: Sequence[float | None]) -> dict[str, Any]:
    """Mean, half width of the 95 % t-interval, standard error and number of values.

    Values that are None or not finite are left out.
    """
    found = interval([v for v in values if v is not None], LEVEL)
    kept = np.asarray([v for v in values if v is not None], float)
    kept = kept[np.isfinite(kept)]
    error = float(kept.std(ddof=1) / len(kept) ** 0.5) if len(kept) > 1 else None
    return {
        "mean": found.mean,
        "half_width": found.half_width,
        "standard_error": error,
        "count": found.count,
    }


def as_text(value: Mapping[str, Any]) -> str:
    """`mean ± half width` of what `spread` returned."""
    return str(Interval(value["mean"], value["half_width"], value["count"]))


def score_table(
    groups: Sequence[Mapping[str, Any]],
    columns: Mapping[str, str],
    further: Mapping[str, Callable[[Mapping[str, Any]], str]] | None = None,
) -> str:
    """A row for each group: means with 95 % t-intervals of its seeds.

    Args:
        groups: Groups of runs as `summarise` makes them.
        columns: Headings by score.
        further: What else a row shows, by heading.
    """
    further = further or {}
    rows = []
    for group in groups:
        values = [group["scores"].get(name) for name in columns]
        cells = [as_text(value) if value else "" for value in values]
        cells += [text(group) for text in further.values()]
        rows.append([group["label"], str(len(group["runs"])), *cells])
    return format_table(["method", "runs", *columns.values(), *further], rows)


def paired_difference(
    first: Mapping[str, Any], second: Mapping[str, Any], score: str
) -> dict[str, Any]:
    """`spread` of first minus second over the seeds whose runs both have the score."""
    ours, theirs = (
        {
            row["seed"]: row["scores"][score]
            for row in group["runs"]
            if row["scores"].get(score) is not None
        }
        for group in (first, second)
    )
    both = sorted(set(ours) & set(theirs))
    if not both:
        raise ValueError("Only runs of the same seeds can be paired.")
    return spread([ours[seed] - theirs[seed] for seed in both])


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


def encode(run: FinishedRun, size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sources, images and noise-free latents of a run's evaluation set.

    Args:
        run: A finished run.
        size: Number of images.
    """
    import keras

    import qlayers  # noqa: F401, registers the layers
    from experiments.running.setup import load_dataset

    dataset = load_dataset(run.config)
    sources, images = dataset.evaluation_set(size)
    encoder = keras.models.load_model(run.path / "encoder.keras")
    batches = np.array_split(images, max(1, len(images) // 500))
    latents = [keras.ops.convert_to_numpy(encoder(batch)) for batch in batches]
    return sources, images, np.concatenate(latents)


def new_figure(rows: int, columns: int, size: float = 2.6) -> tuple[Any, np.ndarray]:
    """An empty figure with square axes, drawn without a screen."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt.subplots(
        rows, columns, figsize=(size * columns, size * rows), squeeze=False
    )
