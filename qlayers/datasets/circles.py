"""One circle at a random place."""

from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow_probability as tfp

from qlayers.datasets.continuous_dataset import ContinuousDataset
from qlayers.datasets.discs import paint_discs


class Circles(ContinuousDataset):
    """A white circle on black; its two coordinates are the factors.

    Args:
        image_size: Side of the images.
        interval: Coordinates are uniform in it; 0 and 1 are the borders of the image,
            x runs to the right and y upwards.
        diameter: Diameter of the circle in image widths.
        num_images: Number of images; `None` draws fresh ones without end.
        data_seed: Seed of a finite set.

    Reference:
        Friede et al. 2023, appendix 6, after Watters et al. 2019. The text of the
        former does not give the interval and the diameter; the defaults are the
        values known of the X-Y set of the latter.
    """

    def __init__(
        self,
        image_size: int = 64,
        interval: tuple[float, float] = (0.2, 0.8),
        diameter: float = 0.2,
        num_images: int | None = None,
        data_seed: int = 0,
    ) -> None:
        if not 0 <= interval[0] < interval[1] <= 1 or not 0 < diameter < 1:
            raise ValueError(
                "Expected 0 <= interval[0] < interval[1] <= 1 and 0 < diameter < 1, "
                f"received interval={interval}, diameter={diameter}."
            )
        tfd = tfp.distributions
        low, high = (np.full(2, edge, np.float32) for edge in interval)
        super().__init__(
            "circles",
            ("x_position", "y_position"),
            (image_size, image_size, 1),
            tfd.Independent(tfd.Uniform(low, high), 1),
            num_images,
            data_seed,
        )
        self._radius = diameter * image_size / 2

    def _render(
        self, sources: npt.NDArray[Any], generator: np.random.Generator
    ) -> npt.NDArray[np.uint8]:
        size = self.image_shape[0]
        # Rows run downwards, y upwards.
        centres = np.stack([sources[:, 0], 1 - sources[:, 1]], axis=1) * np.float32(
            size
        )
        images = np.zeros((len(sources), *self.image_shape), np.uint8)
        paint_discs(images, centres, self._radius, (255,))
        return images
