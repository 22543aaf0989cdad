"""Models with a total-correlation discriminator and two optimizers."""

from collections.abc import Callable, Mapping
from typing import Any

import keras
from keras import ops

from models.assembly import Assembly
from models.latent_model import LatentModel, sum_terms
from models.reconstruction import Reconstruction, to_float_images
from models.supervision import Supervision
from qlayers.backend import Tensor, num_replicas
from qlayers.functional import permute_latents
from qlayers.random_state import SavesRandomState
from qlayers.regularizers.base import OptionalMean


@keras.saving.register_keras_serializable(package="models")
class FactorModel(SavesRandomState, LatentModel):
    """Autoencoder and discriminator, each with its own optimizer.

    A step first updates the autoencoder, whose loss holds the total correlation that
    the discriminator estimates, then the discriminator, on latents that carry no
    gradient. With `two_batches` the given batch is cut in halves: the autoencoder and
    the discriminator's joint samples see the first; the second is encoded by the
    updated encoder and permuted. Otherwise the first one's latents are permuted.

    TensorFlow only; with other backends, a `TotalCorrelationDiscriminator` in a plain
    model trains with one optimizer.

    Args:
        assembly: Parts with a discriminator that does not train itself.
        reconstruction: What the decoder is trained on.
        make_optimizer: Makes the autoencoder's optimizer.
        make_discriminator_optimizer: Makes the discriminator's.
        two_batches: Whether a batch is two halves.
        supervision: A loss on labelled images.
        name: Name of the method.

    Reference:
        Kim and Mnih 2018, Algorithm 2; Baykal et al., Algorithm 1; Friede et al. 2023,
        appendix 3 (one batch).
    """

    def __init__(
        self,
        assembly: Assembly,
        *,
        reconstruction: Reconstruction,
        make_optimizer: Callable[[], Any],
        make_discriminator_optimizer: Callable[[], Any],
        two_batches: bool,
        supervision: Supervision | None = None,
        name: str | None = None,
    ) -> None:
        if assembly.discriminator is None or assembly.discriminator.trains_itself:
            raise ValueError(
                "FactorModel needs a TotalCorrelationDiscriminator with "
                "`trains_itself=False` among the regularizers."
            )
        super().__init__(
            assembly,
            reconstruction=reconstruction,
            make_optimizer=make_optimizer,
            supervision=supervision,
            name=name,
        )
        self.two_batches = bool(two_batches)
        self._make_discriminator_optimizer = make_discriminator_optimizer
        self.discriminator_tracker = OptionalMean(name="discriminator_loss")
        self.seed_generator = keras.random.SeedGenerator(assembly.discriminator.seed)
        # One pass gives the outputs and what the discriminator reads.
        self.watched = keras.Model(
            assembly.graph.input,
            [assembly.graph.output, assembly.discriminator.input],
            name="watched",
        )
        self.reader = keras.Model(
            assembly.graph.input, assembly.discriminator.input, name="reader"
        )

    def compile(
        self, optimizer: Any = None, discriminator_optimizer: Any = None, **kwargs: Any
    ) -> None:
        """As in Keras, with a second optimizer for the discriminator."""
        super().compile(optimizer, **kwargs)
        self._given_optimizers["discriminator_optimizer"] = discriminator_optimizer
        self.discriminator_optimizer = self._scaled(
            discriminator_optimizer or self._make_discriminator_optimizer()
        )
        self.optimizer.build(self.autoencoder_variables)
        self.discriminator_optimizer.build(self.discriminator.discriminator_variables)

    @property
    def autoencoder_variables(self) -> list[Any]:
        """What the first optimizer trains: all but the discriminator."""
        excluded = {id(v) for v in self.discriminator.discriminator_variables}
        return [v for v in self.trainable_variables if id(v) not in excluded]

    def train_step(self, data: Any) -> dict[str, Tensor]:
        images, labelled, _ = keras.utils.unpack_x_y_sample_weight(data)
        images = to_float_images(images)
        self.discriminator_tracker.is_counted = True
        second = None
        if self.two_batches:
            # The image in the middle of an odd batch is in both.
            count = ops.shape(images)[0]
            half = (count + 1) // 2
            images, second = images[:half], images[count - half :]
        read = self._autoencoder_step(images, labelled)
        others = read if second is None else self._read_again(second)
        self._discriminator_step(read, others)
        return self.get_metrics_result()

    def test_step(self, data: Any) -> dict[str, Tensor]:
        self.discriminator_tracker.is_counted = False  # it is not asked
        return super().test_step(data)

    def _read_again(self, images: Tensor) -> Tensor:
        """What the discriminator reads of a second batch, within the same step."""
        step = getattr(self.quantizer, "training_step", None)
        if step is not None:
            # Schedules count steps, not passes: this one has the first one's value.
            step.assign(step - 1)
        trackers = [] if self.quantizer is None else self.quantizer.metrics
        # What is shown of a term is what the loss holds. A sum is a copy; the tensor
        # of a variable would follow it.
        shown = [(v, v + 0) for tracker in trackers for v in tracker.variables]
        read = self.reader(images, training=True)
        for variable, value in shown:
            variable.assign(value)
        return read

    def _autoencoder_step(self, images: Tensor, labelled: Any) -> Tensor:
        import tensorflow as tf

        with tf.GradientTape() as tape:
            outputs, read = self.watched(images, training=True)
            loss = self.compute_loss(images, labelled, outputs)
            scaled = self.optimizer.scale_loss(loss)
        variables = self.autoencoder_variables
        gradients = tape.gradient(scaled, variables)
        self.optimizer.apply_gradients(zip(gradients, variables, strict=True))
        self._loss_tracker.update_state(loss * num_replicas(), ops.shape(images)[0])
        return read

    def _discriminator_step(self, joint: Tensor, others: Tensor) -> None:
        import tensorflow as tf

        joint = ops.stop_gradient(ops.cast(joint, "float32"))
        others = ops.stop_gradient(ops.cast(others, "float32"))
        permuted = permute_latents(others, self.seed_generator)
        with tf.GradientTape() as tape:
            value = self.discriminator.discriminator_loss(joint, permuted)
            loss = self.discriminator_optimizer.scale_loss(sum_terms([value]))
        variables = self.discriminator.discriminator_variables
        gradients = tape.gradient(loss, variables)
        self.discriminator_optimizer.apply_gradients(
            zip(gradients, variables, strict=True)
        )
        self.discriminator_tracker.update_state(value, ops.shape(joint)[0])


def halves(hyperparameters: Mapping[str, Any]) -> int:
    """Number of pieces of a batch: two if the discriminator has a batch of its own."""
    return 2 if hyperparameters.get("two_batches") else 1
