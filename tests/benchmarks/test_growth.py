"""Exponents of known laws, and what the page computes from them."""

import json
import os
import subprocess
import sys

import pytest

from benchmarks import growth, scaling
from benchmarks.growth import Sweep, exponent, measure_time
from benchmarks.scaling_page import cost_at, reach, scaling_page


def test_exponent_of_a_power_law_with_a_fixed_cost():
    sizes = [1, 10, 100, 1000, 10_000]
    found = [1.0 + 1e-3 * n**2 for n in sizes]
    # Over all sizes the fixed cost shows; over the largest three it does not.
    assert exponent(sizes, found) == pytest.approx(2.0, abs=0.03)
    assert exponent(sizes, found, last=5) < 1.9


def test_times_are_those_of_the_calls(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(growth.time, "process_time", lambda: clock[0])

    def make(size):
        def call():
            clock[0] += 1e-3 * size**1.5

        return call

    sweep = Sweep("a call", "numbers", (1, 10, 100, 1000, 10_000), make, "no other")
    row = measure_time(sweep)
    # 1,000 took 32 s, longer than a size may: the next one is left out.
    assert row["sizes"] == [1, 10, 100, 1000]
    assert row["seconds"] == pytest.approx([1e-3, 10**-1.5, 1.0, 10**1.5])
    assert row["exponent"] == pytest.approx(1.5)
    assert row["fixed"] == "no other"


def test_what_the_first_call_compiles_is_not_counted(monkeypatch):
    clock, compiled = [0.0], []
    monkeypatch.setattr(growth.time, "process_time", lambda: clock[0])

    def make(size):
        def call():
            clock[0] += 0.01 * size + (0.0 if compiled else 60.0)
            compiled.append(size)

        return call

    row = measure_time(Sweep("a call", "numbers", (1, 10, 100), make))
    assert row["sizes"] == [1, 10, 100]
    assert row["seconds"] == pytest.approx([0.01, 0.1, 1.0])


MEMORY = """
from benchmarks.growth import Sweep, measure_memory
make = lambda size: lambda: b"x" * (size << 20)
print(*measure_memory(Sweep("bytes", "megabytes", (64, 256), make)))
"""


@pytest.mark.skipif(
    not os.access("/proc/self/clear_refs", os.W_OK),
    reason="the peak of a process cannot be reset here (no /proc/self/clear_refs)",
)
def test_memory_is_that_of_the_call():
    """In a process of its own, as the benchmark has it: others keep what they freed."""
    found = subprocess.run(
        [sys.executable, "-c", MEMORY], stdout=subprocess.PIPE, text=True, check=True
    )
    small, large = map(float, found.stdout.split())
    assert small == pytest.approx(64, abs=16) and large == pytest.approx(256, abs=32)


def layer_row(axis, power, largest):
    return {
        "kind": "layers",
        "case": f"Layer of power {power}",
        "axis": axis,
        "fixed": "16 latents",
        "sizes": [10, 100],
        "seconds": [0.1, 0.1 * 10**power],
        "exponent": power,
        "megabytes": [largest / 10**power, largest],
        "memory_exponent": power,
    }


def test_what_is_computed_follows_the_law():
    row = layer_row("batch", 2.0, 100.0)
    # A hundred times the memory is ten times the size.
    assert reach(row, 10_000.0) == pytest.approx(1_000)
    assert cost_at(row, 10) == 0.1
    assert cost_at(row, 1_000) == pytest.approx(1_000.0)


def metric_row(kind, case, axis):
    row = layer_row(axis, 1.0, 1.0)
    return {**row, "kind": kind, "case": case}


def test_the_page_has_its_tables_and_what_follows():
    rows = [
        layer_row("batch", 2.0, 100.0),
        layer_row("batch", 1.0, 100.0),
        metric_row("metrics", "mig", "samples"),
        metric_row("runs", "training step of QLAE, cpu profile", "batch"),
        metric_row("runs", "plan of a sweep", "runs"),
        metric_row("runs", "table of finished runs", "runs"),
    ]
    by_name = {str(i): row for i, row in enumerate(rows)}
    page = scaling_page({"A processor": {"machine": "It", "rows": by_name}})
    # 16 GB over 100 MB is 164: 12.8 times the size where pairs count.
    assert "Layer of power 2.0 at 1,300 samples" in page
    assert "not before 16,000 samples" in page
    assert "100: 1 s, e 1.00; 100 MB, e 1.00" in page
    # 100 images a second.
    assert "takes 115.7 days" in page
    assert "a device that is 116 times" in page.lower()


def test_a_stopped_measurement_goes_on(tmp_path, monkeypatch):
    made = []

    def sweeps(kind):
        return [Sweep(kind, "batch", (1, 2), lambda size: lambda: made.append(size))]

    def stop(kind):
        if kind == "runs":
            raise KeyboardInterrupt
        return sweeps(kind)

    path = tmp_path / "growth.json"
    memory = {"layers|batch": {"megabytes": [1, 2], "memory_exponent": 1.0}}
    monkeypatch.setattr(scaling, "_memory_of_layers", lambda: memory)
    monkeypatch.setattr(scaling, "use_threads", lambda: None)
    monkeypatch.setattr(growth, "_SECONDS", 0.0)
    monkeypatch.setattr(scaling, "_sweeps", stop)
    with pytest.raises(KeyboardInterrupt):
        scaling.measure_all({}, path)
    (kept,) = json.loads(path.read_text()).values()
    assert sorted(kept["rows"]) == ["layers|batch", "metrics|batch"]
    assert kept["rows"]["layers|batch"]["megabytes"] == [1, 2]
    made.clear()
    monkeypatch.setattr(scaling, "_sweeps", sweeps)
    scaling.measure_all(kept, path)
    (whole,) = json.loads(path.read_text()).values()
    assert sorted(whole["rows"]) == ["layers|batch", "metrics|batch", "runs|batch"]
    assert len(made) == 9  # one to warm up, then two sizes of four calls each
