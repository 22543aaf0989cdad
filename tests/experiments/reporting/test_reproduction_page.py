"""`docs/reproduction.md` says what the records say."""

from experiments.reporting.reproduction_page import PAGE, reproduction_page
from experiments.settings.published import published_rows


def test_page_is_in_step_with_the_records():
    assert PAGE.read_text(encoding="utf-8") == reproduction_page(), (
        "Run `python -m experiments.reporting.reproduction_page`."
    )


def test_every_row_is_on_the_page_with_its_status():
    page = PAGE.read_text(encoding="utf-8")
    for row in published_rows():
        section = page.split(f"### `{row.paper}:{row.table}`\n")[1].split("\n### ")[0]
        (line,) = (s for s in section.splitlines() if s.startswith(f"| `{row.row}` |"))
        assert line.endswith(f"| {row.status} |")
        for cell in row.cells.values():
            assert f"| {cell} |" in line


def test_every_point_that_differs_is_explained():
    page = PAGE.read_text(encoding="utf-8")
    for row in published_rows():
        for gap in (*row.differs, *row.left_open):
            assert f"- *{gap.name}*: {gap.text}\n" in page
