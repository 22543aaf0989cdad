"""What a paper printed in one row of one table, and how it got there."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from experiments.settings.published.training import Scoring, Training

Paper = Literal["qlae", "tripod", "factor_qvae", "friede", "cliff"]
Variant = Literal["text", "code"]
IntervalKind = Literal["95 %", "standard error", "quartiles", "not stated", "none"]

_AVERAGE = "it is an average over the four datasets: run the row of each"


@dataclass(frozen=True)
class Cell:
    """One printed number.

    Attributes:
        value: The number, in the unit of the score; None where only an interval is
            printed.
        low: Lower end of the interval.
        high: Upper end of the interval.
        kind: What the interval is.

    Example:

    ```python
    str(Cell(0.91, 0.89, 0.93, "95 %"))  # "0.91 ± 0.02"
    ```
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    kind: IntervalKind = "none"

    def __str__(self) -> str:
        if self.low is None or self.high is None:
            return f"{self.value:g}"
        if self.kind == "quartiles":
            ends = f"[{self.low:g}, {self.high:g}]"
            return ends if self.value is None else f"{self.value:g} {ends}"
        half = round((self.high - self.low) / 2, 6)
        suffix = " (s.e.)" if self.kind == "standard error" else ""
        return f"{self.value:g} ± {half:g}{suffix}"


@dataclass(frozen=True)
class Difference:
    """A point in which the authors' public code differs from their text.

    Attributes:
        name: Short name.
        text: What the text says.
        code: What the code does.
        sets: Settings that `--variant=code` changes; empty if it cannot be done here.
    """

    name: str
    text: str
    code: str
    sets: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Gap:
    """A point in which a run here differs from the row, or that the paper leaves open.

    Attributes:
        name: Short name.
        text: What differs and why, or what was chosen here.
    """

    name: str
    text: str


@dataclass(frozen=True, kw_only=True)
class PublishedRow:
    """One row of a paper's table for one dataset.

    Attributes:
        paper: Short name of the paper.
        table: Table or section, such as `"table1"`.
        row: Name of the row, such as `"qlae/shapes3d"`.
        title: The model's name as printed.
        method: Name of the method here; None if there is none.
        dataset: Name of the dataset; None for averages over datasets.
        training: How the model was trained; None if it cannot be trained here.
        scoring: How it was scored.
        cells: Printed numbers by score; none if the paper describes the row in words.
        statistic: What the printed values are, over the seeds.
        seeds: Number of runs behind a cell; None if not stated.
        dataset_options: Variant of the dataset.
        grid: Hyperparameters that the authors varied or chose from: a cell stands for
            any of these values, because it sums over them or the choice is unknown.
        searched: Hyperparameters that the authors chose from, where the choice is
            known: it is the row's own value.
        code: Differences of the authors' public code.
        differs: Points in which a run here differs.
        left_open: Points that neither text nor code settles.
        missing: Why the row cannot be run here; None if it can.

    Example:

    ```python
    row = find("qlae:table1:qlae/shapes3d")
    row.cells["infomec/modularity"].value  # 0.91
    ```
    """

    paper: Paper
    table: str
    row: str
    title: str
    method: str | None
    dataset: str | None
    training: Training | None = None
    scoring: Scoring
    cells: Mapping[str, Cell]
    statistic: Literal["mean", "median"] = "mean"
    seeds: int | None = None
    dataset_options: Mapping[str, Any] = field(default_factory=dict)
    grid: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    searched: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    code: tuple[Difference, ...] = ()
    differs: tuple[Gap, ...] = ()
    left_open: tuple[Gap, ...] = ()
    missing: str | None = None

    @classmethod
    def at(cls, address: str, **facts: Any) -> "PublishedRow":
        """The row at an address that ends in its dataset; an average cannot be run.

        Args:
            address: `paper:table:name/dataset`; the dataset `aggregated` means all.
            **facts: The other attributes.
        """
        paper, table, row = address.split(":")
        place = {"paper": paper, "table": table, "row": row}
        place["dataset"] = row.partition("/")[2]
        if place["dataset"] == "aggregated":
            facts.update(dataset=None, missing=_AVERAGE)
        return cls(**{**place, **facts})

    @property
    def address(self) -> str:
        """The row's name on the command line: `paper:table:row`."""
        return f"{self.paper}:{self.table}:{self.row}"

    @property
    def runs(self) -> bool:
        """Whether the row can be trained here."""
        return self.missing is None

    @property
    def status(self) -> str:
        """`"runs"`, `"differs in ..."` or `"not here, because ..."`."""
        if self.missing is not None:
            return f"not here, because {self.missing}"
        left_open = ", ".join(gap.name for gap in self.left_open)
        suffix = f"; left open: {left_open}" if left_open else ""
        if not self.differs:
            return f"runs{suffix}"
        return f"differs in {', '.join(gap.name for gap in self.differs)}{suffix}"

    def recipe(self, variant: Variant = "text") -> dict[str, Any]:
        """Settings and hyperparameters in one mapping, by their names in a recipe.

        Args:
            variant: `"code"` takes what the authors' public code ran where it differs.
        """
        if self.training is None:
            raise ValueError(f"{self.address} is {self.status}.")
        training, dataset_options = self.training, dict(self.dataset_options)
        if variant == "code":
            for difference in self.code:
                training = training.with_settings(difference.sets)
                dataset_options.update(difference.sets.get("dataset_options", {}))
        return {
            **training.recipe(),
            **self.scoring_of(variant).recipe(),
            "dataset_options": dataset_options,
        }

    def scoring_of(self, variant: Variant = "text") -> Scoring:
        """How the row is scored.

        Args:
            variant: See `recipe`.
        """
        scoring = self.scoring
        if variant == "code":
            for difference in self.code:
                scoring = scoring.with_settings(difference.sets)
        return scoring
