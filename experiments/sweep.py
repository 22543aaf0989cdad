"""Trains many runs: methods x datasets x seeds x hyperparameters.

    python -m experiments.sweep --methods=ae,qlae --seeds=0,1,2 --workdir=runs/study
    python -m experiments.sweep --methods=qlae --grid=weight_decay=0.01,0.1 \\
        --seeds=0,1 --workdir=runs/decay --engine=ray
    python -m experiments.sweep --reproduce=friede:table1:factor_d_vae/dsprites \\
        --seeds=0,1,2 --workdir=runs/friede

The last trains a published row with every value that its cells sum over, here the six
weights of the total correlation.

The same command again runs what is not finished. A trial that fails is tried once
more; the others go on. Ctrl-C stops all trials, which save their state first. Flags
of `experiments.train` apply to every run.
"""

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from absl import flags

from experiments.settings import command_line, run_flags
from experiments.settings.choices import ENGINES
from experiments.settings.command_line import define_workdir, launch
from experiments.settings.names import dataset_names
from experiments.settings.run_flags import (
    define_reproduce_flags,
    define_run_flags,
    described_methods,
    list_of_rows,
    options_from_flags,
    row_from_flags,
    settings_from_flags,
)

if TYPE_CHECKING:
    from experiments.sweeps.engines import Engine

FLAGS = flags.FLAGS
define_run_flags(with_names=False)
define_reproduce_flags()
for module in (run_flags, command_line):
    flags.adopt_module_key_flags(module)  # so that --help lists them
flags.DEFINE_list("methods", ["qlae"], f"What to train.{described_methods()}")
flags.DEFINE_list(
    "datasets", ["mini_shapes3d"], f"Any of: {', '.join(dataset_names())}."
)
flags.DEFINE_list("seeds", ["0"], "Seeds of the runs.")
flags.DEFINE_multi_string("grid", [], "A hyperparameter to vary: --grid=beta=1,3,10")
define_workdir("Folder of the sweep.")
flags.DEFINE_enum("engine", "local", ENGINES, "Where trials run.")
flags.DEFINE_integer("workers", 1, "Trials at a time (local).", lower_bound=1)
flags.DEFINE_string(
    "ray_address", None, "Address of a Ray cluster. Default: a local one."
)
flags.DEFINE_float("trial_cpus", 1, "Number of CPUs of a trial (Ray).")
flags.DEFINE_float("trial_gpus", 0, "Number of GPUs of a trial (Ray).")
flags.DEFINE_float(
    "trial_timeout",
    None,
    "Seconds without a new line, row or checkpoint after which a trial is ended and "
    "tried again. Default: never.",
    lower_bound=1.0,
)
flags.DEFINE_bool("pictures", True, "Write TensorBoard files and pictures.")
flags.DEFINE_bool("dry_run", False, "List the trials and stop.")


def main(arguments: Sequence[str]) -> int | None:
    from experiments.sweeps import plan
    from experiments.sweeps.engines import check_engine
    from experiments.sweeps.run_sweep import run_sweep

    settings, hyperparameters = settings_from_flags(FLAGS)
    if FLAGS.reproduce == "list":
        print(list_of_rows())
        return None
    row, profile = row_from_flags(FLAGS, "methods")
    methods, datasets, grid = FLAGS.methods, FLAGS.datasets, {}
    if row is not None:
        methods = [row.method]
        varied = plan.grid_of_row(row)
        # A value on the command line stands for those of the row.
        grid = {k: v for k, v in varied.items() if k not in hyperparameters}
        datasets = FLAGS.datasets if FLAGS["datasets"].present else [row.dataset]
    trials = plan.plan_sweep(
        methods,
        datasets,
        plan.parse_seeds(FLAGS.seeds),
        {**grid, **plan.parse_grid(FLAGS.grid)},
        profile=profile,
        settings=settings,
        hyperparameters=hyperparameters,
        options=options_from_flags(FLAGS),
    )
    check_engine(FLAGS.engine, FLAGS.workers, FLAGS.strategy)
    root = Path(FLAGS.workdir)
    if FLAGS.dry_run:
        for trial in trials:
            print(f"{trial.name}: {trial.config.steps} steps")
        print(f"Would run {len(trials)} trials in {root}; nothing was written.")
        return None
    failed = run_sweep(trials, root, engine=_engine(), pictures=FLAGS.pictures)
    for folder in failed:
        print(f"Not finished: {folder.name}; see {folder / 'log.txt'}.")
    if not failed:
        print(f"All finished. python -m experiments.report --workdir={root}")
    return 1 if failed else 0


def _engine() -> "Engine":
    from experiments.sweeps.engines import run_local, run_ray
    from experiments.sweeps.trial_process import run_trial

    if FLAGS.engine == "ray":
        return functools.partial(
            run_ray,
            pictures=FLAGS.pictures,
            address=FLAGS.ray_address,
            num_cpus=FLAGS.trial_cpus,
            num_gpus=FLAGS.trial_gpus,
            timeout=FLAGS.trial_timeout,
        )
    run = functools.partial(
        run_trial, pictures=FLAGS.pictures, timeout=FLAGS.trial_timeout
    )
    return functools.partial(run_local, workers=FLAGS.workers, run=run)


if __name__ == "__main__":
    launch(main)
