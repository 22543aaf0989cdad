"""All published rows, and the recipes that follow from them."""

import functools
from types import ModuleType
from typing import Any, get_args

from experiments.settings.published import cliff, factor_qvae, friede, qlae, tripod
from experiments.settings.published.record import Paper, PublishedRow, Variant

PAPERS: dict[Paper, ModuleType] = {
    "qlae": qlae,
    "tripod": tripod,
    "factor_qvae": factor_qvae,
    "friede": friede,
    "cliff": cliff,
}
# Stands between an address and a variant: "qlae:table1:qlae/shapes3d@code".
_AT = "@"


@functools.cache
def published_rows() -> tuple[PublishedRow, ...]:
    """Every row of every table of the five papers, in the order of the papers.

    Example:

    ```python
    [row.address for row in published_rows() if row.method == "tripod"]
    ```
    """
    return tuple(row for module in PAPERS.values() for row in module.rows())


@functools.cache
def _by_address() -> dict[str, PublishedRow]:
    return {row.address: row for row in published_rows()}


def find(address: str) -> PublishedRow:
    """The row with an address.

    Args:
        address: `paper:table:row`.

    Example:

    ```python
    find("qlae:table1:qlae/shapes3d").method  # "qlae"
    ```
    """
    try:
        return _by_address()[address]
    except KeyError:
        raise ValueError(_suggestion(address)) from None


def _suggestion(address: str) -> str:
    import difflib

    near = difflib.get_close_matches(address, _by_address(), n=3, cutoff=0.5)
    hint = f" Near it: {', '.join(near)}." if near else ""
    return (
        f"There is no published row {address!r}.{hint} `--reproduce=list` prints all."
    )


def profile_of(address: str, variant: Variant = "text") -> str:
    """The profile that stands for a row: its address, and the variant if not the text.

    Args:
        address: `paper:table:row`.
        variant: `"text"` or `"code"`.
    """
    if variant not in get_args(Variant):
        raise ValueError(
            f"Unknown variant {variant!r}. Known: {', '.join(get_args(Variant))}."
        )
    return address if variant == "text" else f"{address}{_AT}{variant}"


def row_of_profile(profile: str) -> tuple[PublishedRow, Variant] | None:
    """The row and the variant that a profile stands for; None for other profiles."""
    if ":" not in profile:
        return None
    address, _, variant = profile.partition(_AT)
    if variant not in ("", "code"):
        raise ValueError(f"Unknown variant {variant!r} in {profile!r}.")
    return find(address), "code" if variant else "text"


def home(method: str) -> Paper | None:
    """The paper whose settings a method has where nothing else is asked for."""
    for paper, module in PAPERS.items():
        if method in module.METHODS:
            return paper
    return None


def rows_of(method: str, dataset: str) -> list[PublishedRow]:
    """Rows that print a number for a method on a dataset, those of its home first."""
    found = [
        row
        for row in published_rows()
        if row.runs and row.cells and (row.method, row.dataset) == (method, dataset)
    ]
    first = home(method)
    return sorted(found, key=lambda row: row.paper != first)


def paper_recipe(method: str, dataset: str) -> dict[str, Any] | None:
    """Recipe values of a method on a dataset: the first row, or the paper's defaults.

    Args:
        method: Name of the method.
        dataset: Name of the dataset.

    Returns:
        Settings and hyperparameters in one mapping, or None if no paper has the method.
    """
    rows = rows_of(method, dataset)
    if rows:
        return rows[0].recipe()
    for module in PAPERS.values():
        training = getattr(module, "UNPRINTED", {}).get((method, dataset))
        if training is not None:
            return _with_scoring(training, module, method, dataset)
    return method_recipe(method)


def method_recipe(method: str) -> dict[str, Any] | None:
    """Recipe values of a method on any dataset; None if no paper has the method.

    Args:
        method: Name of the method.
    """
    paper = home(method)
    if paper is None:
        return None
    module = PAPERS[paper]
    return _with_scoring(module.METHODS[method], module, method, "")


def _with_scoring(
    training: Any, module: ModuleType, method: str, dataset: str
) -> dict[str, Any]:
    scored = module.scoring(dataset if module is cliff else method)
    return {**training.recipe(), **scored.recipe(), "dataset_options": {}}
