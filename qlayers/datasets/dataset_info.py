"""The record that describes a dataset before it is loaded."""

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from qlayers.datasets.factor_dataset import FactorDataset


@dataclass(frozen=True)
class DatasetInfo:
    """What is known about a dataset without its files and without TensorFlow.

    Attributes:
        name: Name that `load` knows the dataset by.
        factor_names: Names of the factors, in the order of the columns of `sources`.
        loader: Function or class that opens the dataset, or where it lies, written
            `"package.module:name"`; such a module is imported on first use.
        continuous: Whether the factors are real numbers.
        images: Whether the observations are images; otherwise they are points, and the
            loader takes no `image_size`.
        files: Whether the dataset comes from published files, so that the loader takes
            `data_dir` and `allow_partial`.
        own_images: Whether `data_dir` names the data themselves, so that another
            folder is another dataset.
        stands_for: Name of the dataset whose published settings suit this one as well.
        options: Arguments of the loader; those of `load` override them.

    Example:

    ```python
    record = DatasetInfo("bars", ("place", "standing", "grey"), loader=Bars)
    record.num_factors  # 3
    ```
    """

    name: str
    factor_names: tuple[str, ...]
    loader: "Callable[..., FactorDataset] | str"
    continuous: bool = False
    images: bool = True
    files: bool = False
    own_images: bool = False
    stands_for: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def num_factors(self) -> int:
        """Number of factors."""
        return len(self.factor_names)

    def load(self, image_size: int, files: Mapping[str, Any], **options: Any) -> Any:
        """Opens the dataset.

        Args:
            image_size: Side of the images, if the observations are images.
            files: Arguments that only datasets from files take.
            **options: Further arguments of the loader.
        """
        make = self.loader
        if isinstance(make, str):
            module, _, name = make.partition(":")
            make = getattr(importlib.import_module(module), name)
        given = {**self.options, **options}
        if self.images:
            given["image_size"] = image_size
        if self.files:
            given.update(files)
        return make(**given)
