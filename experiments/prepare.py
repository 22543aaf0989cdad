"""Prepares a dataset from its published file, before anything is trained on it.

    python -m experiments.prepare --dataset=shapes3d --data_dir=data
    python -m experiments.prepare --dataset=mpi3d --variant=toy --dry_run

--dry_run says which file is needed, where to get it and where to put it;
docs/datasets.md lists them all.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from absl import flags

from experiments.settings.command_line import launch
from experiments.settings.names import PUBLISHED_DATASETS

_DATASET = flags.DEFINE_enum("dataset", None, PUBLISHED_DATASETS, "What to prepare.")
_DATA_DIR = flags.DEFINE_string(
    "data_dir", None, "Where prepared datasets are kept. Default: TFDS's."
)
_MANUAL_DIR = flags.DEFINE_string(
    "manual_dir",
    None,
    "Where files that you downloaded lie. Default: <data_dir>/downloads/manual.",
)
_FILE = flags.DEFINE_string("file", None, "The published file, if it lies elsewhere.")
_VARIANT = flags.DEFINE_string("variant", None, "Variant, such as toy for mpi3d.")
_ALLOW_PARTIAL = flags.DEFINE_bool(
    "allow_partial", False, "Accept a file that holds a part of the dataset."
)
_DRY_RUN = flags.DEFINE_bool("dry_run", False, "Say what is needed and stop.")
flags.register_validator(
    "dataset", bool, message=f"Name a dataset: --dataset={PUBLISHED_DATASETS[0]}."
)


def main(arguments: Sequence[str]) -> None:
    name = str(_DATASET.value)
    if _DRY_RUN.value:
        from qlayers.datasets.catalogue import facts

        print(f"{name} needs")
        for line in facts(name, _VARIANT.value).lines(_place()):
            print(f"  {line}")
        print("Nothing was written.")
        return
    from qlayers import datasets

    given: dict[str, Any] = {
        "manual_dir": _MANUAL_DIR.value,
        "file": _FILE.value,
        "variant": _VARIANT.value,
    }
    dataset = datasets.load(
        name,
        data_dir=_DATA_DIR.value,
        allow_partial=_ALLOW_PARTIAL.value,
        **{option: value for option, value in given.items() if value},
    )
    print(f"{name} is prepared: {dataset.num_images:,} images.")


def _place() -> Path:
    """The folder in which the published file is looked for."""
    if _FILE.value:
        return Path(_FILE.value).expanduser().resolve().parent
    if _MANUAL_DIR.value:
        return Path(_MANUAL_DIR.value).expanduser().resolve()
    import tensorflow_datasets as tfds

    root = Path(_DATA_DIR.value or tfds.core.constants.DATA_DIR)
    return (root / "downloads" / "manual").expanduser().resolve()


if __name__ == "__main__":
    launch(main)
