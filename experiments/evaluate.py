"""Scores a trained run again, with the same or with other metrics.

    python -m experiments.evaluate --workdir=runs/qlae-0
    python -m experiments.evaluate --workdir=runs/qlae-0 --metrics=all --protocol=tripod

Loads the chosen checkpoint and rewrites `metrics.json`.
"""

from collections.abc import Sequence

from absl import flags

from experiments.settings import command_line
from experiments.settings.command_line import define_workdir, launch

FLAGS = flags.FLAGS
define_workdir("Folder of the run.")
flags.adopt_module_key_flags(command_line)  # so that --help lists it
flags.DEFINE_enum(
    "metrics", None, ["fast", "standard", "all"], "Default: those of the run."
)
flags.DEFINE_enum(
    "protocol", None, ["paper", "standalone", "tripod"], "Default: that of the run."
)
flags.DEFINE_bool("dry_run", False, "Say what would be scored and stop.")


def main(arguments: Sequence[str]) -> int | None:
    from experiments.storage.run_directory import RunDirectory

    directory = RunDirectory(FLAGS.workdir)
    config = directory.load_config()
    if FLAGS.dry_run:
        print(
            f"Would score {config.method} on {config.dataset} with metrics "
            f"{FLAGS.metrics or config.metrics}, protocol "
            f"{FLAGS.protocol or config.protocol}; nothing was written."
        )
        return None
    from experiments.running.rescoring import rescore

    with directory:
        rescore(directory, config, FLAGS.metrics, FLAGS.protocol)
    return None


if __name__ == "__main__":
    launch(main)
