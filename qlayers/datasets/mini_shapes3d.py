"""A small stand-in for Shapes3D that needs no file."""

import colorsys
import functools
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from qlayers.datasets.geometry_buffers import geometry_buffers
from qlayers.datasets.grid_dataset import GridDataset
from qlayers.datasets.spaces import SHAPES3D, SHAPES3D_VALUES

_NUM_HUES = 10
_SKY = (153, 226, 249)

# Brightness is stored in multiples of 1/4096. Times a colour of 8 bits and summed over
# four regions that stays below 2^24, so float32 products are exact and every backend
# rounds to the same pixel.
_UNIT = 4096

_CHUNK = 256

_SUPERSAMPLING = 3


@functools.lru_cache(maxsize=4)
def _fixed_point_buffers(image_size: int) -> npt.NDArray[np.uint16]:
    """Geometry buffers (480, pixels, 4), cast once per process and image size."""
    light = geometry_buffers(
        image_size,
        scales=SHAPES3D_VALUES[3],
        azimuths=np.deg2rad(SHAPES3D_VALUES[5]),
        supersampling=_SUPERSAMPLING,
    )
    return np.rint(light * _UNIT).astype(np.uint16).reshape(-1, image_size**2, 4)


def _palette() -> npt.NDArray[np.float32]:
    """The ten hues of Shapes3D as RGB bytes (10, 3)."""
    colours = [colorsys.hsv_to_rgb(hue / _NUM_HUES, 1, 1) for hue in range(_NUM_HUES)]
    return np.rint(np.array(colours) * 255).astype(np.float32)


class MiniShapes3D(GridDataset):
    """Renders the factor space of Shapes3D on the fly.

    This is **not** the DeepMind dataset. It has the same six factors with the same
    values (10 floor, wall and object hues, 8 scales, 4 shapes and 15 orientations,
    480,000 images), the same order and a camera, room and light that were fitted to
    published frames, but its pixels are computed here. Scores on it compare methods
    with each other, not with published tables.

    The image of a combination is made of one of 480 geometry buffers (scale, shape and
    orientation), which say how brightly floor, wall and object shine in each pixel,
    and three palette colours:

        pixel = min(255, floor * F + wall * W + object * O + sky * S).

    Args:
        image_size: Side of the images; the buffers are ray-cast for it with nine rays
            per pixel and kept for the life of the process.

    Example:
        >>> dataset = MiniShapes3D()
        >>> dataset.images_of([[0, 5, 2, 7, 1, 7]]).shape
        (1, 64, 64, 3)
    """

    def __init__(self, image_size: int = 64) -> None:
        if image_size < 4:
            raise ValueError(f"`image_size` must be at least 4, received {image_size}.")
        super().__init__("mini_shapes3d", SHAPES3D, (image_size, image_size, 3))
        self._buffers = _fixed_point_buffers(image_size)
        self._palette = _palette()

    def _render(
        self, sources: npt.NDArray[Any], generator: np.random.Generator
    ) -> npt.NDArray[np.uint8]:
        images = np.empty((len(sources), *self.image_shape), np.uint8)
        for first in range(0, len(sources), _CHUNK):
            chunk = slice(first, first + _CHUNK)
            images[chunk] = self._compose(sources[chunk])
        return images

    def _compose(self, sources: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
        geometry = np.ravel_multi_index(tuple(sources[:, 3:].T), self.space.sizes[3:])
        sky = np.broadcast_to(np.array(_SKY, np.float32), (len(sources), 1, 3))
        colours = np.concatenate([self._palette[sources[:, :3]], sky], axis=1)
        light = self._buffers[geometry].astype(np.float32) @ colours
        pixels = np.minimum(np.floor(light / _UNIT + 0.5), 255)
        return pixels.astype(np.uint8).reshape(-1, *self.image_shape)

    @functools.cached_property
    def _buffers_tensor(self) -> tf.Tensor:
        with tf.init_scope():
            return tf.constant(self._buffers)

    def _render_tensor(self, sources: tf.Tensor, seed: int, step: tf.Tensor) -> Any:
        return self.images_of_tensor(sources)

    def images_of_tensor(self, sources: tf.Tensor) -> tf.Tensor:
        """Renders inside a `tf.function` or a `tf.data` pipeline.

        Args:
            sources: Integer tensor (n, 6). Values out of range are an error of
                `tf.gather` on the CPU.

        Returns:
            uint8 images (n, height, width, 3), equal to `images_of` bit for bit.
        """
        _, num_shapes, num_azimuths = self.space.sizes[3:]
        geometry = (
            sources[:, 3] * num_shapes + sources[:, 4]
        ) * num_azimuths + sources[:, 5]
        hues = tf.gather(tf.constant(self._palette), sources[:, :3])
        sky = tf.broadcast_to(
            tf.constant(_SKY, tf.float32), (tf.shape(sources)[0], 1, 3)
        )
        buffers = tf.cast(tf.gather(self._buffers_tensor, geometry), tf.float32)
        light = tf.matmul(buffers, tf.concat([hues, sky], axis=1))
        pixels = tf.minimum(tf.floor(light / _UNIT + 0.5), 255.0)
        return tf.reshape(tf.cast(pixels, tf.uint8), (-1, *self.image_shape))
