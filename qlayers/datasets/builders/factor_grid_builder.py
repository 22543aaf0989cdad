"""What the builders of all factor grids share."""

import contextlib
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow_datasets as tfds
from tensorflow_datasets.core import shuffle as tfds_shuffle
from tensorflow_datasets.core.download.download_manager import (
    NonMatchingChecksumError,
)

from qlayers.datasets.builders.factor_config import FactorConfig
from qlayers.datasets.factor_space import FactorSpace, IntArray
from qlayers.datasets.readers import DatasetFileError, check_digest, check_is_data

# One chunk: image numbers, images (arrays or encoded PNG files) and sources.
Chunk = tuple[IntArray, Sequence[npt.NDArray[np.uint8] | bytes], IntArray]

# TensorFlow Datasets gathers 1 GB in memory before it shuffles on disk.
_SHUFFLE_BUFFER = 32 << 20


@contextlib.contextmanager
def _small_shuffle_buffer() -> Iterator[None]:
    usual = tfds_shuffle.MAX_MEM_BUFFER_SIZE
    tfds_shuffle.MAX_MEM_BUFFER_SIZE = min(usual, _SHUFFLE_BUFFER)
    try:
        yield
    finally:
        tfds_shuffle.MAX_MEM_BUFFER_SIZE = usual


