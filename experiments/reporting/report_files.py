"""The files of a report: Markdown, JSON and the page."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from experiments.reporting.efficiency import efficiency_table
from experiments.reporting.page import make_page
from experiments.reporting.summary import (
    Group,
    format_table,
    passes_filter,
    table_notes,
    table_rows,
)
from experiments.storage.files import write_json
from qlayers.files import write_text


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
    efficiency = efficiency_table([run for group in groups for run in group.runs])
    more = [] if efficiency is None else ["", efficiency, ""]
    write_text(folder / "report.md", "\n".join([table, "", *notes, *more]))
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
