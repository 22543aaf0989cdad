"""The page about growth, computed from the rows of `benchmarks.scaling`."""

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.growth import text_of

Row = Mapping[str, Any]
_GIGABYTES = 16.0  # of a usual graphics card or laptop
# Less than the first is lost among what a process keeps anyway; limits are computed
# from no less than the second.
_SEEN_MEGABYTES, _SURE_MEGABYTES = 1.0, 10.0
_MANY_SAMPLES = 1_000_000
_MANY_IMAGES = 1_000_000_000
_DAYS_OF_SECONDS = 86_400


def scaling_page(records: Mapping[str, Mapping[str, Any]]) -> str:
    """The page, with tables for each processor that the benchmark ran on.

    Args:
        records: Processor -> its machine and its rows by name and axis.
    """
    lines = [
        "# How things grow",
        "",
        "`python -m benchmarks.scaling` measures and writes this page. A cell is "
        "the processor time (of all threads together) at the largest size that was "
        "measured, and the exponent e: twice the size costs 2^e times as much. e is "
        "the slope over the three largest sizes (memory: two). An exponent "
        "below 1 says that a fixed cost still dominates.",
    ]
    for name, record in sorted(records.items()):
        lines += ["", f"## {name}", "", f"{record['machine']}."]
        lines += _of_processor(list(record["rows"].values()))
    return "\n".join(lines) + "\n"


def _of_processor(rows: Sequence[Row]) -> list[str]:
    layers, metrics, runs = (
        [row for row in rows if row["kind"] == kind]
        for kind in ("layers", "metrics", "runs")
    )
    return [
        *("", "### Layers", ""),
        *_table("layer", layers, ("batch", "latents", "values"), _layer_cell),
        *("", *_where_layers_stop(layers)),
        *("", "### Metrics", ""),
        *_table("metric", metrics, ("samples", "latents", "sources"), _metric_cell),
        *("", *_where_metrics_stop(metrics)),
        *("", "### Training and runs", ""),
        *_table("what", runs, ("batch", "runs"), _metric_cell),
        *("", *_where_runs_stop(runs)),
    ]


def _table(
    first: str, rows: Sequence[Row], axes: Sequence[str], cell: Any
) -> list[str]:
    names = list(dict.fromkeys(row["case"] for row in rows))
    found = {(row["case"], row["axis"]): row for row in rows}
    fixed = [next((r["fixed"] for r in rows if r["axis"] == axis), "") for axis in axes]
    heads = [f"{a} ({f})" if f else a for a, f in zip(axes, fixed, strict=True)]
    lines = [f"| {first} | " + " | ".join(heads) + " |", "|---" * (len(axes) + 1) + "|"]
    for name in names:
        cells = [cell(found[name, a]) if (name, a) in found else "" for a in axes]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return lines


def _metric_cell(row: Row) -> str:
    size = f"{row['sizes'][-1]:,}"
    return f"{size}: {text_of(row['seconds'][-1], 's')}, e {row['exponent']:.2f}"


def _layer_cell(row: Row) -> str:
    cell = _metric_cell(row)
    if "megabytes" not in row:
        return cell
    if row["megabytes"][-1] < _SEEN_MEGABYTES:
        return f"{cell}; below {_SEEN_MEGABYTES:g} MB"
    megabytes = text_of(row["megabytes"][-1], "MB")
    return f"{cell}; {megabytes}, e {row['memory_exponent']:.2f}"


def reach(row: Row, budget: float, of: str = "megabytes") -> float:
    """The size at which a cost reaches a budget, if it goes on as it grew.

    Args:
        row: A row with sizes and costs.
        budget: The cost, in the row's unit.
        of: Which cost.
    """
    power = row["memory_exponent" if of == "megabytes" else "exponent"]
    return row["sizes"][-1] * (budget / row[of][-1]) ** (1 / max(power, 0.1))


def cost_at(row: Row, size: float) -> float:
    """Seconds at a size: measured, or computed from the largest one measured."""
    if size in row["sizes"]:
        return row["seconds"][row["sizes"].index(size)]
    return row["seconds"][-1] * (size / row["sizes"][-1]) ** row["exponent"]


