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
from qlayers.datasets.builders.network import why_unreachable
from qlayers.datasets.builders.png_encoding import encoded_ahead
from qlayers.datasets.builders.preparation_progress import PreparationProgress
from qlayers.datasets.factor_space import FactorSpace, IntArray
from qlayers.datasets.readers import DatasetFileError, check_digest, check_is_data

# One chunk: image numbers, images (arrays or encoded PNG files) and sources.
Chunk = tuple[IntArray, Sequence[npt.NDArray[np.uint8] | bytes], IntArray]

# TensorFlow Datasets gathers 1 GB in memory before it shuffles on disk.
_SHUFFLE_BUFFER = 32 << 20


def _manual_dir(dl_manager: tfds.download.DownloadManager) -> Path:
    try:
        folder = dl_manager.manual_dir
    except AssertionError:  # it does not exist or is empty
        folder = getattr(dl_manager, "_manual_dir", None) or "."
    return Path(folder).expanduser().resolve()


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

    Subclasses say whether the file can be downloaded (`HAS_DIRECT_DOWNLOAD`; otherwise
    it must be in the manual directory) and read it in chunks (`_chunks`). Images and
    labels are checked against the grid on the way: a prepared dataset is complete and
    in order, or it is not there. TFDS writes into a temporary folder and renames it at
    the very end.
    """

    VERSION = tfds.core.Version("1.0.0")
    RELEASE_NOTES = {"1.0.0": "First release."}  # noqa: RUF012
    HOMEPAGE = ""
    MANUAL_DOWNLOAD_INSTRUCTIONS = """
    Put the published file into the manual directory, <data_dir>/downloads/manual unless
    you choose another, under its published name, packed as it is.
    """

    # Whether the address of the file answers with the file, and not with a page.
    HAS_DIRECT_DOWNLOAD = False

    LICENCE = ""

    # What a prepared image takes on disk, measured; only warns of a full disk early.
    BYTES_PER_IMAGE = 4500

    # Processor time to prepare an image, measured on rendered images (AMD EPYC).
    MILLISECONDS_PER_IMAGE = 1.0

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
        partial = self.builder_config.partial
        total = None if partial else self.space.num_combinations
        progress = PreparationProgress(self.info.full_name, total)
        for index, images, sources in encoded_ahead(self._checked_chunks(source)):
            for number, image, row in zip(index, images, sources, strict=True):
                yield int(number), self._example(int(number), image, row)
            count += len(index)
            progress.advance(len(index))
        self._check_count(source, count)
        progress.finish()

    def _checked_chunks(self, source: Any) -> Iterator[Chunk]:
        for index, images, sources in self._chunks(source):
            self._check_sources(source, index, sources)
            yield index, images, sources

    def _chunks(self, source: Any) -> Iterator[Chunk]:
        """Reads the file chunk by chunk, in any order."""
        raise NotImplementedError

    def _example(self, index: int, image: Any, sources: IntArray) -> dict[str, Any]:
        labels = {
            f"label_{name}": int(value)
            for name, value in zip(self.space.names, sources, strict=True)
        }
        return {"image": image, "index": index, "sources": sources, **labels}

    @classmethod
    def config_named(cls, variant: str | None) -> FactorConfig:
        """The configuration of a variant; the default one when `None`."""
        configs = {config.name: config for config in cls.BUILDER_CONFIGS}
        chosen = variant or cls.DEFAULT_BUILDER_CONFIG_NAME or next(iter(configs))
        if chosen not in configs:
            raise ValueError(
                f"Unknown variant {chosen!r}; expected one of {sorted(configs)}."
            )
        return configs[chosen]

    @classmethod
    def published_files(cls, config: FactorConfig) -> dict[str, tuple[str, str]]:
        """Name and address of every file, by a key of our own."""
        return {"file": (config.file_name, config.url)}

    @classmethod
    def given_files(cls, config: FactorConfig, file: str | Path) -> dict[str, Path]:
        """Paths of the files when one was named; others lie in the same folder."""
        files = cls.published_files(config)
        if len(files) == 1:
            return dict.fromkeys(files, Path(file))
        return {key: Path(file).parent / name for key, (name, _) in files.items()}

    def _locate(self, dl_manager: tfds.download.DownloadManager) -> Any:
        """Finds the published files and checks what can be checked before reading."""
        config = self.builder_config
        given = config.file or self.source_file
        if given:
            paths = self.given_files(config, given)
        else:
            paths = self._manual_files_or_downloads(dl_manager)
        for key, path in paths.items():
            check_is_data(path)
            self._check_checksum(key, path)
        return paths["file"] if len(paths) == 1 else paths

    def _check_checksum(self, key: str, path: Path) -> None:
        config = self.builder_config
        sha256 = config.sha256
        if config.has_checksums:
            url = self.published_files(config)[key][1]
            sha256 = self.url_infos[url].checksum
        if sha256:
            check_digest(path, "sha256", sha256)
        elif config.md5:
            check_digest(path, "md5", config.md5)

    def _manual_files_or_downloads(
        self, dl_manager: tfds.download.DownloadManager
    ) -> dict[str, Path]:
        files = self.published_files(self.builder_config)
        manual = _manual_dir(dl_manager)
        found = {key: manual / name for key, (name, _) in files.items()}
        missing = [key for key, path in found.items() if not path.is_file()]
        if not missing:
            return found
        url = files[missing[0]][1]
        if not self.HAS_DIRECT_DOWNLOAD:
            raise self._missing(found[missing[0]], url, "there is no such file.")
        if problem := why_unreachable(url):
            raise self._missing(
                found[missing[0]],
                url,
                f"there is no such file, and {url} does not answer ({problem}).",
            )
        downloads = self._fetch(dl_manager, {key: files[key][1] for key in missing})
        return {**found, **downloads}

    def _missing(self, path: Path, url: str, problem: str) -> DatasetFileError:
        size = self.builder_config.shown_size
        if len(self.published_files(self.builder_config)) > 1:
            size += " with the files that belong to it"
        return DatasetFileError(
            path,
            problem,
            f"Download {path.name} ({size}) from {url} and put it there, packed as it "
            "is; or name another folder as `manual_dir`.",
        )

    def _fetch(
        self, dl_manager: tfds.download.DownloadManager, urls: dict[str, str]
    ) -> dict[str, Path]:
        """Downloads files."""
        try:
            found = dl_manager.download(urls)
        except NonMatchingChecksumError as error:
            raise DatasetFileError(
                ", ".join(urls.values()),
                "what was downloaded is not the published file "
                f"({' '.join(str(error).split())}).",
            ) from error
        except (tfds.download.DownloadError, OSError) as error:
            raise DatasetFileError(
                ", ".join(urls.values()),
                f"the download failed ({' '.join(str(error).split())}).",
                " ".join(str(self.MANUAL_DOWNLOAD_INSTRUCTIONS).split()),
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