class FactorGridBuilder(  # type: ignore[call-arg]
    tfds.core.GeneratorBasedBuilder, skip_registration=True
):
    """Turns a published file into a TFDS dataset with integer sources.

    Every example has the features

    - `image`: uint8, stored as PNG;
    - `index`: int64, number of the image in the grid, last factor fastest;
    - `sources`: int64 (factors,), the value indices in the order of the file;
    - `label_<factor>`: the same, one by one, with the values' names where known.

    Subclasses say where the file comes from (`URL`, or the manual directory when it is
    `None`) and read it in chunks (`_chunks`). Images and labels are checked against
    the grid on the way: a prepared dataset is complete and in order, or it is not
    there. TFDS writes into a temporary folder and renames it at the very end.
    """

    VERSION = tfds.core.Version("1.0.0")
    RELEASE_NOTES = {"1.0.0": "First release."}  # noqa: RUF012
    HOMEPAGE = ""
    URL: str | None = None

    # What a prepared image takes on disk, measured; only warns of a full disk early.
    BYTES_PER_IMAGE = 4500

    builder_config: FactorConfig

    # Path of the published file, instead of a download or the manual directory.
    source_file: str | Path | None = None

    @property
    def space(self) -> FactorSpace:
        """The factors of the whole dataset."""
        assert self.builder_config.space is not None
        return self.builder_config.space

    def _info(self) -> tfds.core.DatasetInfo:
        features: dict[str, Any] = {
            "image": tfds.features.Image(shape=self.builder_config.image_shape),
            "index": tfds.features.Scalar(dtype=np.int64),
            "sources": tfds.features.Tensor(
                shape=(self.space.num_factors,), dtype=np.int64
            ),
        }
        for column, (name, size) in enumerate(
            zip(self.space.names, self.space.sizes, strict=True)
        ):
            names = self.space.values[column] if self.space.values else ()
            features[f"label_{name}"] = (
                tfds.features.ClassLabel(names=list(names))
                if names
                else tfds.features.ClassLabel(num_classes=size)
            )
        return self.dataset_info_from_configs(
            features=tfds.features.FeaturesDict(features), homepage=self.HOMEPAGE
        )

    def _download_and_prepare(self, *args: Any, **kwargs: Any) -> Any:
        with _small_shuffle_buffer():
            return super()._download_and_prepare(*args, **kwargs)

    def _split_generators(
        self, dl_manager: tfds.download.DownloadManager
    ) -> dict[str, Any]:
        source = self._locate(dl_manager)
        self._check_disk_space()
        return {"train": self._generate_examples(source)}

    def _generate_examples(self, source: Any) -> Iterator[tuple[int, dict[str, Any]]]:
        count = 0
        for index, images, sources in self._chunks(source):
            self._check_sources(source, index, sources)
            for number, image, row in zip(index, images, sources, strict=True):
                yield int(number), self._example(int(number), image, row)
            count += len(index)
        self._check_count(source, count)

    def _chunks(self, source: Any) -> Iterator[Chunk]:
        """Reads the file chunk by chunk, in any order."""
        raise NotImplementedError

    def _example(self, index: int, image: Any, sources: IntArray) -> dict[str, Any]:
        labels = {
            f"label_{name}": int(value)
            for name, value in zip(self.space.names, sources, strict=True)
        }
        return {"image": image, "index": index, "sources": sources, **labels}

    def _locate(self, dl_manager: tfds.download.DownloadManager) -> Any:
        """Finds the published file and checks what can be checked before reading."""
        config = self.builder_config
        given = config.file or self.source_file
        if given:
            path = Path(given)
        elif self.URL is None:
            path = self._manual_file(dl_manager, config.file_name)
        elif self.URL in (self.url_infos or {}):
            # TFDS compares the SHA-256 and prefers a copy in the manual directory.
            path = self._download(dl_manager)
        else:
            path = self._manual_file_or_download(dl_manager, config.file_name)
        check_is_data(path)
        if config.sha256 and given:
            check_digest(path, "sha256", config.sha256)
        if config.md5:
            check_digest(path, "md5", config.md5)
        return path

    def _manual_file(
        self, dl_manager: tfds.download.DownloadManager, file_name: str
    ) -> Path:
        instructions = " ".join(str(self.MANUAL_DOWNLOAD_INSTRUCTIONS).split())
        try:
            path = Path(dl_manager.manual_dir) / file_name
        except AssertionError as error:
            folder = getattr(dl_manager, "_manual_dir", "the manual directory")
            raise DatasetFileError(
                f"{folder}/{file_name}", "there is no such file.", instructions
            ) from error
        if not path.is_file():
            raise DatasetFileError(path, "there is no such file.", instructions)
        return path

    def _manual_file_or_download(
        self, dl_manager: tfds.download.DownloadManager, file_name: str
    ) -> Path:
        try:
            return self._manual_file(dl_manager, file_name)
        except DatasetFileError:
            return self._download(dl_manager)

    def _download(self, dl_manager: tfds.download.DownloadManager) -> Path:
        return self._fetch(dl_manager, {"file": self.URL})["file"]

    def _fetch(
        self, dl_manager: tfds.download.DownloadManager, urls: dict[str, Any]
    ) -> dict[str, Path]:
        """Downloads files or finds them in the manual directory."""
        instructions = " ".join(str(self.MANUAL_DOWNLOAD_INSTRUCTIONS).split())
        try:
            found = dl_manager.download(urls)
        except NonMatchingChecksumError as error:
            raise DatasetFileError(
                ", ".join(urls.values()),
                f"what was downloaded, or found in the manual directory, is not the "
                f"published file ({' '.join(str(error).split())}).",
            ) from error
        except (tfds.download.DownloadError, OSError) as error:
            raise DatasetFileError(
                ", ".join(urls.values()),
                f"the download failed ({' '.join(str(error).split())}).",
                instructions,
            ) from error
        return {key: Path(path) for key, path in found.items()}

    def _check_disk_space(self) -> None:
        folder = Path(self.data_dir)
        while not folder.exists():
            folder = folder.parent
        # The shuffled copy and the final files exist at the same time.
        needed = 2 * self.BYTES_PER_IMAGE * self.space.num_combinations
        free = shutil.disk_usage(folder).free
        if not self.builder_config.partial and free < needed:
            raise OSError(
                f"Preparing {self.name} takes about {needed / 1e9:.1f} GB in "
                f"{self.data_dir}, but only {free / 1e9:.1f} GB are free there. Free "
                "some space or choose another `data_dir`."
            )

    def _check_count(self, source: Any, count: int) -> None:
        expected = self.space.num_combinations
        partial = self.builder_config.partial
        if count == expected or (partial and 0 < count < expected):
            return
        raise DatasetFileError(
            self._shown(source),
            f"holds {count} images, the published file has {expected}.",
            "Download the whole file, or pass allow_partial=True if a part is meant.",
        )

    def _check_sources(self, source: Any, index: IntArray, sources: IntArray) -> None:
        expected = self.space.sources_of(index)
        if np.array_equal(expected, sources):
            return
        row = int(np.argmax(np.any(expected != sources, axis=1)))
        raise DatasetFileError(
            self._shown(source),
            f"image {index[row]} has the labels {sources[row].tolist()}, but the "
            f"published order implies {expected[row].tolist()} for "
            f"{list(self.space.names)}: this is another file.",
        )

    def _shown(self, source: Any) -> str:
        return str(source) if isinstance(source, str | Path) else self.name
