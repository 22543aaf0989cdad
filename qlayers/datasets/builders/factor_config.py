"""What distinguishes the variants of a builder."""

import dataclasses
import hashlib
from pathlib import Path

import tensorflow_datasets as tfds

from qlayers.datasets.factor_space import FactorSpace


@dataclasses.dataclass(eq=False)
class FactorConfig(tfds.core.BuilderConfig):
    """Configuration of a `FactorGridBuilder`.

    Args:
        space: the factors, in the order of the file.
        image_shape: shape of the stored images.
        file_name: name of the published file.
        sha256: its published SHA-256, if any.
        md5: its published MD5, where there is no SHA-256.
        partial: accepts a file that holds only the first part of the grid or has
            other than the published size.
        file: path of that file.
    """

    space: FactorSpace | None = None
    image_shape: tuple[int, int, int] = (64, 64, 3)
    file_name: str = ""
    sha256: str | None = None
    md5: str | None = None
    partial: bool = False
    file: str | None = None

    def as_partial(
        self, file: str | Path | None, directory: str | Path
    ) -> "FactorConfig":
        """The same variant for a file that may be partial.

        Its name contains a digest of the file's name and size, so that what was
        prepared from one sample is never taken for another or for the whole dataset.

        Args:
            file: the sample; `None` for `file_name` in `directory`.
            directory: the manual directory.
        """
        path = Path(file) if file else Path(directory) / self.file_name
        size = path.stat().st_size if path.is_file() else 0
        digest = hashlib.sha256(f"{path.name}:{size}".encode()).hexdigest()[:8]
        return dataclasses.replace(  # type: ignore[call-arg]
            self,
            name=f"{self.name}_partial_{digest}",
            partial=True,
            file=str(path),
            sha256=None,
            md5=None,
        )
