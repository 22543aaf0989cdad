"""A model that sizes its latents while it is trained."""

from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np

from models.assembly import Assembly
from models.latent_model import LatentModel
from qlayers.callbacks import SizeAdaptation


@keras.saving.register_keras_serializable(package="models")
class SelfSizingModel(LatentModel):
    """An autoencoder whose quantizer loses values and latents that are not needed.

    A loop of its own calls `make_adaptation(images)` once and the function that it
    returns every `adapt_every` steps. In `fit`, pass `model.size_adaptation(images)`
    as a callback. All state is in the quantizer's weights, so that a run resumes.

    Args:
        assembly: Parts with a `SelfSizingQuantizer`.
        adaptation: Arguments of `qlayers.callbacks.SizeAdaptation`.
        adaptation_size: Number of images that it looks at.
        **options: Arguments of `LatentModel`.

    Example:

    ```python
    model = models.build("self_sizing", (32, 32, 3), num_latents=12)
    model.compile()
    model.fit(stream, steps_per_epoch=4_000, callbacks=[model.size_adaptation(images)])
    ```
    """

    # It always has all three.
    quantizer: Any
    decoder: Any
    reconstruction: Any

    def __init__(
        self,
        assembly: Assembly,
        *,
        adaptation: Mapping[str, Any],
        adaptation_size: int,
        **options: Any,
    ) -> None:
        super().__init__(assembly, **options)
        self.adaptation_size = adaptation_size
        self._adaptation_options = dict(adaptation)

    @property
    def adapt_every(self) -> int:
        """Training steps between two looks."""
        return self._adaptation_options["every_n_steps"]

    def size_adaptation(self, images: np.ndarray) -> SizeAdaptation:
        """The callback that adapts this model.

        Args:
            images: Images in [0, 1] to look at, some hundreds.
        """
        return SizeAdaptation(
            self.quantizer,
            images,
            self.quantizer_inputs,
            self._decoded,
            **self._adaptation_options,
        )

    def make_adaptation(self, images: np.ndarray) -> Callable[[int], None]:
        """A function of the step, for loops other than `fit`.

        Args:
            images: Images in [0, 1] to look at, some hundreds.
        """
        return self.size_adaptation(images).after_step

    def _decoded(self, latents: np.ndarray) -> Any:
        # Compiled once, where calling the decoder would run it operation by operation.
        return self.reconstruction.to_images(self.decoder.predict_on_batch(latents))
