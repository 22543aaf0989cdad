"""Sums up runs: a table beside the papers' numbers, and a page to explore them.

    python -m experiments.report --workdir=runs/study
    python -m experiments.report --workdir=runs/a,runs/b --output=reports/both

Writes `report.md`, `report.json` and `report.html` (one file, opens anywhere).
"""

from collections.abc import Sequence
from pathlib import Path

from absl import flags

from experiments.settings.command_line import launch

FLAGS = flags.FLAGS
flags.DEFINE_list("workdir", None, "Folders of runs or sweeps.", required=True)
flags.DEFINE_string("output", None, "Folder of the report. Default: the first workdir.")
flags.DEFINE_string("title", "Quantized, disentangled latents", "Title of the page.")
flags.DEFINE_integer(
    "runs_per_group", 1, "Runs of each setting to explore on the page.", lower_bound=0
)


def main(arguments: Sequence[str]) -> int | None:
    from experiments.reporting.efficiency import efficiency_table
    from experiments.reporting.report_files import write_report
    from experiments.reporting.summary import (
        find_runs,
        format_table,
        group_runs,
        table_notes,
        table_rows,
        why_unfinished,
    )

    finished, unfinished = find_runs(FLAGS.workdir)
    groups = group_runs(finished)
    efficiency = efficiency_table([run for group in groups for run in group.runs])
    if efficiency is not None:
        print(f"\n{efficiency}\n")
    for path in unfinished:
        print(f"Not finished, left out: {path} ({why_unfinished(path)})")
    if not finished:
        raise ValueError(f"There is no finished run in {', '.join(FLAGS.workdir)}.")
    print(format_table(*table_rows(groups)))
    for note in table_notes(groups):
        print(f"- {note}")
    folder = Path(FLAGS.output or FLAGS.workdir[0])
    folder.mkdir(parents=True, exist_ok=True)
    write_report(groups, folder, FLAGS.title, FLAGS.runs_per_group)
    print(f"Written: {folder / 'report.html'}, report.md, report.json.")
    return None


if __name__ == "__main__":
    launch(main)
