"""What the five papers printed, as records: one file a paper.

Recipes, the papers' numbers in reports and `docs/reproduction.md` follow from these
records alone.
"""

from experiments.settings.published.record import Cell, Difference, Gap, PublishedRow
from experiments.settings.published.registry import (
    PAPERS,
    find,
    method_recipe,
    paper_recipe,
    profile_of,
    published_rows,
    row_of_profile,
    rows_of,
)

__all__ = [
    "PAPERS",
    "Cell",
    "Difference",
    "Gap",
    "PublishedRow",
    "find",
    "method_recipe",
    "paper_recipe",
    "profile_of",
    "published_rows",
    "row_of_profile",
    "rows_of",
]