def _where_layers_stop(rows: Sequence[Row]) -> list[str]:
    rows = [row for row in rows if row.get("megabytes", [0])[-1] >= _SURE_MEGABYTES]
    quadratic = [
        f"{row['case']} at {_rounded(reach(row, 1024 * _GIGABYTES))} samples"
        for row in rows
        if row["axis"] == "batch" and row.get("memory_exponent", 0) > 1.5
    ]
    wide = [
        f"{row['case']} at {_rounded(reach(row, 1024 * _GIGABYTES))} latents"
        for row in rows
        if row["axis"] == "latents" and row.get("memory_exponent", 0) > 1.5
    ]
    linear = [
        reach(row, 1024 * _GIGABYTES)
        for row in rows
        if row["axis"] == "batch" and 0.5 < row.get("memory_exponent", 0) <= 1.5
    ]
    text = (
        f"Where it stops: a step of one layer fills {_GIGABYTES:g} GB "
        f"{_listed(quadratic) or 'nowhere'} where memory grows with pairs of samples, "
        f"and not before {_rounded(min(linear))} samples where it grows with samples. "
        f"{_sentence(wide)}"
        "Replicas (`--strategy=mirrored` or `multiworker`) share out networks and "
        "quantizers, but each forms the pairs of the whole batch, so that a penalty is "
        "the same on any number of them: they do not move this limit. A smaller batch "
        "does; Keras's `gradient_accumulation_steps` keeps the images of a step."
    )
    return [text]


def _where_metrics_stop(rows: Sequence[Row]) -> list[str]:
    over = [row for row in rows if row["axis"] == "samples"]
    measured = [
        f"{row['case']} {text_of(cost_at(row, _MANY_SAMPLES), 's')}"
        for row in over
        if _MANY_SAMPLES in row["sizes"]
    ]
    computed = [
        f"{row['case']} {_duration(cost_at(row, _MANY_SAMPLES))}"
        for row in over
        if _MANY_SAMPLES not in row["sizes"]
    ]
    return [
        f"At {_MANY_SAMPLES:,} samples, measured: {', '.join(measured)}. Computed from "
        f"the largest size that was measured: {', '.join(computed)}. A score of a "
        "sample is a mean, or close to one: its error falls with the square root of "
        "the samples, and 10,000 of them give the second digit. Score 10,000 to "
        "100,000 random images of a larger dataset, with `bootstrap=` for the interval."
    ]


def _where_runs_stop(rows: Sequence[Row]) -> list[str]:
    found = {row["case"]: row for row in rows}
    step = found["training step of QLAE, cpu profile"]
    speed = step["sizes"][-1] / step["seconds"][-1]
    days = _MANY_IMAGES / speed / _DAYS_OF_SECONDS
    table, plan = found["table of finished runs"], found["plan of a sweep"]
    many = 100_000
    return [
        f"One core trains {speed:,.0f} images a second at 32x32 (cpu profile): one "
        f"pass over {_MANY_IMAGES:,} images takes {days:,.1f} days. A device that is "
        f"{max(days, 1):,.0f} times as fast takes one day; images then come from "
        "prepared files, which are read from the disk in shards and not held in "
        "memory, and `--steps_per_call=16` keeps Python out of small steps. A step of "
        "a larger batch costs in proportion.",
        "",
        f"A plan of {many:,} runs takes {_duration(cost_at(plan, many))}, the table of "
        f"as many finished ones {_duration(cost_at(table, many))}: the runs themselves "
        "decide. They are independent, so that c cores or devices finish c at a time: "
        "`experiments.sweep --engine=ray` on a cluster, or the same command with "
        "another `--seeds` on each machine and one report over all folders.",
    ]


def _rounded(value: float) -> str:
    """Two digits: it is computed, not measured."""
    return f"{float(f'{value:.2g}'):,.0f}"


def _listed(parts: Sequence[str]) -> str:
    return "with " + ", ".join(parts) if parts else ""


def _sentence(parts: Sequence[str]) -> str:
    return f"Over latents: {', '.join(parts)}. " if parts else ""


def _duration(seconds: float) -> str:
    for unit, size in (("days", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.2g} {unit}"
    return f"{seconds:.2g} s"
