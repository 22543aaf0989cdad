"""Where the published datasets come from and what they need, as text.

    python -m qlayers.datasets.catalogue > docs/datasets.md

writes the page about all of them.
"""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from qlayers.datasets.factor_space import FactorSpace
from qlayers.datasets.file_datasets import builder_class

# Dataset -> its builder, in the order of the page.
_BUILDERS = {
    "shapes3d": "shapes3d_factors",
    "mpi3d": "mpi3d",
    "falcor3d": "falcor3d",
    "isaac3d": "isaac3d",
    "dsprites": "dsprites_factors",
    "color_dsprites": "dsprites_factors",
    "smallnorb": "smallnorb_factors",
    "cars3d": "cars3d",
}
_NOTES = {
    "color_dsprites": "The same file as `dsprites`; colours are drawn at random.",
    "smallnorb": (
        "Six files that belong together. The toy (`instance`) is drawn at random and "
        "is a factor only with `include_instance=True`."
    ),
    "mpi3d": "`variant=toy`, `realistic` or `real` choose other files of the family.",
    "falcor3d": "Images above 64x64 are prepared from the published 128x128.",
    "isaac3d": "Images above 64x64 are prepared from the published 128x128.",
}
_INTRODUCTION = """\
# Datasets

Written by `python -m qlayers.datasets.catalogue` from the builders' records.

`mini_shapes3d`, `circles`, `balls` and `grid2d` are generated and need no file. Your
own images are `--dataset=folder --data_dir=photos`, or `qlayers.datasets.from_folder`
and `from_arrays`. The others come from published files:

    python -m experiments.prepare --dataset=shapes3d --data_dir=data
    python -m experiments.prepare --dataset=shapes3d --dry_run   # says what it needs

The command looks for the file in the manual directory (`<data_dir>/downloads/manual`,
or `--manual_dir`), downloads it if its address hands it out directly, and prepares it
once; training does the same when it first needs the data. Several processes may ask for
the same dataset: one prepares it, the others wait. A preparation that was interrupted
starts again from the beginning. Disk is what the prepared files take; while they are
written, twice as much is needed. Time is processor time on an AMD EPYC, measured on
rendered images; photographs have more detail and take up to twice as long.
"""


@dataclasses.dataclass(frozen=True)
class FileFacts:
    """What one variant of a dataset needs.

    Attributes:
        dataset: The name `load` knows it by.
        variant: Name of the variant.
        files: Names of the published files.
        url: Where to get them.
        direct: Whether they are downloaded without you.
        size: Their size, as text.
        licence: Their licence.
        disk: Bytes of the prepared files.
        minutes: Processor time of the preparation.
        space: The factors.
    """

    dataset: str
    variant: str
    files: tuple[str, ...]
    url: str
    direct: bool
    size: str
    licence: str
    disk: int
    minutes: float
    space: FactorSpace

    def lines(self, place: str | Path) -> list[str]:
        """The facts, one a line.

        Args:
            place: The folder where the files have to be.
        """
        how = "downloaded if missing" if self.direct else "to be downloaded by you"
        return [
            f"file: {', '.join(self.files)} ({self.size})",
            f"address: {self.url} ({how})",
            f"licence: {self.licence}",
            f"place: {place}",
            f"disk: about {_gigabytes(self.disk)} GB",
            f"time: about {_minutes(self.minutes)}",
        ]


def facts(dataset: str, variant: str | None = None) -> FileFacts:
    """What a dataset from published files needs.

    Args:
        dataset: Its name.
        variant: Name of the variant; the default one when `None`.
    """
    if dataset not in _BUILDERS:
        raise ValueError(
            f"{dataset!r} is not made from published files; those that are: "
            f"{', '.join(_BUILDERS)}."
        )
    builder = builder_class(_BUILDERS[dataset])
    config = builder.config_named(variant)
    assert config.space is not None
    count = config.space.num_combinations
    area = config.image_shape[0] ** 2 / 64**2
    return FileFacts(
        dataset=dataset,
        variant=config.name,
        files=tuple(name for name, _ in builder.published_files(config).values()),
        url=config.url,
        direct=builder.HAS_DIRECT_DOWNLOAD,
        size=config.shown_size,
        licence=builder.LICENCE,
        disk=int(count * builder.BYTES_PER_IMAGE * area),
        minutes=count * builder.MILLISECONDS_PER_IMAGE / 60_000,
        space=config.space,
    )


def page() -> str:
    """The text of `docs/datasets.md`."""
    parts = [_INTRODUCTION]
    for dataset in _BUILDERS:
        parts.append(_section(facts(dataset)))
        if dataset == "mpi3d":
            parts += [_section(facts(dataset, v)) for v in ("toy", "realistic", "real")]
    return "\n".join(parts)


def _section(found: FileFacts) -> str:
    default = found.variant in ("full", "complex", "images64")
    title = found.dataset + ("" if default else f", variant {found.variant}")
    lines = [f"## {title}", ""]
    if default and found.dataset in _NOTES:
        lines += [_NOTES[found.dataset], ""]
    shown = [f"`{name}`" for name in found.files]
    facts_ = found.lines("`<data_dir>/downloads/manual`")
    facts_[0] = f"file: {', '.join(shown)} ({found.size})"
    lines += [f"- {line}" for line in facts_]
    lines += ["", "| factor | values | |", "|---|---|---|"]
    empty: tuple[Sequence[str], ...] = ((),) * found.space.num_factors
    names = found.space.values or empty
    for name, size, values in zip(
        found.space.names, found.space.sizes, names, strict=True
    ):
        lines.append(
            f"| `{name}` | {size} | {', '.join(values)} |".replace("  |", " |")
        )
    lines += ["", f"{found.space.num_combinations:,} images.", ""]
    return "\n".join(lines)


def _gigabytes(size: int) -> str:
    return f"{size / 1e9:.1f}"


def _minutes(minutes: float) -> str:
    return f"{minutes:.0f} min" if minutes >= 1 else "1 min"


if __name__ == "__main__":
    print(page(), end="")
