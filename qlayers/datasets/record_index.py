"""Random access to the pictures inside TFRecord files."""

import contextlib
import io
import os
import weakref
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from qlayers.datasets.factor_space import IntArray
from qlayers.datasets.readers import DatasetFileError, naming_damage
from qlayers.files import write_atomically

_FILE_NAME = "picture_index.npz"
_COLUMNS = 5  # image number, file, offset, size, checksum
# Bytes around a record's data: its length, the length's checksum, its own checksum.
_BEFORE, _AFTER = 12, 4
_BATCH = 256


class RecordIndex:
    """Knows where in which file every picture lies.

    TFRecord files can only be read front to back. One pass over them notes the position
    of each encoded picture; afterwards any picture is one read away, so that streams
    need no shuffle buffer and start anywhere. The notes are kept beside the files and
    are made anew when those change. A picture that no longer is what it was is named.

    Args:
        files: TFRecord files of a prepared dataset.
        number_of: Gives the image number of an example.

    Attributes:
        num_images: Number of pictures.
        numbers: Their image numbers, ascending.
    """

    def __init__(
        self,
        files: Sequence[str | Path],
        number_of: Callable[[tf.train.Example], int],
    ) -> None:
        self.files = [Path(file) for file in files]
        self._number_of = number_of
        for file in self.files:
            if not file.is_file():
                raise _damaged(file, "there is no such file")
        signature = np.array([file.stat().st_size for file in self.files], np.int64)
        notes = self._load(signature)
        if notes is None:
            notes = self._scan()
            self._save(signature, notes)
        self.numbers, self._places = notes[:, 0].copy(), notes[:, 1:].copy()
        self.num_images = len(self.numbers)
        self._descriptors = [os.open(file, os.O_RDONLY) for file in self.files]
        closing = weakref.finalize(self, _close, self._descriptors)
        # At the end of the program the system closes them, after the last reader.
        closing.atexit = False

    def read(self, index: IntArray) -> list[bytes]:
        """Encoded pictures by position in `numbers`."""
        return [self._read(*place) for place in self._places[index].tolist()]

    def stored_order(self) -> IntArray:
        """Positions in `numbers` in the order of the files and within them."""
        which, offset = self._places[:, 0], self._places[:, 1]
        return np.lexsort((offset, which))

    def file_of(self, index: IntArray) -> Path:
        """The file that holds the first of these pictures."""
        return self.files[int(self._places[index][0, 0])]

    def _read(self, which: int, offset: int, size: int, checksum: int) -> bytes:
        picture = os.pread(self._descriptors[which], size, offset)
        if zlib.crc32(picture) != checksum:
            raise _damaged(self.files[which], f"the picture at byte {offset} changed")
        return picture

    def _scan(self) -> IntArray:
        rows = [
            row
            for which, file in enumerate(self.files)
            for row in self._scan_file(which, file)
        ]
        notes = np.array(rows, np.int64).reshape(-1, _COLUMNS)
        return notes[np.argsort(notes[:, 0], kind="stable")]

    def _scan_file(self, which: int, file: Path) -> Iterator[tuple[int, ...]]:
        with naming_damage(file, "a record in it cannot be read"):
            for start, record in _records(file):
                example = tf.train.Example.FromString(record)
                picture = example.features.feature["image"].bytes_list.value[0]
                offset = start + record.index(picture)
                number = int(self._number_of(example))
                yield number, which, offset, len(picture), zlib.crc32(picture)

    def _path(self) -> Path:
        return self.files[0].parent / _FILE_NAME

    def _load(self, signature: IntArray) -> IntArray | None:
        """The stored notes, unless they are damaged or of other files."""
        try:
            with (
                naming_damage(self._path(), "the notes cannot be read"),
                np.load(self._path(), allow_pickle=False) as stored,
            ):
                fresh = np.array_equal(stored["signature"], signature)
                notes = stored["notes"] if fresh else None
        except DatasetFileError:
            return None
        return notes if notes is not None and _plausible(notes, signature) else None

    def _save(self, signature: IntArray, notes: IntArray) -> None:
        """Keeps the notes for the next process, where the folder can be written."""
        stream = io.BytesIO()
        np.savez(stream, signature=signature, notes=notes)
        # The notes are for all who may read the data.
        mode = self.files[0].stat().st_mode & 0o666

        def write(partial: Path) -> None:
            partial.write_bytes(stream.getbuffer())
            partial.chmod(mode)

        with contextlib.suppress(OSError):  # else the next process scans again
            write_atomically(self._path(), write)


def _close(descriptors: list[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def _damaged(file: Path, problem: str) -> DatasetFileError:
    return DatasetFileError(
        file,
        f"{problem}: the prepared files are damaged.",
        f"Delete the folder {file.parent} and prepare the dataset again.",
    )


def _plausible(notes: Any, sizes: IntArray) -> bool:
    """Whether every picture lies inside its file."""
    if notes.dtype != np.int64 or notes.ndim != 2 or notes.shape[1] != _COLUMNS:
        return False
    _, which, offset, size, _ = notes.T
    if np.any((which < 0) | (which >= len(sizes)) | (offset < 0) | (size < 0)):
        return False
    return bool(np.all(offset + size <= sizes[which]))


def _records(file: Path) -> Iterator[tuple[int, bytes]]:
    """Yields (position of the data, data); TensorFlow compares the checksums."""
    position = 0
    try:
        batches = tf.data.TFRecordDataset(str(file)).batch(_BATCH)
        for batch in batches.as_numpy_iterator():
            for data in batch:
                yield position + _BEFORE, data
                position += _BEFORE + len(data) + _AFTER
    except tf.errors.OpError as error:
        shown = " ".join(error.message.split("[[")[0].split())
        raise _damaged(
            file, f"a record after byte {position} is unreadable ({shown})"
        ) from error


@tf.function(reduce_retracing=True)
def decode_pictures(encoded: Any, image_shape: tuple[int, int, int]) -> tf.Tensor:
    """Decodes a vector of PNG files into uint8 images (n, height, width, channels)."""
    return tf.map_fn(
        lambda png: tf.ensure_shape(
            tf.io.decode_png(png, channels=image_shape[-1]), image_shape
        ),
        encoded,
        fn_output_signature=tf.TensorSpec(image_shape, tf.uint8),
    )
