"""How layers, metrics and the loop over runs grow; writes `docs/scaling.md`.

    python -m benchmarks.scaling        # some 20 minutes on two quiet cores

Each thing is measured over growing sizes, all others fixed, in processor time; the
exponent is the slope of the logarithms over the three largest. A size is left out once
its predecessor took 10 s. Layers: value and gradient of the layer alone in a graph on
two threads, and the memory that one such step takes at its peak. Metrics: the public
functions at their defaults.

Rows are kept in `benchmarks/growth.json`, for each processor apart, as soon as they are
measured: the same command goes on where it was stopped, `--again` forgets them.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks import scaling_layers, scaling_metrics
from benchmarks.growth import Sweep, exponent, measure_memory, measure_time
from benchmarks.scaling_page import scaling_page
from benchmarks.timing import machine, use_threads
from experiments.settings.processor import processor

FOLDER = Path(__file__).parent
RECORD = FOLDER / "growth.json"
PAGE = FOLDER.parent / "docs" / "scaling.md"
_KINDS = ("layers", "metrics", "runs")


def measure_all(record: dict[str, Any], path: Path) -> None:
    """Adds what is missing to the record of a processor, and saves it after each row.

    Args:
        record: Rows of this processor by name and axis; see `RECORD`.
        path: Where all processors' records are kept.
    """
    use_threads()
    record.setdefault("machine", machine())
    rows = record.setdefault("rows", {})
    if "memory" not in record:
        record["memory"] = _memory_of_layers()
        for key in rows.keys() & record["memory"].keys():
            rows[key] |= record["memory"][key]
        _save(record, path)
    for kind in _KINDS:
        for sweep in _sweeps(kind):
            key = _key(sweep)
            if key in rows:
                continue
            rows[key] = {"kind": kind, **measure_time(sweep)}
            if kind == "layers":
                rows[key] |= record["memory"][key]
            print(f"{key}: {rows[key]['exponent']:.2f}", flush=True)
            _save(record, path)


def _key(sweep: Sweep) -> str:
    return f"{sweep.name}|{sweep.axis}"


def _save(record: dict[str, Any], path: Path) -> None:
    records = _load(path)
    records[processor()] = record
    text = json.dumps(records, indent=1, sort_keys=True)
    path.write_text(text + "\n", encoding="utf-8")


def _load(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def _sweeps(kind: str) -> Any:
    return {
        "layers": scaling_layers.sweeps,
        "metrics": scaling_metrics.sweeps,
        "runs": scaling_metrics.loop_sweeps,
    }[kind]()


def _memory_of_layers() -> dict[str, Any]:
    """Peaks of all layers, measured in a process of its own.

    Its allocator gives every block above 64 KB back at once, so that the resident size
    before a call is not what an earlier one left behind. oneDNN is off, because
    TensorFlow then has a pool of its own that gives nothing back.
    """
    settings = {"MALLOC_MMAP_THRESHOLD_": "65536", "TF_ENABLE_ONEDNN_OPTS": "0"}
    result = subprocess.run(
        [sys.executable, "-m", "benchmarks.scaling", "--memory"],
        env={**os.environ, **settings},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(result.stdout.strip().splitlines()[-1])


def _print_memory() -> None:
    use_threads()
    found = {}
    for sweep in scaling_layers.sweeps():
        megabytes = measure_memory(sweep)
        found[_key(sweep)] = {
            "megabytes": megabytes,
            "memory_exponent": exponent(sweep.sizes, megabytes, last=2),
        }
    print(json.dumps(found))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--again", action="store_true", help="measure everything anew")
    parser.add_argument("--memory", action="store_true", help="used by the benchmark")
    given = parser.parse_args()
    if given.memory:
        _print_memory()
        return
    known = {} if given.again else _load(RECORD).get(processor(), {})
    measure_all(known, RECORD)
    PAGE.write_text(scaling_page(_load(RECORD)), encoding="utf-8")
    print(f"Written: {RECORD}, {PAGE}")


if __name__ == "__main__":
    main()
