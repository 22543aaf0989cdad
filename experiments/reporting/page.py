"""One HTML page of a set of runs, with everything in it."""

import base64
import html
import json
import math
from collections.abc import Sequence
from pathlib import Path
from string import Template
from typing import Any

from experiments.reporting.summary import COLUMNS, FinishedRun, Group, table_rows
from experiments.storage.files import read_json
from experiments.storage.run_directory import RunDirectory

_ASSETS = Path(__file__).with_name("page_assets")
_MOST_POINTS = 300
_CHARTED = ("infomec/modularity", "infomec/explicitness", "dci/disentanglement")
_CHARTED = (*_CHARTED, "mcc/mcc", "psnr/psnr")


def make_page(groups: Sequence[Group], title: str, runs_per_group: int = 1) -> str:
    """The page as text; it loads nothing from elsewhere.

    Args:
        groups: What `summary.group_runs` made.
        title: Of the page.
        runs_per_group: Runs of each group that can be explored.
    """
    count = sum(len(group.runs) for group in groups)
    shown = [
        run_payload(run, group)
        for group in groups
        for run in group.runs[:runs_per_group]
    ]
    methods = {run.config.method for group in groups for run in group.runs}
    lead = ", ".join(
        [
            _counted(count, "run"),
            _counted(len(methods), "method"),
            _counted(len(groups), "setting"),
        ]
    )
    template = Template((_ASSETS / "page.html").read_text(encoding="utf-8"))
    return template.substitute(
        title=html.escape(title),
        lead=html.escape(lead),
        table=make_table(groups),
        charts="".join(make_chart(groups, name) for name in _CHARTED),
        footer=html.escape(_versions(groups)),
        style=(_ASSETS / "style.css").read_text(encoding="utf-8"),
        script=(_ASSETS / "page.js").read_text(encoding="utf-8"),
        data=embed_json(shown),
    )


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def embed_json(value: Any) -> str:
    """JSON that cannot end the script element it stands in."""
    text = json.dumps(value, allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def make_table(groups: Sequence[Group]) -> str:
    """The table of scores; rows of papers have the class `paper`."""
    headings, rows = table_rows(groups)
    head = "".join(f"<th>{html.escape(text)}</th>" for text in headings)
    body = []
    for row in rows:
        kind = ' class="paper"' if row[1].startswith("  ") else ""
        cells = "".join(f"<td>{html.escape(cell.strip())}</td>" for cell in row)
        body.append(f"<tr{kind}>{cells}</tr>")
    return (
        f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>"
    )


def make_chart(groups: Sequence[Group], score: str) -> str:
    """Means and intervals of one score, a line for each group; empty without any."""
    found = [(g, g.scores[score]) for g in groups if score in g.scores]
    found = [(group, value) for group, value in found if math.isfinite(value.mean)]
    if not found:
        return ""
    ends = [value.mean + (value.half_width or 0) for _, value in found]
    limit = max(1.0, *ends) if score == "psnr/psnr" else 1.0
    left, width, row = 190, 240, 24
    height = row * len(found) + 44

    def place(value: float) -> float:
        return left + width * min(max(value / limit, 0.0), 1.0)

    parts = [
        f'<text x="0" y="14" font-weight="600">{html.escape(COLUMNS[score])}</text>'
    ]
    for i, (group, value) in enumerate(found):
        y = 36 + i * row
        label = group.label if len(group.label) < 30 else group.label[:28] + "…"
        half = value.half_width or 0.0
        low, high = place(value.mean - half), place(value.mean + half)
        parts.append(f'<text x="0" y="{y + 4}">{html.escape(label)}</text>')
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
    size = f'width="{left + width + 8}" height="{height}"'
    return f'<svg {size} role="img">{"".join(parts)}</svg>'


def run_payload(run: FinishedRun, group: Group) -> dict[str, Any]:
    """What the page's script needs of a run: text, numbers and pictures."""
    directory = RunDirectory(run.path)
    scores = run.metrics["scores"]
    step = run.metrics["checkpoint"]["step"]
    facts = [f"seed {run.config.seed}", f"checkpoint of step {step}"]
    facts += [
        f"{COLUMNS[name]} {scores[name]:.2f}"
        for name in ("infomec/modularity", "mcc/mcc", "psnr/psnr")
        if scores.get(name) is not None
    ]
    payload: dict[str, Any] = {
        "name": f"{group.label} · {group.dataset} · seed {run.config.seed}",
        "facts": ", ".join(facts),
        "curves": _curves(directory),
        "sprites": [],
        "codes": [],
        "latents": 0,
        "steps": 1,
        "values": [],
        "side": 1,
        "frequencies": None,
    }
    folder = directory.pictures
    for name, file in (("nmi", "infomec"), ("dci", "dci"), ("swaps", "swaps")):
        payload[name] = data_uri(folder / f"{file}.png")
    if (folder / "index.json").exists():
        index = read_json(folder / "index.json")
        for name in ("side", "latents", "steps", "codes"):
            payload[name] = index[name]
        steps = [index["steps"]] * index["latents"]
        payload["values"] = index.get("values", steps)
        payload["frequencies"] = index.get("frequencies")
        payload["sprites"] = [
            [data_uri(folder / name) for name in pair] for pair in index["sprites"]
        ]
    return payload


def data_uri(path: Path) -> str | None:
    """A PNG file as text; None if there is none."""
    if not path.exists():
        return None
    return "data:image/png;base64," + base64.b64encode(path.read_bytes()).decode()


def _curves(directory: RunDirectory) -> dict[str, list[list[float]]]:
    curves: dict[str, list[list[float]]] = {}
    tables = [directory.history.read(), directory.evaluations.read()]
    for rows in tables:
        for row in rows[:: max(1, len(rows) // _MOST_POINTS)]:
            for name, value in row.items():
                if name == "step" or not isinstance(value, (int, float)):
                    continue
                if not math.isfinite(value):  # what was not measured
                    continue
                title = COLUMNS.get(name, name)
                curves.setdefault(title, []).append([row["step"], value])
    return curves


def _versions(groups: Sequence[Group]) -> str:
    texts = set()
    for group in groups:
        for run in group.runs:
            found = run.metrics["provenance"]
            packages = found["packages"]
            names = ("qlayers", "keras", "tensorflow")
            text = ", ".join(f"{n} {packages[n]}" for n in names if n in packages)
            texts.add(f"code {found['code'] or 'unknown'}, {text}")
    return "Made with " + "; ".join(sorted(texts)) + "."
