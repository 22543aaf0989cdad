"""How the settings of a table's rows differ, read from the runs' own configs."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from experiments.reporting.summary import format_table

# What a run is about, and what is laid out beside the rest.
_LEFT_OUT = ("method", "hyperparameters", "dataset_options")


def settings_table(groups: Sequence[Mapping[str, Any]]) -> str:
    """The settings that most rows share, and those of each row that are others.

    Args:
        groups: Groups of runs, as `studies.summaries.summarise` makes them.

    Returns:
        A sentence and a table; a row that has the shared settings alone says so.
    """
    rows = {group["label"]: _flat(group["config"]) for group in groups}
    common = _common(list(rows.values()))
    different = {
        name
        for name, value in common.items()
        if any(row.get(name, value) != value for row in rows.values())
    }
    shared = ", ".join(f"{name} {_text(common[name])}" for name in sorted(different))
    cells = []
    for label, row in rows.items():
        other = {
            n: row[n] for n in sorted(different & row.keys()) if row[n] != common[n]
        }
        own = {n: row[n] for n in sorted(row.keys() - common.keys())}
        cells.append([label, _list(other) or "as most", _list(own)])
    heads = ["method", "beside most rows", "of its own"]
    return (
        f"Most rows have {shared}; settings that are not named here are the same in "
        f"all.\n\n{format_table(heads, cells)}"
    )


def _flat(config: Mapping[str, Any]) -> dict[str, Any]:
    kept = {k: v for k, v in config.items() if k not in _LEFT_OUT}
    return {**kept, **config["hyperparameters"]}


def _common(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The most frequent value of each setting that more than half of the rows have."""
    found = {}
    for name in {name for row in rows for name in row}:
        values = [row[name] for row in rows if name in row]
        if 2 * len(values) > len(rows):
            counts = Counter(json.dumps(value, sort_keys=True) for value in values)
            found[name] = json.loads(counts.most_common(1)[0][0])
    return found


def _list(settings: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {_text(value)}" for name, value in settings.items())


def _text(value: Any) -> str:
    """A number or word; a serialized schedule by its name and ends."""
    if isinstance(value, float):
        return f"{value:g}"
    if not isinstance(value, Mapping):
        return json.dumps(value).strip('"')
    config = value["config"]
    first = config["initial_learning_rate"]
    last = first * config.get("alpha", config.get("decay_rate", 1.0))
    return f"{value['class_name']}({first:g} to {last:g})"
