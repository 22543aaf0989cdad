"""One HTML page of a set of runs, with everything in it."""

import base64
import hashlib
import html
import json
import math
from collections.abc import Sequence
from pathlib import Path
from string import Template
from typing import Any

from experiments.reporting.run_payload import run_payload
from experiments.reporting.summary import (
    COLUMNS,
    Group,
    passes_filter,
    table_notes,
    table_rows,
)

_ASSETS = Path(__file__).with_name("page_assets")
_SCRIPTS = ("runtime.js", "page.js")
_ABOUT = (
    "Means and 95 % t-intervals over seeds. Grey rows are what the method's paper "
    "reports; it used other images, networks and training times unless the settings "
    "say otherwise. “Filter” says whether a checkpoint reached the reconstruction "
    "quality that was asked for."
)
_CHARTED = (
    "infomec/modularity",
    "infomec/explicitness",
    "dci/disentanglement",
    "mcc/mcc",
    "psnr/psnr",
)


def make_page(groups: Sequence[Group], title: str, runs_per_group: int = 1) -> str:
    """The page as text; it loads nothing from elsewhere.

    Args:
        groups: What `summary.group_runs` made.
        title: Title of the page.
        runs_per_group: Runs of each group that can be explored.

    Example:

    ```python
    page = make_page(group_runs(find_runs(["runs/study"])[0]), "My study")
    ```
    """
    count = sum(len(group.runs) for group in groups)
    shown = [
        run_payload(run, group)
        for group in groups
        for run in group.runs[:runs_per_group]
    ]
    methods = {run.config.method for group in groups for run in group.runs}
    lead = [(count, "run"), (len(methods), "method"), (len(groups), "setting")]
    return fill_page(
        title=title,
        lead=", ".join(_counted(number, noun) for number, noun in lead),
        about=_ABOUT,
        table=make_table(groups),
        charts="".join(make_chart(groups, name) for name in _CHARTED),
        footer=_versions(groups),
        runs=shown,
    )


def fill_page(
    *,
    title: str,
    lead: str,
    about: str = "",
    table: str = "",
    charts: str = "",
    footer: str = "",
    runs: Sequence[Any] = (),
) -> str:
    """Puts the parts of a page together.

    The browser runs and styles with nothing but the two texts of this project, which
    the page's policy names by their checksums.

    Args:
        title: Title of the page.
        lead: Line below the title.
        about: What the scores are, as text.
        table: HTML of the table of scores.
        charts: HTML of the charts.
        footer: Line at the end.
        runs: Payloads of the runs to explore, see `run_payload`.

    Example:

    ```python
    page = fill_page(title="Empty", lead="Nothing to see")
    ```
    """
    style = _asset("style.css")
    script = "\n".join(_asset(name) for name in _SCRIPTS)
    policy = "; ".join(
        [
            "default-src 'none'",
            "img-src data:",
            f"style-src {_checksum(style)}",
            f"script-src {_checksum(script)}",
            "base-uri 'none'",
            "form-action 'none'",
        ]
    )
    return Template(_asset("page.html")).substitute(
        title=html.escape(title),
        lead=html.escape(lead),
        about=html.escape(about),
        table=table,
        charts=charts,
        footer=html.escape(footer),
        policy=policy,
        style=style,
        script=script,
        data=embed_json(list(runs)),
    )


def _asset(name: str) -> str:
    return (_ASSETS / name).read_text(encoding="utf-8")


