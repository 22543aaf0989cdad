"""Trains a model.

    python -m experiments.train --method=qlae --workdir=runs/qlae-0 --seed=0
    python -m experiments.train --profile=cpu --workdir=runs/quick --steps=2000
    python -m experiments.train --reproduce=qlae:table1:qlae/shapes3d --workdir=runs/row
    python -m experiments.train --reproduce=list

The same command again continues where the last one stopped. --dry_run prints what
would be run. Watch it with `tensorboard --logdir=runs`.
"""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from absl import flags

from experiments.settings import command_line, run_flags
from experiments.settings.command_line import define_workdir, exit_code, launch
from experiments.settings.run_flags import (
    define_reproduce_flags,
    define_run_flags,
    list_of_rows,
    options_from_flags,
    recipe_from_flags,
    settings_from_flags,
)

if TYPE_CHECKING:
    from experiments.settings.config import RunConfig

FLAGS = flags.FLAGS
define_run_flags()
define_reproduce_flags()
for module in (run_flags, command_line):
    flags.adopt_module_key_flags(module)  # so that --help lists them
define_workdir("Folder of the run.", unless=lambda: FLAGS.reproduce == "list")
flags.DEFINE_bool("dry_run", False, "Print the resolved settings and stop.")
flags.DEFINE_bool("pictures", True, "Write TensorBoard files and pictures.")


def main(arguments: Sequence[str]) -> int | None:
    if FLAGS.reproduce == "list":
        print(list_of_rows())
        return None
    from experiments.settings.config import resolve

    settings, hyperparameters = settings_from_flags(FLAGS)
    config = resolve(
        *recipe_from_flags(FLAGS),
        seed=FLAGS.seed,
        settings=settings,
        hyperparameters=hyperparameters,
        options=options_from_flags(FLAGS),
    )
    if FLAGS.dry_run:
        print(json.dumps(config.to_dict(), indent=2))
        print(_unset(config))
        print(f"Would train in {FLAGS.workdir}; nothing was written.")
        return None
    from experiments.running.training_run import TrainingRun

    outcome = TrainingRun(config, FLAGS.workdir, pictures=FLAGS.pictures).run()
    return exit_code(outcome)


def _unset(config: "RunConfig") -> str:
    """The hyperparameters that neither the recipe nor a flag sets."""
    from models import METHODS

    known = METHODS[config.method].hyperparameters()
    names = [name for name in known if name not in config.hyperparameters]
    return f"Left at the method's own default: {', '.join(names) or 'nothing'}."


if __name__ == "__main__":
    launch(main)
