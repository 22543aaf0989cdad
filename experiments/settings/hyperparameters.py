"""Which hyperparameters a method has, and how they are written on a command line."""

import ast
import math
import re
from collections.abc import Mapping
from typing import Any

_NOT_NEGATIVE = ("weight_decay", "beta_1", "beta_2", "clip_value")

# Which schedules may start or end at 0.
_MAY_BE_ZERO = ("linear", "step")
_SCHEDULE = re.compile(
    r"^(cosine|periodic_cosine|exponential|linear|step)\(([^,()]+),([^,()]+)(?:,([^,()]+))?\)$"
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


def check_switches(method: str, values: Mapping[str, Any]) -> None:
    """Raises a ValueError for a word, such as `no`, where true or false is meant.

    Any word that is not empty counts as true in Python.
    """
    from models import METHODS

    known = METHODS[method].hyperparameters()
    for name, value in values.items():
        if isinstance(known.get(name), bool) and value not in (True, False):
            raise ValueError(f"`{name}` must be true or false, received {value!r}.")


def check_values(values: Mapping[str, Any]) -> None:
    """Raises a ValueError if what every optimizer needs is not a sensible number.

    Schedules are in serialized form. Layers check their own quantities.
    """
    for name, value in values.items():
        is_rate = name.endswith("learning_rate")
        if not (is_rate or name in _NOT_NEGATIVE) or value is None:
            continue
        if (is_rate or name == "weight_decay") and isinstance(value, Mapping):
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
    and `linear(first, last)` an arithmetic sequence; all run over the whole training. A
    third number is the steps they take instead: `cosine(first, last, steps)` stays at
    `last` from then on, and `periodic_cosine(first, last, steps)` climbs back.
    `step(first, last)` changes after half of the training, or after as many steps as
    the third number says.

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
    if kind == "step" and not match[4]:
        length = steps // 2
    least = 0.0 if kind in _MAY_BE_ZERO else math.ulp(0.0)
    in_range = all(math.isfinite(n) and n >= least for n in (first, last))
    if not (in_range and math.isfinite(length) and length > 0):
        raise ValueError(
            f"A schedule needs positive, finite numbers, received {value!r}."
        )
    return _serialized(kind, first, last, int(length))


def _serialized(kind: str, first: float, last: float, length: int) -> Any:
    from keras.optimizers import schedules

    from models.schedules import PeriodicCosine

    make: dict[str, Any] = {
        "cosine": lambda: schedules.CosineDecay(first, length, alpha=last / first),
        "periodic_cosine": lambda: PeriodicCosine(first, last, length),
        "exponential": lambda: schedules.ExponentialDecay(first, length, last / first),
        "linear": lambda: schedules.PolynomialDecay(first, length, last),
        # Its boundary is the last step with the first value.
        "step": lambda: schedules.PiecewiseConstantDecay([length - 1], [first, last]),
    }
    return schedules.serialize(make[kind]())
