"""The factor view of a dataset that TensorFlow Datasets has prepared."""

from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from qlayers.datasets.factor_space import FactorSpace, IntArray
from qlayers.datasets.grid_dataset import GridDataset
from qlayers.datasets.picture_cache import PictureCache, cache_for
from qlayers.datasets.readers import DatasetFileError, naming_damage
from qlayers.datasets.record_index import RecordIndex, decode_pictures
from qlayers.datasets.resize import resize_tensor
from qlayers.datasets.stream_guard import graph_callback

_CHUNK = 256


class PreparedDataset(GridDataset):
    """Images of a factor grid, read from TFRecord files one by one.

    A picture is read and decoded when it is wanted. If all of them fit into a quarter
    of a gigabyte at the size that is delivered, each is decoded only once.

    Args:
        name: The name `load` knows it by.
        space: The factors.
        records: Positions of the pictures.
        stored_shape: Shape of the stored images.
        image_size: Side of the images to deliver; resized by antialiased bicubic
            interpolation when it differs from what is stored.
        allow_partial: Accepts records that hold only the first part of the grid.
        scale: What the stored pixels are multiplied by.
    """

    def __init__(
        self,
        name: str,
        space: FactorSpace,
        records: RecordIndex,
        stored_shape: tuple[int, int, int],
        image_size: int = 64,
        allow_partial: bool = False,
        scale: int = 1,
    ) -> None:
        if image_size < 4:
            raise ValueError(f"`image_size` must be at least 4, received {image_size}.")
        count, whole = records.num_images, space.num_combinations
        complete = np.array_equal(records.numbers, np.arange(count))
        if not complete or count > whole or (count < whole and not allow_partial):
            raise DatasetFileError(
                records.files[0].parent,
                f"the prepared files of {name} hold {count} images, but the grid has "
                f"{whole}, and a part must begin with the first image and have no "
                "gaps.",
                "Prepare the dataset from the published file; for the first part of a "
                "grid pass allow_partial=True.",
            )
        shape = (image_size, image_size, stored_shape[-1])
        super().__init__(name, space, shape, count)
        self._records = records
        self._stored_shape = stored_shape
        self._scale = scale
        self._cache = cache_for(count, shape)

    def _stored_first(self, n: int) -> IntArray:
        return self.space.sources_of(self._records.stored_order()[:n])

    def _images_at(self, index: IntArray) -> npt.NDArray[np.uint8]:
        if self._cache is None:
            return self._decode_rows(index)
        missing = self._cache.missing(index)
        self._cache.store(missing, self._decode_rows(missing))
        return self._cache.pictures(index)

    def _decode_rows(self, rows: IntArray) -> npt.NDArray[np.uint8]:
        parts = [
            self._decode_chunk(rows[first : first + _CHUNK])
            for first in range(0, len(rows), _CHUNK)
        ]
        empty = np.empty((0, *self.image_shape), np.uint8)
        return np.concatenate([empty, *parts])

    def _decode_chunk(self, rows: IntArray) -> npt.NDArray[np.uint8]:
        encoded = self._records.read(rows)
        with naming_damage(self._records.file_of(rows), "a picture cannot be decoded"):
            return self._decode(encoded).numpy()

    def _render_tensor(self, sources: tf.Tensor, seed: int, step: tf.Tensor) -> Any:
        index = graph_callback(self.space.index_of, [sources], tf.int64)
        if self._cache is None:
            return self._decode(self._read_tensor(index))
        return self._cached_tensor(self._cache, index)

    def _cached_tensor(self, cache: PictureCache, index: tf.Tensor) -> tf.Tensor:
        """Pictures in a graph, of which only those not held yet are decoded.

        What is held decides how much is decoded, never what comes out: to the stream
        both callbacks together are one pure function.
        """
        missing = graph_callback(cache.missing, [index], tf.int64)
        decoded = self._decode(self._read_tensor(missing))

        def complete(
            index: IntArray, missing: IntArray, decoded: npt.NDArray[np.uint8]
        ) -> npt.NDArray[np.uint8]:
            cache.store(missing, decoded)
            return cache.pictures(index)

        return graph_callback(complete, [index, missing, decoded], tf.uint8)

    def _read_tensor(self, index: tf.Tensor) -> tf.Tensor:
        """Encoded pictures by number, in a graph."""

        def read(index: IntArray) -> npt.NDArray[Any]:
            return np.array(self._records.read(index), dtype=object)

        return tf.ensure_shape(graph_callback(read, [index], tf.string), (None,))

    def _decode(self, encoded: Any) -> tf.Tensor:
        images = decode_pictures(tf.convert_to_tensor(encoded), self._stored_shape)
        if self._scale != 1:
            images *= tf.constant(self._scale, images.dtype)
        if self._stored_shape == self.image_shape:
            return images
        return resize_tensor(images, self.image_shape[0])
