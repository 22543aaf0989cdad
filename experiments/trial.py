"""Runs one trial of a sweep, from the config in its folder.

    python -m experiments.trial --workdir=runs/study/mini_shapes3d-qlae-seed0

Started by `experiments.sweep`, each in a process of its own: what one trial does to
its process, or its process to it, does not reach the others.
"""

from collections.abc import Sequence

from absl import flags

from experiments import launcher
from experiments.launcher import define_workdir, exit_code, launch
from experiments.run_directory import RunDirectory

FLAGS = flags.FLAGS
define_workdir("Folder of the trial.")
flags.adopt_module_key_flags(launcher)  # so that --help lists it
flags.DEFINE_bool("pictures", True, "Write TensorBoard files and pictures.")


def main(arguments: Sequence[str]) -> int | None:
    config = RunDirectory(FLAGS.workdir).load_config()
    from experiments.training import TrainingRun

    outcome = TrainingRun(config, FLAGS.workdir, pictures=FLAGS.pictures).run()
    return exit_code(outcome)


if __name__ == "__main__":
    launch(main)
