"""What every metric returns: scores, matrices, settings, text and JSON."""

import dataclasses
import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from qlayers.files import write_text
from qlayers.version import __version__


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class MetricResult:
    """Base of all metric results.

    Attributes:
        settings: Everything that was chosen, so that the number can be repeated.
        intervals: Confidence intervals by score name; empty unless asked for.
        notes: Conventions that had to be applied (constant sources left out, ...).
    """

    title: ClassVar[str] = "Metric"
    score_names: ClassVar[tuple[str, ...]] = ()

    settings: Mapping[str, Any]
    intervals: Mapping[str, tuple[float, float]] = dataclasses.field(
        default_factory=dict
    )
    notes: tuple[str, ...] = ()

    def scores(self) -> dict[str, float]:
        """The numbers to report, by name."""
        return {name: float(getattr(self, name)) for name in self.score_names}

    def to_dict(self) -> dict[str, Any]:
        """Plain Python types only; NaN becomes None and infinities text."""
        fields = {
            field.name: plain(getattr(self, field.name))
            for field in dataclasses.fields(self)
        }
        return {"metric": self.title, "qlayers": __version__, **fields}

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str:
        """Returns the result as JSON text, and writes it to `path` if given."""
        text = json.dumps(self.to_dict(), indent=2, allow_nan=False)
        if path is not None:
            write_text(Path(path), text + "\n")
        return text

    def __str__(self) -> str:
        width = max((len(name) for name in self.scores()), default=0)
        lines = [f"{self.title} ({self._settings_text()})"]
        for name, value in self.scores().items():
            lines.append(f"  {name:<{width}}  {value:7.4f}{self._interval_text(name)}")
        lines += [f"  {line}" for line in self._details()]
        lines += [f"  note: {note}" for note in self.notes]
        return "\n".join(lines)

    def _settings_text(self) -> str:
        shown = {
            key: value for key, value in self.settings.items() if value is not None
        }
        return ", ".join(f"{key}={value}" for key, value in shown.items())

    def _interval_text(self, name: str) -> str:
        if name not in self.intervals:
            return ""
        low, high = self.intervals[name]
        return f"  [{low:.4f}, {high:.4f}]"

    def _details(self) -> list[str]:
        """Extra lines for `__str__`; subclasses add what helps a reader."""
        return []


class MainScore:
    """Lets a result stand for its first score where a number is expected."""

    def __float__(self) -> float:
        return next(iter(self.scores().values()))  # type: ignore[attr-defined]


def plain(value: Any) -> Any:
    """Turns arrays, NumPy scalars and nested results into JSON-ready values."""
    if isinstance(value, MetricResult):
        return value.to_dict()
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        # Strict JSON has neither; readers in other languages would fail on them.
        return None if math.isnan(value) else ("inf" if value > 0 else "-inf")
    return value
