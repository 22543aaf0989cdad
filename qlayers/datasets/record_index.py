"""Random access to the pictures inside TFRecord files."""

import os
import struct
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from qlayers.datasets.factor_space import IntArray

_FILE_NAME = "picture_index.npz"


class RecordIndex:
    """Knows where in which file every picture lies.

    TFRecord files can only be read front to back. One pass over them notes the position
    of each encoded picture; afterwards any picture is one read away, so that streams
    need no shuffle buffer and start anywhere. The notes are kept beside the files and
    are made anew when those change.

    Args:
        files: TFRecord files of a prepared dataset.
        number_of: gives the image number of an example.

    Attributes:
        num_images: number of pictures.
        numbers: their image numbers, ascending.
    """

    def __init__(
        self,
        files: Sequence[str | Path],
        number_of: Callable[[tf.train.Example], int],
    ) -> None:
        self._files = [Path(file) for file in files]
        self._number_of = number_of
        signature = np.array([file.stat().st_size for file in self._files], np.int64)
        notes = self._load(signature)
        if notes is None:
            notes = self._scan()
            self._save(signature, notes)
        self.numbers, self._places = notes[:, 0].copy(), notes[:, 1:].copy()
        self.num_images = len(self.numbers)
        self._descriptors = [os.open(file, os.O_RDONLY) for file in self._files]

    def read(self, index: IntArray) -> list[bytes]:
        """Encoded pictures by position in `numbers`."""
        return [
            os.pread(self._descriptors[which], size, offset)
            for which, offset, size in self._places[index].tolist()
        ]

    def __del__(self) -> None:
        for descriptor in getattr(self, "_descriptors", ()):
            os.close(descriptor)

    def _scan(self) -> IntArray:
        rows = [
            row
            for which, file in enumerate(self._files)
            for row in self._scan_file(which, file)
        ]
        notes = np.array(rows, np.int64).reshape(-1, 4)
        return notes[np.argsort(notes[:, 0])]

    def _scan_file(self, which: int, file: Path) -> Iterator[tuple[int, int, int, int]]:
        for start, record in _records(file):
            example = tf.train.Example.FromString(record)
            picture = example.features.feature["image"].bytes_list.value[0]
            offset = start + record.index(picture)
            yield self._number_of(example), which, offset, len(picture)

    def _path(self) -> Path:
        return self._files[0].parent / _FILE_NAME

    def _load(self, signature: IntArray) -> IntArray | None:
        try:
            with np.load(self._path(), allow_pickle=False) as stored:
                fresh = np.array_equal(stored["signature"], signature)
                return stored["notes"] if fresh else None
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
            return None

    def _save(self, signature: IntArray, notes: IntArray) -> None:
        """Writes to a temporary file first, so that no half-written notes remain."""
        folder = self._path().parent
        try:
            with tempfile.NamedTemporaryFile(dir=folder, delete=False) as stream:
                np.savez(stream, signature=signature, notes=notes)
            os.replace(stream.name, self._path())
        except OSError:
            # A read-only folder: the next process scans again.
            return


def _records(file: Path) -> Iterator[tuple[int, bytes]]:
    """Yields (position of the data, data); the framing is length, crc, data, crc."""
    position = 0
    with file.open("rb") as stream:
        while header := stream.read(12):
            (size,) = struct.unpack_from("<Q", header)
            data = stream.read(size)
            if len(data) < size or len(stream.read(4)) < 4:
                raise ValueError(
                    f"{file} ends in the middle of a record. Delete the folder "
                    f"{file.parent} and prepare the dataset again."
                )
            yield position + 12, data
            position += 12 + size + 4


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
