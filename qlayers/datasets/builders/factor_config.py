"""What distinguishes the variants of a builder."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import tensorflow_datasets as tfds

from qlayers.datasets.factor_space import FactorSpace
from qlayers.datasets.readers import content_digest


@dataclasses.dataclass(eq=False)
class FactorConfig(tfds.core.BuilderConfig):
    """Configuration of a `FactorGridBuilder`.

    Args:
        space: The factors, in the order of the file.
        image_shape: Shape of the stored images.
        file_name: Name of the published file.
        url: Where to get it.
        num_bytes: Its size; rounded where there is no published checksum.
        sha256: Its published SHA-256, if any.
        md5: Its published MD5, where there is no SHA-256.
        has_checksums: Whether `checksums.tsv` lists the published SHA-256 of every
            file, for datasets of several files.
        partial: Accepts a file that holds only the first part of the grid or has
            other than the published size.
        file: Path of that file.
    """

    space: FactorSpace | None = None
    image_shape: tuple[int, int, int] = (64, 64, 3)
    file_name: str = ""
    url: str = ""
    num_bytes: int = 0
    sha256: str | None = None
    md5: str | None = None
    has_checksums: bool = False
    partial: bool = False
    file: str | None = None

    @property
    def shown_size(self) -> str:
        """The size of the published file, as messages and tables show it."""
        if not self.num_bytes:
            return "size not published"
        if self.sha256 or self.has_checksums:
            return f"{self.num_bytes:,} bytes"
        return f"about {self.num_bytes / 1e9:.1f} GB"

    def as_partial(self, file: str | Path, parts: Sequence[Path]) -> "FactorConfig":
        """The same variant for a file that may be partial.

        Its name contains a digest of the content, so that what was prepared from one
        sample is never taken for another or for the whole dataset.

        Args:
            file: The sample.
            parts: All files that are read; where one is missing its name stands for it.
        """
        return dataclasses.replace(  # type: ignore[call-arg]
            self,
            name=f"{self.name}_partial_{content_digest(parts)[:12]}",
            partial=True,
            file=str(file),
            sha256=None,
            md5=None,
            has_checksums=False,
        )
