"""Which hyperparameters a method has, and how they are written on a command line."""

import ast
import math
import re
from collections.abc import Mapping
from typing import Any

_NOT_NEGATIVE = ("weight_decay", "beta_1", "beta_2", "clip_value")

_SCHEDULE = re.compile(
    r"^(cosine|periodic_cosine|exponential)\(([^,()]+),([^,()]+)(?:,([^,()]+))?\)$"
)


def check_known(method: str, names: Mapping[str, Any]) -> None:
    """Raises a ValueError that lists what there is, if a name is unknown."""
    from models import METHODS

    known = METHODS[method].hyperparameters()
    unknown = sorted(set(names) - set(known))
    if unknown:
        raise ValueError(
            f"Method {method!r} has no hyperparameter {', '.join(unknown)}. It has: "
            f"{', '.join(sorted(known))}."
        )


def check_values(values: Mapping[str, Any]) -> None:
    """Raises a ValueError if what every optimizer needs is not a sensible number.

    Schedules are in serialized form. Layers check their own quantities.
    """
    for name, value in values.items():
        is_rate = name.endswith("learning_rate")
        if not (is_rate or name in _NOT_NEGATIVE) or value is None:
            continue
        if is_rate and isinstance(value, Mapping):
            continue
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if (
            not number
            or not math.isfinite(value)
            or value < 0
            or (is_rate and not value)
        ):
            kind = "a positive number or a schedule" if is_rate else "a number >= 0"
            raise ValueError(f"`{name}` must be {kind}, received {value!r}.")


def parse_assignment(text: str) -> tuple[str, Any]:
    """Name and value of `name=value`; the value is a Python literal or a word.

    Example:

    ```python
    parse_assignment("weight_decay=0.1")  # ("weight_decay", 0.1)
    parse_assignment("distance=squared_l2")  # ("distance", "squared_l2")
    ```
    """
    name, separator, value = text.partition("=")
    if not separator or not name.strip().isidentifier():
        raise ValueError(f"Expected name=value, received {text!r}.")
    return name.strip(), parse_value(value.strip())


def parse_value(text: str) -> Any:
    """A Python literal, or the text itself."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return {"none": None, "true": True, "false": False}.get(text.lower(), text)


def resolve_schedules(values: Mapping[str, Any], steps: int) -> dict[str, Any]:
    """Turns schedules written as text into the serialized schedules of Keras.

    `cosine(first, last)` is half a cosine, `exponential(first, last)` a geometric
    sequence; both run over the whole training. A third number is the steps they take
    instead: `cosine(first, last, steps)` stays at `last` from then on, and
    `periodic_cosine(first, last, steps)` climbs back.

    Args:
        values: Hyperparameters.
        steps: Number of training steps.
    """
    return {name: _schedule(value, steps) for name, value in values.items()}


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _schedule(value: Any, steps: int) -> Any:
    if not isinstance(value, str):
        return list(value) if isinstance(value, tuple) else value
    match = _SCHEDULE.match(value.replace(" ", ""))
    if match is None:
        return value
    kind = match[1]
    first, last, length = map(_number, (match[2], match[3], match[4] or str(steps)))
    if not all(math.isfinite(n) and n > 0 for n in (first, last, length)):
        raise ValueError(
            f"A schedule needs positive, finite numbers, received {value!r}."
        )
    length = int(length)
    from keras.optimizers import schedules

    if kind == "cosine":
        made = schedules.CosineDecay(first, decay_steps=length, alpha=last / first)
    elif kind == "periodic_cosine":
        from models.schedules import PeriodicCosine

        made = PeriodicCosine(first, last, length)
    else:
        made = schedules.ExponentialDecay(
            first, decay_steps=length, decay_rate=last / first
        )
    return schedules.serialize(made)
