"""Scores a trained run again, with the same or with other metrics.

    python -m experiments.evaluate --workdir=runs/qlae-0
    python -m experiments.evaluate --workdir=runs/qlae-0 --metrics=all --protocol=tripod
    python -m experiments.evaluate --workdir=runs/d_vae-0 --scores=factor_vae_score

Loads the chosen checkpoint and rewrites `metrics.json`, the exported networks and the
pictures: what a run lost, or never came to write, is there again.
"""

from collections.abc import Sequence

from absl import flags

from experiments.settings import command_line, run_flags
from experiments.settings.choices import CHOICES, SCORES
from experiments.settings.command_line import define_workdir, launch
from experiments.settings.run_flags import define_scores_flag

FLAGS = flags.FLAGS
define_workdir("Folder of the run.")
define_scores_flag()
for module in (run_flags, command_line):
    flags.adopt_module_key_flags(module)  # so that --help lists them
flags.DEFINE_enum("metrics", None, CHOICES["metrics"], "Default: those of the run.")
flags.DEFINE_enum("protocol", None, CHOICES["protocol"], "Default: that of the run.")
flags.DEFINE_bool("pictures", True, "Draw the pictures of the report again.")
flags.DEFINE_bool("dry_run", False, "Say what would be scored and stop.")


def main(arguments: Sequence[str]) -> int | None:
    from experiments.storage.run_directory import RunDirectory

    directory = RunDirectory(FLAGS.workdir)
    config = directory.load_config()
    unknown = sorted(set(FLAGS.scores or ()) - set(SCORES))
    if unknown:
        raise ValueError(f"Unknown score {unknown[0]!r}. Known: {', '.join(SCORES)}.")
    if FLAGS.dry_run:
        print(
            f"Would score {config.method} on {config.dataset} with metrics "
            f"{FLAGS.metrics or config.metrics}, scores "
            f"{', '.join(FLAGS.scores or config.scores) or 'none beside'}, protocol "
            f"{FLAGS.protocol or config.protocol}; nothing was written."
        )
        return None
    from experiments.running.rescoring import rescore

    with directory:
        rescore(
            directory,
            config,
            FLAGS.metrics,
            FLAGS.protocol,
            FLAGS.scores,
            pictures=FLAGS.pictures,
        )
    return None


if __name__ == "__main__":
    launch(main)