def _checksum(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def embed_json(value: Any) -> str:
    """JSON that cannot end the script element it stands in.

    Args:
        value: Plain data.

    Example:

    ```python
    embed_json("</script>")  # '"\\\\u003c/script\\\\u003e"'
    ```
    """
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def make_table(groups: Sequence[Group]) -> str:
    """The table of scores; rows of papers have the class `paper`.

    Args:
        groups: What `summary.group_runs` made.

    Example:

    ```python
    table = make_table(group_runs(find_runs(["runs/study"])[0]))
    ```
    """
    headings, rows = table_rows(groups)
    place = headings.index("runs") + 1
    headings = [*headings[:place], "seeds", "steps", "filter", *headings[place:]]
    head = "".join(f'<th scope="col">{html.escape(text)}</th>' for text in headings)
    body, following = [], iter(groups)
    for row in rows:
        is_paper = row[1].startswith("  ")
        facts = ["", "", ""] if is_paper else _training(next(following))
        kind = ' class="paper"' if is_paper else ""
        cells = "".join(
            f"<td>{html.escape(cell.strip())}</td>"
            for cell in [*row[:place], *facts, *row[place:]]
        )
        body.append(f"<tr{kind}>{cells}</tr>")
    return (
        f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>"
        + make_notes(table_notes(groups))
    )


def make_notes(notes: Sequence[str]) -> str:
    """What the table leaves out, and why; empty if nothing.

    Args:
        notes: What `summary.table_notes` made.

    Example:

    ```python
    make_notes(["qlae on mini_shapes3d: Hsu et al. 2023: other settings: ..."])
    ```
    """
    if not notes:
        return ""
    items = "".join(f"<li>{html.escape(note)}</li>" for note in notes)
    return (
        '<details class="notes"><summary>Filters, and published numbers that do not '
        f"stand here</summary><ul>{items}</ul></details>"
    )


def _training(group: Group) -> list[str]:
    """Seeds, steps and what the reconstruction filter says, of a row."""
    seeds = sorted(run.config.seed for run in group.runs)
    is_range = len(seeds) > 2 and seeds == list(range(seeds[0], seeds[-1] + 1))
    text = f"{seeds[0]} to {seeds[-1]}" if is_range else ", ".join(map(str, seeds))
    steps = f"{group.runs[0].config.steps:,}"
    judged = [passes_filter(run.metrics) for run in group.runs]
    judged = [passed for passed in judged if passed is not None]
    if not judged:
        return [text, steps, ""]
    if len(judged) == 1:
        return [text, steps, "passed" if judged[0] else "not passed"]
    return [text, steps, f"{sum(map(bool, judged))} of {len(judged)} passed"]


def make_chart(groups: Sequence[Group], score: str) -> str:
    """Means and intervals of one score, a line for each group; empty without any."""
    found = [(g, g.scores[score]) for g in groups if score in g.scores]
    found = [(group, value) for group, value in found if math.isfinite(value.mean)]
    if not found:
        return ""
    ends = [value.mean + (value.half_width or 0) for _, value in found]
    limit = max(1.0, *ends) if score == "psnr/psnr" else 1.0
    several = len({group.dataset for group in groups}) > 1
    prefixes = [f"{group.dataset}: " if several else "" for group, _ in found]
    left, width, row = 190 + 7 * max(map(len, prefixes)), 240, 24
    height = row * len(found) + 44

    def place(value: float) -> float:
        return left + width * min(max(value / limit, 0.0), 1.0)

    parts = [
        f'<text x="0" y="14" font-weight="600">{html.escape(COLUMNS[score])}</text>'
    ]
    for i, (group, value) in enumerate(found):
        y = 36 + i * row
        half = value.half_width or 0.0
        low, high = place(value.mean - half), place(value.mean + half)
        label = _chart_label(prefixes[i], group.label)
        parts.append(f'<text x="0" y="{y + 4}">{label}</text>')
        parts.append(
            f'<line x1="{left}" x2="{left + width}" y1="{y}" y2="{y}" '
            'stroke="var(--line)"/>'
        )
        parts.append(
            f'<line x1="{low:.1f}" x2="{high:.1f}" y1="{y}" y2="{y}" '
            'stroke="var(--accent)" stroke-width="3"/>'
        )
        parts.append(
            f'<circle cx="{place(value.mean):.1f}" cy="{y}" r="4.5" '
            f'fill="var(--accent)"><title>{html.escape(str(value))}</title></circle>'
        )
    bottom = height - 2
    parts.append(f'<text class="soft" x="{left}" y="{bottom}">0</text>')
    parts.append(
        f'<text class="soft" x="{left + width}" y="{bottom}" '
        f'text-anchor="end">{limit:.3g}</text>'
    )
    name = f'aria-label="{html.escape(COLUMNS[score])} of each setting"'
    size = f'viewBox="0 0 {left + width + 8} {height}" width="{left + width + 8}"'
    return f'<svg {size} role="img" {name}>{"".join(parts)}</svg>'


def _chart_label(prefix: str, label: str) -> str:
    """The label as HTML, cut to fit; the whole of it appears under the pointer."""
    shown = label if len(label) < 30 else label[:28] + "…"
    return f"{html.escape(prefix + shown)}<title>{html.escape(prefix + label)}</title>"


def _versions(groups: Sequence[Group]) -> str:
    texts = set()
    for group in groups:
        for run in group.runs:
            found = run.metrics.get("provenance", {})
            packages = found.get("packages", {})
            names = ("qlayers", "keras", "tensorflow")
            text = ", ".join(f"{n} {packages[n]}" for n in names if n in packages)
            texts.add(f"code {found.get('code') or 'unknown'}, {text}")
    return "Made with " + "; ".join(sorted(texts)) + "."
