"""`docs/reproduction.md`: every published row, and whether it can be run here.

python -m experiments.reporting.reproduction_page
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

from experiments.settings.published import PAPERS, Gap, PublishedRow, published_rows

PAGE = Path(__file__).parents[2] / "docs" / "reproduction.md"

_HEAD = """\
# Reproduction

Every row of every table of the five papers, from the records in `experiments/settings/published/`. This page is
generated: `python -m experiments.reporting.reproduction_page`.

    python -m experiments.train --reproduce=qlae:table1:qlae/shapes3d --workdir=runs/qlae-0
    python -m experiments.train --reproduce=qlae:table1:qlae/shapes3d --variant=code --workdir=runs/qlae-code-0
    python -m experiments.train --reproduce=list

A row says

- **runs**: the run has the row's data, networks, loss, optimizer, schedules, size and scoring;
- **differs in ...**: the run differs in the points named, which are explained below the tables of each paper;
- **left open: ...**: neither the paper nor its code says it; what is taken here is explained there too;
- **not here, because ...**: the row cannot be run.

Datasets other than `grid2d` and `balls` need their files. `--variant=code` takes what the authors' public code ran
where it differs from the text; differences that cannot be repeated here are marked so. Cells are those printed;
± is followed by (s.e.) if it is a standard error, brackets are quartiles, MSE is in units of the images' [0, 1].
"""  # noqa: E501


def reproduction_page() -> str:
    """The page as Markdown."""
    return "\n".join([_HEAD, _overview(), *map(_paper_section, PAPERS)])


def _overview() -> str:
    lines = ["| paper | rows | run | differ | not here |", "|---|---|---|---|---|"]
    for paper, module in PAPERS.items():
        rows = _rows_of(paper)
        runs = sum(row.runs and not row.differs for row in rows)
        differ = sum(row.runs and bool(row.differs) for row in rows)
        missing = len(rows) - runs - differ
        counts = f"{len(rows)} | {runs} | {differ} | {missing}"
        lines.append(f"| {module.NAME}, *{module.TITLE}* | {counts} |")
    return "\n".join([*lines, ""])


def _rows_of(paper: str) -> list[PublishedRow]:
    return [row for row in published_rows() if row.paper == paper]


def _paper_section(paper: str) -> str:
    module, rows = PAPERS[paper], _rows_of(paper)  # type: ignore[index]
    parts = [f"## {module.NAME}: {module.TITLE}", ""]
    for table in dict.fromkeys(row.table for row in rows):
        parts += _table([row for row in rows if row.table == table])
    parts += _other_tables(module.OTHER_TABLES)
    parts += _searched(rows)
    parts += _gaps("Points that differ", (g for row in rows for g in row.differs))
    parts += _gaps("Points left open", (g for row in rows for g in row.left_open))
    parts += _code(rows)
    return "\n".join(parts)


def _table(rows: list[PublishedRow]) -> Iterator[str]:
    scores = list(dict.fromkeys(score for row in rows for score in row.cells))
    head = ["row", "model", *(f"`{score}`" for score in scores), "status"]
    seeds = sorted({row.seeds for row in rows if row.seeds is not None})
    kinds = sorted({cell.kind for row in rows for cell in row.cells.values()})
    yield f"### `{rows[0].paper}:{rows[0].table}`"
    yield ""
    runs = " or ".join(map(str, seeds)) if seeds else "number of seeds not said"
    if scores:
        yield (
            f"{rows[0].statistic.capitalize()} over runs ({runs}); intervals: "
            f"{', '.join(kinds)}."
        )
    else:
        yield "Described in words; no number is printed."
    yield ""
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        cells = [str(row.cells[s]) if s in row.cells else "" for s in scores]
        line = [f"`{row.row}`", row.title, *cells, row.status]
        yield f"| {' | '.join(line)} |"
    yield ""


def _listed(title: str, items: Iterable[str]) -> Iterator[str]:
    """A title and a list below it; nothing if the list is empty."""
    lines = [f"- {item}" for item in items]
    if lines:
        yield from (f"{title}:", "", *lines, "")


def _other_tables(tables: dict[str, str]) -> Iterator[str]:
    items = (f"{name}: {text}." for name, text in tables.items())
    return _listed("Tables without results", items)


def _searched(rows: list[PublishedRow]) -> Iterator[str]:
    """Values that the authors chose from, and the choice of each row."""
    found: dict[str, list[str]] = {}
    for row in rows:
        for name, values in row.searched.items():
            listed = ", ".join(f"{value:g}" for value in values)
            key = f"`{name}` of `{row.row.partition('/')[0]}` from {listed}"
            chosen = f"{row.dataset} {row.recipe()[name]:g}"
            if chosen not in found.setdefault(key, []):
                found[key].append(chosen)
    title = "Searched (`experiments.sweep --grid=name=value,...`), and chosen"
    items = (f"{key}: {', '.join(chosen)}." for key, chosen in found.items())
    return _listed(title, items)


def _gaps(title: str, gaps: Iterable[Gap]) -> Iterator[str]:
    unique = dict.fromkeys(gaps)
    return _listed(title, (f"*{gap.name}*: {gap.text}" for gap in unique))


def _code(rows: list[PublishedRow]) -> Iterator[str]:
    found: dict[str, tuple[str, str, bool]] = {}
    methods: dict[str, dict[str, None]] = {}
    for row in rows:
        for difference in row.code:
            key = f"{difference.name}: {difference.code}"
            found[key] = (difference.text, difference.code, bool(difference.sets))
            methods.setdefault(key, {})[str(row.method)] = None
    if not found:
        yield "No public code: `--variant=code` is the text."
        yield ""
        return
    yield "Where the public code differs from the text (`--variant=code`):"
    yield ""
    yield "| setting | text | code | here | methods |"
    yield "|---|---|---|---|---|"
    for key, (text, code, is_set) in found.items():
        here = "set" if is_set else "cannot be repeated"
        name = key.partition(":")[0]
        yield f"| {name} | {text} | {code} | {here} | {', '.join(methods[key])} |"
    yield ""


if __name__ == "__main__":
    PAGE.write_text(reproduction_page(), encoding="utf-8")
    print(f"Written: {PAGE}")
