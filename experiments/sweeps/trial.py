"""Runs one trial of a sweep, from the config in its folder.

    python -m experiments.sweeps.trial --workdir=runs/study/mini_shapes3d-qlae-seed0

Started by `experiments.sweep`, each in a process of its own: what one trial does to
its process, or its process to it, does not reach the others.
"""

from collections.abc import Sequence

from absl import flags

from experiments.settings import command_line
from experiments.settings.command_line import define_workdir, exit_code, launch
from experiments.sweeps.child_process import end_with_stdin

FLAGS = flags.FLAGS
define_workdir("Folder of the trial.")
flags.adopt_module_key_flags(command_line)  # so that --help lists it
flags.DEFINE_bool("pictures", True, "Write TensorBoard files and pictures.")
flags.DEFINE_bool(
    "end_with_stdin", False, "End when the process that holds standard input does."
)


def main(arguments: Sequence[str]) -> int | None:
    if FLAGS.end_with_stdin:
        end_with_stdin()
    from experiments.running.training_run import TrainingRun
    from experiments.storage.run_directory import RunDirectory

    config = RunDirectory(FLAGS.workdir).load_config()
    outcome = TrainingRun(config, FLAGS.workdir, pictures=FLAGS.pictures).run()
    return exit_code(outcome)


if __name__ == "__main__":
    launch(main)
