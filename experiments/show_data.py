"""Shows a dataset: a contact sheet and a sheet of factor traversals.

    python -m experiments.show_data --dataset=mini_shapes3d --folder=runs/data

writes `mini_shapes3d_contact.png` and `mini_shapes3d_traversals.png`.
"""

from collections.abc import Sequence
from pathlib import Path

from absl import flags

from experiments.settings.command_line import launch
from experiments.settings.names import dataset_names

_DATASET = flags.DEFINE_enum(
    "dataset", "mini_shapes3d", dataset_names(), "Which dataset to show."
)
_OUTPUT = flags.DEFINE_string("folder", "runs/data", "Folder for the pictures.")
_DATA_DIR = flags.DEFINE_string(
    "data_dir", None, "Where prepared datasets are; TFDS's default if empty."
)
_FILE = flags.DEFINE_string("file", None, "A published file or a sample of one.")
_VARIANT = flags.DEFINE_string("variant", None, "Variant, such as toy for mpi3d.")
_ALLOW_PARTIAL = flags.DEFINE_boolean(
    "allow_partial", False, "Accepts a file that holds a part of the dataset."
)
_IMAGE_SIZE = flags.DEFINE_integer("image_size", 64, "Side of the images.", 4)
_ROWS = flags.DEFINE_integer("rows", 8, "Rows of the contact sheet.", 1)
_COLUMNS = flags.DEFINE_integer("columns", 12, "Columns of both sheets.", 2)
_SEED = flags.DEFINE_integer("seed", 0, "Which images to draw.", 0)


def main(argv: Sequence[str]) -> None:
    from experiments.reporting.data_sheets import save_sheets
    from experiments.settings.extensions import load_extensions
    from qlayers import datasets

    load_extensions()
    options = {"file": _FILE.value, "variant": _VARIANT.value}
    dataset = datasets.load(
        _DATASET.value,
        image_size=_IMAGE_SIZE.value,
        data_dir=_DATA_DIR.value,
        allow_partial=_ALLOW_PARTIAL.value,
        **{key: value for key, value in options.items() if value},
    )
    print(repr(dataset))
    folder = Path(_OUTPUT.value)
    sizes = _ROWS.value, _COLUMNS.value
    for path in save_sheets(dataset, folder, *sizes, _SEED.value):
        print(path)


if __name__ == "__main__":
    launch(main)
