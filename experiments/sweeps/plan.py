"""The runs of a sweep, each checked before the first is started."""

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from experiments.settings.config import RunConfig, resolve
from experiments.settings.hyperparameters import parse_value
from experiments.settings.published import PublishedRow

_COMMA = re.compile(r",(?![^(\[]*[)\]])")  # those outside brackets


@dataclass(frozen=True)
class Trial:
    """One run of a sweep.

    Attributes:
        name: Its folder below the sweep's.
        config: Its settings.
    """

    name: str
    config: RunConfig


def parse_grid(texts: Sequence[str]) -> dict[str, list[Any]]:
    """Values to try by name, from `name=value,value,...`.

    Commas within brackets belong to a value: `beta=linear(0, 4),1` has two.
    """
    grid: dict[str, list[Any]] = {}
    for text in texts:
        name, separator, values = text.partition("=")
        if not separator or not values or not name.isidentifier():
            raise ValueError(f"Expected name=value,value,... and received {text!r}.")
        if name in grid:
            raise ValueError(f"--grid names {name} twice; list its values in one.")
        grid[name] = [parse_value(value.strip()) for value in _COMMA.split(values)]
    return grid


def grid_of_row(row: PublishedRow) -> dict[str, list[Any]]:
    """Hyperparameters that a published row's cells sum over or were chosen from.

    Args:
        row: A row that can be trained.

    Example:

    ```python
    grid_of_row(find("friede:table1:factor_d_vae/dsprites"))
    # {"tc_weight": [10.0, 20.0, 30.0, 40.0, 50.0, 100.0]}
    ```
    """
    from models import METHODS

    assert row.method is not None
    known = METHODS[row.method].hyperparameters()
    return {name: list(values) for name, values in row.grid.items() if name in known}


def parse_seeds(texts: Sequence[str]) -> list[int]:
    """Seeds as numbers."""
    for text in texts:
        if not text.strip().isdecimal():
            raise ValueError(f"Seeds are numbers from 0 on, received {text!r}.")
    return [int(text) for text in texts]


def plan_sweep(
    methods: Sequence[str],
    datasets: Sequence[str],
    seeds: Sequence[int],
    grid: Mapping[str, Sequence[Any]] | None = None,
    *,
    profile: str = "paper",
    settings: Mapping[str, Any] | None = None,
    hyperparameters: Mapping[str, Any] | None = None,
    options: Mapping[str, Mapping[str, Any]] | None = None,
) -> list[Trial]:
    """All combinations of methods, datasets, grid values and seeds.

    Args:
        methods: Names of methods.
        datasets: Names of datasets.
        seeds: Seeds.
        grid: Hyperparameters to vary; every method must have them.
        profile: Recipes to start from.
        settings: Settings of every run.
        hyperparameters: Hyperparameters of every run.
        options: Options of networks and dataset, beside those of the recipes.

    Example:

    ```python
    plan_sweep(["ae", "qlae"], ["mini_shapes3d"], [0, 1], {"weight_decay": [0, 0.1]})
    ```
    """
    grid = grid or {}
    both = sorted(set(grid) & set(hyperparameters or {}))
    if both:
        raise ValueError(
            f"{', '.join(both)} is varied and given a value too; choose one of them."
        )
    points = [
        dict(zip(grid, values, strict=True))
        for values in itertools.product(*grid.values())
    ]
    trials = []
    for dataset, method, point, seed in itertools.product(
        datasets, methods, points, seeds
    ):
        config = resolve(
            method,
            dataset,
            profile,
            seed=seed,
            settings=settings,
            hyperparameters={**(hyperparameters or {}), **point},
            options=options,
        )
        varied = [f"{name}={value}" for name, value in point.items()]
        name = "-".join([dataset, method, *varied, f"seed{seed}"])
        trials.append(Trial(name.replace("/", "_"), config))
    if not trials:
        raise ValueError("The sweep is empty: name methods, datasets and seeds.")
    names = [trial.name for trial in trials]
    if len(set(names)) < len(names):
        raise ValueError("A method, dataset, value or seed is named twice.")
    return trials
