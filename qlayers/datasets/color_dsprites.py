"""dSprites in random colours."""

from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from qlayers.datasets.factor_dataset import NUISANCE
from qlayers.datasets.grid_dataset import GridDataset
from qlayers.datasets.samplers import random_generator
from qlayers.datasets.stream_guard import graph_callback


def _random_colours(n: int, generator: np.random.Generator) -> npt.NDArray[np.float32]:
    return generator.uniform(0.5, 1.0, (n, 1, 1, 3)).astype(np.float32)


class ColorDsprites(GridDataset):
    """Gives every sprite a colour that is drawn anew each time.

    Each channel is uniform in [0.5, 1] on a black background. The colour is noise, not
    a factor: the same sources have another colour under another seed or step.

    Args:
        sprites: The grey dataset.

    Reference:
        Locatello et al. 2019; Friede et al. 2023, appendix 6 (C-dSprites).
    """

    def __init__(self, sprites: GridDataset) -> None:
        height, width, _ = sprites.image_shape
        super().__init__(
            "color_dsprites", sprites.space, (height, width, 3), sprites.num_images
        )
        self._sprites = sprites

    def _render(
        self, sources: npt.NDArray[Any], generator: np.random.Generator
    ) -> npt.NDArray[np.uint8]:
        masks = self._sprites._render(sources, generator).astype(np.float32)
        colours = _random_colours(len(sources), generator)
        return np.rint(masks * colours).astype(np.uint8)

    def _render_tensor(self, sources: tf.Tensor, seed: int, step: tf.Tensor) -> Any:
        def draw(n: np.int32, number: np.int64) -> npt.NDArray[np.float32]:
            return _random_colours(
                int(n), random_generator(seed, int(number), NUISANCE)
            )

        count = tf.shape(sources)[0]
        colours = graph_callback(draw, [count, step], tf.float32)
        masks = self._sprites._render_tensor(sources, seed, step)
        coloured = tf.cast(masks, tf.float32) * tf.ensure_shape(
            colours, (None, 1, 1, 3)
        )
        return tf.cast(tf.round(coloured), tf.uint8)
