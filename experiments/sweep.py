"""Trains many runs: methods x datasets x seeds x hyperparameters.

    python -m experiments.sweep --methods=ae,qlae --seeds=0,1,2 --workdir=runs/study
    python -m experiments.sweep --methods=qlae --grid=weight_decay=0.01,0.1 \\
        --seeds=0,1 --workdir=runs/decay --engine=ray

The same command again runs what is not finished. A trial that fails is tried once
more; the others go on. Flags of `experiments.train` apply to every run.
"""

import functools
from collections.abc import Sequence
from pathlib import Path

from absl import flags

from experiments.settings import command_line, run_flags
from experiments.settings.command_line import define_workdir, launch
from experiments.settings.run_flags import (
    define_run_flags,
    described_methods,
    settings_from_flags,
)
from experiments.storage.folder_lock import FolderLock
from experiments.sweeps.engines import ENGINES, check_engine, run_local, run_ray
from experiments.sweeps.plan import Trial, parse_grid, parse_seeds, plan_sweep
from experiments.sweeps.trial_folder import is_finished, start_trial
from experiments.sweeps.trial_process import run_trial
from qlayers import datasets

FLAGS = flags.FLAGS
define_run_flags(with_names=False)
for module in (run_flags, command_line):
    flags.adopt_module_key_flags(module)  # so that --help lists them
flags.DEFINE_list("methods", ["qlae"], f"What to train.{described_methods()}")
flags.DEFINE_list(
    "datasets", ["mini_shapes3d"], f"Of: {', '.join(sorted(datasets.names()))}."
)
flags.DEFINE_list("seeds", ["0"], "Seeds of the runs.")
flags.DEFINE_multi_string("grid", [], "A hyperparameter to vary: --grid=beta=1,3,10")
define_workdir("Folder of the sweep.")
flags.DEFINE_enum("engine", "local", ENGINES, "Where trials run.")
flags.DEFINE_integer("workers", 1, "Trials at a time (local).", lower_bound=1)
flags.DEFINE_string("ray_address", None, "Of a Ray cluster; none: a local one.")
flags.DEFINE_float("trial_cpus", 1, "CPUs of a trial (Ray).")
flags.DEFINE_float("trial_gpus", 0, "GPUs of a trial (Ray).")
flags.DEFINE_bool("pictures", True, "Write TensorBoard files and pictures.")
flags.DEFINE_bool("dry_run", False, "List the trials and stop.")


def main(arguments: Sequence[str]) -> int | None:
    settings, hyperparameters = settings_from_flags(FLAGS)
    trials = plan_sweep(
        FLAGS.methods,
        FLAGS.datasets,
        parse_seeds(FLAGS.seeds),
        parse_grid(FLAGS.grid),
        profile=FLAGS.profile,
        settings=settings,
        hyperparameters=hyperparameters,
    )
    check_engine(FLAGS.engine, FLAGS.workers, FLAGS.strategy)
    root = Path(FLAGS.workdir)
    if FLAGS.dry_run:
        for trial in trials:
            print(f"{trial.name}: {trial.config.steps} steps")
        print(f"Would run {len(trials)} trials in {root}; nothing was written.")
        return None
    with FolderLock(root):
        return run_sweep(trials, root)


def run_sweep(trials: Sequence[Trial], root: Path) -> int:
    """Runs what is not finished and prints how it went.

    Returns:
        The exit code: 0 if every trial is finished.
    """
    folders = [start_trial(trial, root) for trial in trials]
    if FLAGS.pictures:
        _write_columns(trials, root)
    left = [folder for folder in folders if not is_finished(folder)]
    done = len(folders) - len(left)
    print(f"{len(folders)} trials, {done} of them finished before.", flush=True)
    failed = []
    for folder, status in _run(left):
        done += status["state"] == "finished"
        ended = status.get("reason", status["state"])
        print(f"[{done}/{len(folders)}] {folder.name}: {ended}", flush=True)
        if status["state"] != "finished":
            failed.append(folder)
    for folder in failed:
        print(f"Failed twice: {folder.name}; see {folder / 'log.txt'}.")
    if not failed:
        print(f"All finished. python -m experiments.report --workdir={root}")
    return 1 if failed else 0


def _write_columns(trials: Sequence[Trial], root: Path) -> None:
    """Tells TensorBoard's HParams page which columns the sweep has."""
    from experiments.reporting.summary import COLUMNS
    from experiments.running.board import hyperparameter_row
    from qlayers.callbacks import write_hyperparameter_columns

    if not any(root.glob("events*")):
        names = {name for t in trials for name in hyperparameter_row(t.config)}
        write_hyperparameter_columns(root, sorted(names), list(COLUMNS))


def _run(folders: Sequence[Path]):
    if FLAGS.engine == "ray":
        return run_ray(
            folders,
            FLAGS.pictures,
            FLAGS.ray_address,
            FLAGS.trial_cpus,
            FLAGS.trial_gpus,
        )
    run = functools.partial(run_trial, pictures=FLAGS.pictures)
    return run_local(folders, FLAGS.workers, run)


if __name__ == "__main__":
    launch(main)
