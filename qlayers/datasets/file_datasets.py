"""Opens the datasets that come from published files, preparing them if need be."""

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tensorflow as tf
import tensorflow_datasets as tfds

from qlayers.datasets.builders.factor_config import FactorConfig
from qlayers.datasets.builders.factor_grid_builder import FactorGridBuilder
from qlayers.datasets.factor_space import FactorSpace
from qlayers.datasets.preparation import prepared
from qlayers.datasets.prepared_dataset import PreparedDataset
from qlayers.datasets.record_index import RecordIndex


def open_file_dataset(
    name: str,
    builder_name: str,
    *,
    variant: str | None = None,
    image_size: int = 64,
    data_dir: str | Path | None = None,
    manual_dir: str | Path | None = None,
    file: str | Path | None = None,
    allow_partial: bool = False,
) -> PreparedDataset:
    """Opens a dataset, downloading and preparing it the first time.

    Args:
        name: The name `load` knows it by.
        builder_name: The TFDS builder.
        variant: Name of its configuration; the default one when `None`.
        image_size: Side of the images.
        data_dir: Where TFDS keeps prepared datasets.
        manual_dir: Where files that were downloaded by hand lie;
            `<data_dir>/downloads/manual` by default.
        file: Path of the published file, if it lies somewhere else.
        allow_partial: Accepts a part of the published file.

    Returns:
        The factor view.
    """
    chosen = builder_class(builder_name)
    root = Path(data_dir or tfds.core.constants.DATA_DIR).expanduser()
    manual = Path(manual_dir or root / "downloads" / "manual").expanduser()
    config = _config(chosen, variant, file, manual, allow_partial)

    def make_builder() -> FactorGridBuilder:
        builder = chosen(config=config, data_dir=str(root))
        builder.source_file = file
        return builder

    builder = make_builder()
    shipped = None if builder.is_prepared() or file else _shipped_by_tfds(name, root)
    scale = 1
    if shipped is not None:
        # TFDS keeps the zeros and ones of dSprites' file.
        scale = 255 if name == "dsprites" else 1
        records = _records(shipped, _number_from_labels(builder))
    else:
        builder = prepared(make_builder, manual)
        records = _records(builder, _number_from_index)
    return PreparedDataset(
        name,
        builder.space,
        records,
        builder.builder_config.image_shape,
        image_size,
        allow_partial,
        scale,
    )


def builder_class(name: str) -> type[FactorGridBuilder]:
    """The builder of this name."""
    module = importlib.import_module(
        f"qlayers.datasets.builders.{name}.{name}_dataset_builder"
    )
    return module.Builder


def _config(
    builder: type[FactorGridBuilder],
    variant: str | None,
    file: str | Path | None,
    manual: Path,
    allow_partial: bool,
) -> FactorConfig:
    config = builder.config_named(variant)
    if not allow_partial:
        return config
    sample = Path(file) if file else manual / config.file_name
    parts = builder.given_files(config, sample)
    return config.as_partial(sample, list(parts.values()))


def _shipped_by_tfds(name: str, root: Path) -> Any:
    """What TFDS's own builder of this name has already prepared, if anything."""
    if name not in ("shapes3d", "dsprites"):
        return None
    try:
        builder = tfds.builder(name, data_dir=str(root), try_gcs=False)
    except (tfds.core.DatasetNotFoundError, ValueError):
        return None
    return builder if builder.is_prepared() else None


def _records(builder: Any, number_of: Callable[[tf.train.Example], int]) -> RecordIndex:
    """Positions of the pictures of a prepared builder."""
    if builder.info.file_format != tfds.core.FileFormat.TFRECORD:
        raise ValueError(
            f"{builder.data_dir} is stored as {builder.info.file_format}; expected "
            "TFRecord files. Prepare the dataset with file_format='tfrecord'."
        )
    return RecordIndex(builder.info.splits["train"].filepaths, number_of)


def _number_from_index(example: tf.train.Example) -> int:
    return example.features.feature["index"].int64_list.value[0]


def _number_from_labels(
    builder: FactorGridBuilder,
) -> Callable[[tf.train.Example], int]:
    """Image numbers for examples of TFDS's own builders, which store labels only."""
    space: FactorSpace = builder.space

    def number_of(example: tf.train.Example) -> int:
        number = 0
        for name, size in zip(space.names, space.sizes, strict=True):
            label = example.features.feature[f"label_{name}"].int64_list.value[0]
            number = number * size + label
        return number

    return number_of
