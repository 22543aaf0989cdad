"""Runs the benchmarks, tabulates their ratios: `python -m benchmarks.run [NAME ...]`.

All rows go to `benchmarks/results.json`, those with a peer also to `docs/speed.md`.
Both keep what was measured on each kind of processor apart, because ratios differ
between them. With names only these are measured again, on the processor at hand; the
others are kept as they are.

Every module of this folder that has a function `run() -> list[dict]` is a benchmark.
Each runs in a process of its own, because threads and compilers are set up once for a
process, one after the other, because they would disturb each other. A benchmark whose
optional peer is missing says so and is reported as skipped.
"""

import argparse
import ast
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks import timing
from experiments.settings.processor import processor

FOLDER = Path(__file__).parent
TABLE = FOLDER.parent / "docs" / "speed.md"
# Runs one benchmark and leaves its rows where the parent finds them.
_CHILD = """
import importlib, json, sys
try:
    rows = importlib.import_module("benchmarks." + sys.argv[1]).run()
except ImportError as error:
    rows = [{"case": sys.argv[1], "ours": f"skipped: {error}"}]
with open(sys.argv[2], "w", encoding="utf-8") as file:
    json.dump(rows, file, default=float)
"""


def benchmark_names() -> list[str]:
    """Modules of this folder that define `run`, found without importing them."""
    return sorted(
        path.stem
        for path in FOLDER.glob("*.py")
        if path.stem not in ("__init__", "run", "timing") and _defines_run(path)
    )


def _defines_run(path: Path) -> bool:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return any(isinstance(n, ast.FunctionDef) and n.name == "run" for n in tree.body)


def rows_of(name: str) -> list[dict[str, Any]]:
    """The rows of one benchmark, each with its name; a crash becomes a row as well."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.json"
        result = subprocess.run(
            [sys.executable, "-c", _CHILD, name, str(path)],
            cwd=FOLDER.parent,
            check=False,
        )
        if not path.exists():
            failed = f"failed with exit code {result.returncode}"
            return [{"benchmark": name, "case": failed}]
        rows = json.loads(path.read_text(encoding="utf-8"))
    return [{"benchmark": name, **row} for row in rows]


def ratio_table(records: dict[str, dict[str, Any]]) -> str:
    """The rows that have a peer, as Markdown, for one processor after the other.

    Args:
        records: Processor -> benchmark -> machine, seconds and rows.
    """
    lines = [
        "# Speed",
        "",
        "`make bench` writes this page, with tables of their own for each processor",
        "that it has run on. `ratio` is the median over turns of our time",
        "over the peer's in the same process or the same run: below 1 ours is faster.",
        "`goal` is the ratio that was asked for, at most; **bold** ratios miss it. The",
        "modules of `benchmarks/` describe the cases, BUILD_NOTES.md the misses.",
    ]
    for name_of_processor, of_processor in sorted(records.items()):
        lines += ["", f"## {name_of_processor}"]
        machine = None
        for name, record in sorted(of_processor.items()):
            compared = [row for row in record["rows"] if "ratio" in row]
            if not compared:
                continue
            lines += ["", f"### {name}", ""]
            if record["machine"] != machine:
                machine = record["machine"]
                lines += [f"{machine}.", ""]
            lines += [_duration(record), ""]
            lines += ["| case | ours | peer | ratio | goal |", "|---|---|---|---|---|"]
            lines += [_table_row(row) for row in compared]
    return "\n".join(lines) + "\n"


def _duration(record: dict[str, Any]) -> str:
    """How long a benchmark took, and how busy the machine was if that is known."""
    took = f"Took {record['seconds'] / 60:.1f} min"
    if "load" in record:
        took += f" at a load of {record['load']:.0f} at the start"
    return f"{took}."


def _table_row(row: dict[str, Any]) -> str:
    """One line of the table. A ratio is compared as it is printed, to three digits."""
    ratio, goal = f"{row['ratio']:.3g}", row.get("goal")
    if goal is not None and float(ratio) > float(f"{goal:.3g}"):
        ratio = f"**{ratio}**"
    asked = "" if goal is None else f"{goal:.3g}"
    return f"| {row['case']} | {row['ours']} | {row['peer']} | {ratio} | {asked} |"


def main(arguments: list[str] | None = None) -> int:
    names = benchmark_names()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help=f"any of: {', '.join(names)}")
    parser.add_argument("--json", type=Path, default=FOLDER / "results.json")
    parser.add_argument("--table", type=Path, default=TABLE)
    given = parser.parse_args(arguments)
    wanted = given.names or names
    unknown = sorted(set(wanted) - set(names))
    if unknown:
        parser.error(f"no benchmark named {', '.join(unknown)}; there are {names}")
    records: dict[str, dict[str, Any]] = {}
    if given.json.exists():
        records = json.loads(given.json.read_text(encoding="utf-8"))
    of_processor = records.setdefault(processor(), {})
    failed = False
    for name in wanted:
        print(f"{name} ...", flush=True)
        start, load = time.perf_counter(), os.getloadavg()[0]
        rows = rows_of(name)
        seconds = time.perf_counter() - start
        timing.print_table(f"{name}, {seconds:.0f} s. {timing.machine()}", rows)
        failed |= any(str(row["case"]).startswith("failed") for row in rows)
        of_processor[name] = {
            "machine": timing.machine(),
            "load": load,
            "seconds": seconds,
            "rows": rows,
        }
        # After each: an interrupted run keeps what it has measured.
        text = json.dumps(records, indent=1, sort_keys=True)
        given.json.write_text(text + "\n", encoding="utf-8")
        given.table.write_text(ratio_table(records), encoding="utf-8")
    print(f"\nWritten: {given.json}, {given.table}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
