"""Runs the benchmarks and prints their ratios: `python -m benchmarks.run [NAME ...]`.

Every module of this folder that has a function `run() -> list[dict]` is a benchmark.
Each runs in a process of its own, because threads and compilers are set up once for a
process, one after the other, because they would disturb each other. A benchmark whose
optional peer is missing says so and is reported as skipped.
"""

import argparse
import ast
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks import timing

FOLDER = Path(__file__).parent
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


def main(arguments: list[str] | None = None) -> int:
    names = benchmark_names()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help=f"any of: {', '.join(names)}")
    wanted = parser.parse_args(arguments).names or names
    unknown = sorted(set(wanted) - set(names))
    if unknown:
        parser.error(f"no benchmark named {', '.join(unknown)}; there are {names}")
    rows = []
    for name in wanted:
        print(f"{name} ...", flush=True)
        rows += rows_of(name)
    timing.print_table(timing.machine(), rows)
    return int(any(str(row["case"]).startswith("failed") for row in rows))


if __name__ == "__main__":
    sys.exit(main())
