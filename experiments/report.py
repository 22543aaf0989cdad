"""Sums up runs: a table beside the papers' numbers, and a page to explore them.

    python -m experiments.report --workdir=runs/study
    python -m experiments.report --workdir=runs/a,runs/b --output=reports/both

Writes `report.md`, `report.json` and `report.html` (one file, opens anywhere).
"""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from absl import flags

from experiments.reporting.page import make_page
from experiments.reporting.summary import (
    Group,
    find_runs,
    format_table,
    group_runs,
    passes_filter,
    table_notes,
    table_rows,
)
from experiments.settings.command_line import launch
from experiments.storage.files import write_json
from experiments.storage.run_directory import RunDirectory
from qlayers.files import write_text

FLAGS = flags.FLAGS
flags.DEFINE_list("workdir", None, "Folders of runs or sweeps.", required=True)
flags.DEFINE_string("output", None, "Folder of the report. Default: the first workdir.")
flags.DEFINE_string("title", "Quantized, disentangled latents", "Title of the page.")
flags.DEFINE_integer(
    "runs_per_group", 1, "Runs of each setting to explore on the page.", lower_bound=0
)


def main(arguments: Sequence[str]) -> int | None:
    finished, unfinished = find_runs(FLAGS.workdir)
    if not finished:
        raise ValueError(
            f"There is no finished run in {', '.join(FLAGS.workdir)}"
            + (f" ({len(unfinished)} unfinished)." if unfinished else ".")
        )
    groups = group_runs(finished)
    print(format_table(*table_rows(groups)))
    for note in table_notes(groups):
        print(f"- {note}")
    for path in unfinished:
        print(f"Not finished, left out: {path}{_why(path)}")
    folder = Path(FLAGS.output or FLAGS.workdir[0])
    folder.mkdir(parents=True, exist_ok=True)
    write_report(groups, folder, FLAGS.title, FLAGS.runs_per_group)
    print(f"Written: {folder / 'report.html'}, report.md, report.json.")
    return None


def _why(path: Path) -> str:
    status = RunDirectory(path).load_status()
    reason = status.get("reason", status.get("state"))
    return f" ({reason})" if reason in ("diverged", "failed") else ""


def _escaped(cell: str) -> str:
    """A cell that stays one and becomes no HTML, whatever a run's files call things."""
    for character, text in (
        ("\\", "\\\\"),
        ("|", "\\|"),
        ("&", "&amp;"),
        ("<", "&lt;"),
    ):
        cell = cell.replace(character, text)
    return cell.replace("\r", " ").replace("\n", " ")


def write_report(
    groups: Sequence[Group], folder: Path, title: str, runs_per_group: int = 1
) -> None:
    """Writes the table as Markdown and JSON, and the page."""
    headings, rows = table_rows(groups)
    table = format_table(headings, [[*map(_escaped, row)] for row in rows])
    notes = [f"- {_escaped(note)}\n" for note in table_notes(groups)]
    write_text(folder / "report.md", "\n".join([table, "", *notes]))
    write_text(folder / "report.html", make_page(groups, title, runs_per_group))
    records = [
        {
            "dataset": group.dataset,
            "model": group.label,
            "runs": [str(run.path) for run in group.runs],
            "scores": {
                name: dataclasses.asdict(value) for name, value in group.scores.items()
            },
            "passed_filter": [passes_filter(run.metrics) for run in group.runs],
            "papers": [paper.to_dict() for paper in group.papers],
        }
        for group in groups
    ]
    write_json(folder / "report.json", records)


if __name__ == "__main__":
    launch(main)
