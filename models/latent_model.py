"""The model that every method returns."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops

from models.assembly import Assembly
from models.optimizers import is_decayed
from models.reconstruction import Reconstruction, to_float_images, to_unit_images
from models.supervision import Supervision
from qlayers.backend import Tensor, num_replicas
from qlayers.checks import check_number
from qlayers.quantizers.base import BaseQuantizer

_BATCH = 256


@keras.saving.register_keras_serializable(package="models")
class LatentModel(keras.Model):
    """An encoder, a latent and a decoder, trained together by `fit`.

    `fit` takes images alone, in [0, 1] or uint8; the target is the input. (Supervised
    models take `(images, (labelled_images, labels))`.) The total
    loss is the reconstruction loss plus what the layers between encoder and decoder
    add; each term is tracked under its own name.

    Attributes:
        encoder: Functional model, images to latents (quantized ones, where a quantizer
            is part of the method).
        decoder: Functional model, latents to the parameters of the image; None for
            methods that only encode.
        quantizer: The layer that quantizes or samples the latents, or None.
        reconstruction: What the decoder is trained on, or None.
        supervision: A loss on labelled images, or None.
        l1_weight: Weight of the l1 norm of the weights, biases and codebooks aside.
        build_arguments: Name and arguments that `models.build` makes the model from.

    Example:

    ```python
    model = models.build("qlae", image_shape=(64, 64, 3), num_latents=12)
    model.compile()
    model.fit(stream, steps_per_epoch=1000)
    latents = model.encode(images)
    ```
    """

    # Norms of weights that a loss may hold; each is shown under its name.
    _l1_names: tuple[str, ...] = ("l1_norm",)
    # How the reconstruction loss and the norms are tracked.
    _mean: type[keras.metrics.Mean] = keras.metrics.Mean

    def __init__(
        self,
        assembly: Assembly,
        *,
        reconstruction: Reconstruction | None,
        make_optimizer: Callable[[], keras.optimizers.Optimizer],
        supervision: Supervision | None = None,
        l1_weight: float = 0.0,
        name: str | None = None,
    ) -> None:
        super().__init__(name=name)
        self.graph = assembly.graph
        self.encoder = assembly.encoder
        self.decoder = assembly.decoder
        self.quantizer = assembly.quantizer
        self.discriminator = assembly.discriminator
        self.reconstruction = reconstruction
        self.build_arguments: dict[str, Any] | None = None
        self._make_optimizer = make_optimizer
        if reconstruction is not None:
            self.reconstruction_tracker = self._mean(name="reconstruction")
        self.supervision = supervision
        if supervision is not None:
            self.supervision_tracker = keras.metrics.Mean(name="supervision")
        self.supervision_scale: Any = 1.0
        if supervision is not None and supervision.learns_scale:
            self.supervision_scale = self.add_weight(
                name="supervision_scale", shape=(), initializer="ones"
            )
        self.l1_weight = check_number("l1_weight", l1_weight)
        shown = self._l1_names if l1_weight else ()
        self.l1_trackers = {name: self._mean(name=name) for name in shown}
        self.built = True

    def compile(self, optimizer: Any = None, **kwargs: Any) -> None:
        """As in Keras; without an optimizer, the method's own is used."""
        if kwargs.get("loss") is not None:
            raise ValueError(
                "The loss is part of the method: choose `reconstruction` when building "
                f"the model. Received: loss={kwargs['loss']!r}."
            )
        # Convolutions under XLA are slower than without on a CPU.
        kwargs.setdefault("jit_compile", _default_jit())
        self._given_optimizers = {"optimizer": optimizer}
        super().compile(optimizer=optimizer or self._make_optimizer(), **kwargs)

    def _scaled(
        self, optimizer: keras.optimizers.Optimizer
    ) -> keras.optimizers.Optimizer:
        """A second optimizer as Keras takes the first: float16 needs scaled losses."""
        kind = keras.optimizers.LossScaleOptimizer
        if self.dtype_policy.name != "mixed_float16" or isinstance(optimizer, kind):
            return optimizer
        return kind(optimizer, name=f"scaled_{optimizer.name}")

    def get_compile_config(self) -> dict[str, Any]:
        """Optimizers that were given to `compile`; the method knows its own."""
        given = getattr(self, "_given_optimizers", {})
        return {
            name: optimizer and keras.saving.serialize_keras_object(optimizer)
            for name, optimizer in given.items()
        }

    def compile_from_config(self, config: dict[str, Any]) -> None:
        optimizers = {
            name: serialized and keras.saving.deserialize_keras_object(serialized)
            for name, serialized in config.items()
        }
        self.compile(**optimizers)
        # The state of the optimizer is loaded next and needs a place.
        if not self.optimizer.built:
            self.optimizer.build(self.trainable_variables)

    def call(self, images: Tensor, training: bool | None = None) -> Tensor:
        return self.graph(to_float_images(images), training=training)

    def compute_loss(
        self,
        x: Any = None,
        y: Any = None,
        y_pred: Any = None,
        sample_weight: Any = None,
        training: bool = True,
    ) -> Tensor:
        """Reconstruction plus the layers' terms, over the replicas' share."""
        terms = list(self.losses)
        if self.reconstruction is not None:
            value = self.reconstruction(to_float_images(x), y_pred)
            # As often as there are images, like Keras's loss.
            self.reconstruction_tracker.update_state(value, ops.shape(x)[0])
            terms.insert(0, value)
        if self.supervision is not None:
            terms.append(self._supervised_term(self.supervision, y))
        terms += self._l1_terms("l1_norm", self.trainable_variables)
        return sum_terms(terms)

    def _l1_terms(self, name: str, variables: list[Any]) -> list[Tensor]:
        """The weighted l1 norm of what weight decay would shrink, or nothing."""
        if not self.l1_weight:
            return []
        norm = sum(ops.sum(ops.abs(v)) for v in variables if is_decayed(v))
        self.l1_trackers[name].update_state(norm)
        return [self.l1_weight * norm]

    def _supervised_term(self, supervision: Supervision, labelled: Any) -> Tensor:
        if labelled is None or len(labelled) != 2:
            raise ValueError(
                f"{self.name} is supervised: fit it on "
                "`(images, (labelled_images, labels))`."
            )
        images, labels = labelled
        features = self.quantizer_inputs(to_float_images(images), training=True)
        value = supervision(
            self._own_quantizer(), features, labels, self.supervision_scale
        )
        self.supervision_tracker.update_state(value)
        return supervision.weight * value

    def encode(self, images: Any, batch_size: int = _BATCH) -> np.ndarray:
        """Latents of images as the metrics want them, without noise."""
        return self._in_batches(self.encoder, to_unit_images(images), batch_size)

    def codes(self, images: Any, batch_size: int = _BATCH) -> np.ndarray:
        """Integer codes of images; for models with a quantizer."""
        quantizer = self._own_quantizer()

        def codes_of(batch: Tensor) -> Tensor:
            return quantizer.codes(self.quantizer_inputs(batch))

        return self._in_batches(codes_of, to_unit_images(images), batch_size)

    def decode(self, latents: Any, batch_size: int = _BATCH) -> np.ndarray:
        """Images in [0, 1] of latents."""
        decoder, reconstruction = self.decoder, self.reconstruction
        if decoder is None or reconstruction is None:
            raise ValueError(f"{self.name} has no decoder.")

        def image_of(batch: Tensor) -> Tensor:
            return reconstruction.to_images(decoder(batch, training=False))

        return self._in_batches(image_of, np.asarray(latents, "float32"), batch_size)

    def reconstruct(self, images: Any, batch_size: int = _BATCH) -> np.ndarray:
        """Images encoded and decoded, without noise."""
        return self.decode(self.encode(images, batch_size), batch_size)

    @property
    def quantizer_inputs(self) -> keras.Model:
        """The part of the encoder before the quantizer, as a functional model."""
        if "_head" not in self.__dict__:
            head = keras.Model(self.encoder.input, self._own_quantizer().input)
            # Not an attribute that Keras tracks: it would save the encoder twice.
            object.__setattr__(self, "_head", head)
        return self.__dict__["_head"]

    def _own_quantizer(self) -> BaseQuantizer:
        if self.quantizer is None:
            raise ValueError(f"{self.name} has no quantizer, hence no codes.")
        return self.quantizer

    def _in_batches(
        self, function: Callable[[Tensor], Tensor], array: np.ndarray, batch_size: int
    ) -> np.ndarray:
        pieces = []
        for start in range(0, len(array), batch_size):
            batch = ops.convert_to_tensor(array[start : start + batch_size])
            pieces.append(ops.convert_to_numpy(function(batch)))
        return np.concatenate(pieces)

    def get_config(self) -> dict[str, Any]:
        if self.build_arguments is None:
            raise ValueError(
                "Only models made by `models.build` can be saved whole. Save "
                "`model.encoder` and `model.decoder` instead."
            )
        return dict(self.build_arguments)

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        from models.build import build

        return build(**config)


def sum_terms(terms: list[Tensor]) -> Tensor:
    """Sum of losses as one replica contributes them to the global batch's mean."""
    if not terms:
        raise ValueError(
            "There is nothing to train on: no reconstruction and no loss term."
        )
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total / num_replicas()


def _default_jit() -> bool | str:
    """XLA on a GPU, none on a CPU; other backends decide for themselves."""
    if keras.backend.backend() != "tensorflow":
        return "auto"
    import tensorflow as tf

    return bool(tf.config.list_physical_devices("GPU"))
