"""InfoWGAN-GP and its quantized-latent version."""

import contextlib
import functools
from collections.abc import Mapping
from typing import Any, Literal, get_args

import keras
from keras import ops

from models.assembly import Assembly, head_size
from models.latent_model import LatentModel, sum_terms
from models.networks.choice import Networks
from models.networks.initializers import uniform_by_fan_in
from models.networks.parts import dense
from models.optimizers import make_adam
from models.reconstruction import Reconstruction, to_float_images
from models.updates_per_step import over_steps
from qlayers.backend import Tensor, num_replicas
from qlayers.checks import check_choice, check_count, check_number
from qlayers.random_state import SavesRandomState
from qlayers.regularizers.base import OptionalMean
from qlayers.schedules import Schedulable

_ENCODER_STEPS = 5
Side = Literal["generator", "encoder"]


@keras.saving.register_keras_serializable(package="models")
class InfoGan(SavesRandomState, LatentModel):
    """A Wasserstein GAN whose encoder recovers the latents of generated images.

    The critic is one linear unit on the encoder's last hidden layer, `features`. One
    training step cuts the batch into `encoder_steps` pieces, updates encoder and
    critic on each, then the generator (with the codebook) once. The reconstruction
    loss is measured by `evaluate` alone.

    Trained on real images only through the critic; `encode`, `decode` and
    `reconstruct` work as in an autoencoder. TensorFlow only.

    Args:
        networks: Makes encoder and generator.
        num_latents: Number of latents.
        quantizer: A `LatentQuantizer`, whose current values are the prior's support,
            or None: the prior is uniform on [0, 1].
        encoder_steps: Encoder and critic updates per generator update.
        value_weight: Weight of the Wasserstein terms.
        gradient_penalty_weight: Weight of the gradient penalty.
        latent_weight: Weight of the squared error of recovered latents.
        learning_rate: Learning rate of both optimizers, a number or a schedule over
            training steps.
        weight_decay: Decay of everything but biases and codebooks, a number or a
            schedule over training steps.
        l1_weight: Weight of the l1 norm of the same weights, in the loss of each side
            (appendix B.4).
        codebook_side: Whose steps train the codebook. `"encoder"` is a negative result
            of appendix B.4: "updating V with the encoder instead of with the decoder".
            The loss of the encoder then sees the samples of the prior and the images
            made of them as functions of the codebook.
        beta_1: Decay of Adam's first moment.
        beta_2: Decay of its second moment.
        clip_value: Elementwise gradient clipping; None: none.
        seed: Seed of the prior samples and interpolations.

    Reference:
        Hsu et al. 2023, Algorithm 3, tables 8, 10 and 11, appendix B.4; Chen et al.
        2016; Gulrajani et al. 2017.
    """

    # Unlike other models, this one always has both.
    decoder: keras.Model
    reconstruction: Reconstruction
    # Measured by `evaluate` only, and absent from the logs of training.
    _mean = OptionalMean
    reconstruction_tracker: OptionalMean
    _l1_names = ("encoder_l1_norm", "generator_l1_norm")

    def __init__(
        self,
        networks: Networks,
        num_latents: int,
        quantizer: Any = None,
        *,
        encoder_steps: int = _ENCODER_STEPS,
        value_weight: float = 1.0,
        gradient_penalty_weight: float = 10.0,
        latent_weight: float = 200.0,
        learning_rate: Any = 2e-4,
        weight_decay: Schedulable = 1e-3,
        l1_weight: float = 0.0,
        codebook_side: Side = "generator",
        beta_1: float = 0.0,
        beta_2: float = 0.9,
        clip_value: float | None = None,
        seed: int | None = None,
    ) -> None:
        parts, critic = _assemble_gan(networks, num_latents, quantizer)
        check_count("encoder_steps", encoder_steps)
        adam = functools.partial(
            make_adam, beta_1=beta_1, beta_2=beta_2, clip_value=clip_value
        )
        super().__init__(
            parts,
            reconstruction=Reconstruction("bce"),
            make_optimizer=functools.partial(
                adam,
                over_steps(learning_rate, encoder_steps),
                over_steps(weight_decay, encoder_steps),
            ),
            l1_weight=l1_weight,
            name="infowgan_gp" if quantizer is None else "ql_infowgan_gp",
        )
        self.codebook_side = check_choice(
            "codebook_side", codebook_side, get_args(Side)
        )
        self.critic = critic
        self.num_latents = num_latents
        self.encoder_steps = encoder_steps
        self._make_generator_optimizer = functools.partial(
            adam, learning_rate, weight_decay
        )
        self.value_weight = check_number("value_weight", value_weight)
        self.gradient_penalty_weight = check_number(
            "gradient_penalty_weight", gradient_penalty_weight
        )
        self.latent_weight = check_number("latent_weight", latent_weight)
        self.seed_generator = keras.random.SeedGenerator(seed)
        names = ("value", "gradient_penalty", "latent_error", "generator_loss")
        self.term_trackers = {name: OptionalMean(name=name) for name in names}

    def compile(
        self, optimizer: Any = None, generator_optimizer: Any = None, **kwargs: Any
    ) -> None:
        """As in Keras, with a second optimizer for the generator."""
        super().compile(optimizer, **kwargs)
        self._given_optimizers["generator_optimizer"] = generator_optimizer
        self.generator_optimizer = self._scaled(
            generator_optimizer or self._make_generator_optimizer()
        )
        self.optimizer.build(self.encoder_variables)
        self.generator_optimizer.build(self.generator_variables)

    @property
    def updates_per_step(self) -> int:
        """Updates of the first optimizer in a training step."""
        return self.encoder_steps

    @property
    def encoder_variables(self) -> list[Any]:
        """What encoder steps train: encoder and critic, usually without codebook."""
        codebook = {id(v) for v in self._codebook_of("generator")}
        variables = self.critic.trainable_variables + self.encoder.trainable_variables
        chosen = {id(v): v for v in variables if id(v) not in codebook}
        return list(chosen.values())

    @property
    def generator_variables(self) -> list[Any]:
        """What generator steps train: the decoder, and usually the codebook."""
        return self.decoder.trainable_variables + self._codebook_of("generator")

    def _codebook_of(self, side: Side) -> list[Any]:
        """The codebook's variables, if this side trains them."""
        if self.quantizer is None or self.codebook_side != side:
            return []
        return self.quantizer.trainable_variables

    def sample_prior(self, num_samples: Any) -> Tensor:
        """Latents from the prior; gradients reach the codebook."""
        shape = (num_samples, self.num_latents)
        uniform = keras.random.uniform(shape, dtype="float32", seed=self.seed_generator)
        if self.quantizer is None:
            return uniform
        num_values = self.quantizer.num_values
        codes = ops.cast(ops.floor(uniform * num_values), "int32")
        codes = ops.minimum(codes, num_values - 1)
        return ops.cast(self.quantizer.lookup(codes), "float32")

    def train_step(self, data: Any) -> dict[str, Tensor]:
        images, _, _ = keras.utils.unpack_x_y_sample_weight(data)
        images = to_float_images(images)
        self._count_only_terms(True)
        if images.shape[0] and images.shape[0] % self.encoder_steps:
            raise ValueError(
                f"A batch is cut into encoder_steps={self.encoder_steps} parts; "
                f"received {images.shape[0]} images."
            )
        for piece in ops.split(images, self.encoder_steps, axis=0):
            loss = self._encoder_step(piece)
        self._generator_step(ops.shape(piece)[0])
        self._move_schedules(1)
        self._loss_tracker.update_state(loss * num_replicas())
        return self.get_metrics_result()

    def test_step(self, data: Any) -> dict[str, Tensor]:
        images, _, _ = keras.utils.unpack_x_y_sample_weight(data)
        images = to_float_images(images)
        self._count_only_terms(False)
        value = self.reconstruction(images, self.graph(images, training=False))
        count = ops.shape(images)[0]
        self.reconstruction_tracker.update_state(value, count)
        self._loss_tracker.update_state(value, count)
        return self.get_metrics_result()

    def _count_only_terms(self, training: bool) -> None:
        """Training has the terms of the game, evaluation the reconstruction."""
        self.reconstruction_tracker.is_counted = not training
        for tracker in (*self.term_trackers.values(), *self.l1_trackers.values()):
            tracker.is_counted = training

    def _generate(self, z: Tensor) -> Tensor:
        return self.reconstruction.to_images(self.decoder(z, training=True))

    def _criticise(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Recovered latents and value; schedules count steps, not these passes."""
        recovered, value = self.critic(images, training=True)
        self._move_schedules(-1)
        return recovered, value

    def _move_schedules(self, change: int) -> None:
        step = getattr(self.quantizer, "training_step", None)
        if step is not None:
            step.assign(step + change)

    def _encoder_step(self, real: Tensor) -> Tensor:
        import tensorflow as tf

        with tf.GradientTape() as tape:
            # Only a codebook that is trained here needs a gradient of what is made.
            is_made = bool(self._codebook_of("encoder"))
            with contextlib.nullcontext() if is_made else tape.stop_recording():
                z = self.sample_prior(ops.shape(real)[0])
                fake = self._generate(z)
            recovered, fake_value = self._criticise(fake)
            terms = [self._latent_term(recovered, z), *self.critic.losses]
            _, real_value = self._criticise(real)
            value = ops.mean(fake_value) - ops.mean(real_value)
            penalty = self._gradient_penalty(real, fake)
            terms.append(self.value_weight * value)
            terms.append(self.gradient_penalty_weight * penalty)
            variables = self.encoder_variables
            terms += self._l1_terms("encoder_l1_norm", variables)
            loss = sum_terms(terms)
            scaled = self.optimizer.scale_loss(loss)
        self._track(value=value, gradient_penalty=penalty)
        gradients = tape.gradient(scaled, variables)
        self.optimizer.apply_gradients(zip(gradients, variables, strict=True))
        return loss

    def _generator_step(self, num_samples: Any) -> None:
        import tensorflow as tf

        with tf.GradientTape() as tape:
            z = self.sample_prior(num_samples)
            recovered, value = self._criticise(self._generate(z))
            terms = [self._latent_term(recovered, z), *self.critic.losses]
            terms.append(-self.value_weight * ops.mean(value))
            variables = self.generator_variables
            terms += self._l1_terms("generator_l1_norm", variables)
            loss = sum_terms(terms)
            scaled = self.generator_optimizer.scale_loss(loss)
        self._track(generator_loss=loss * num_replicas())
        gradients = tape.gradient(scaled, variables)
        self.generator_optimizer.apply_gradients(zip(gradients, variables, strict=True))

    def _latent_term(self, recovered: Tensor, z: Tensor) -> Tensor:
        error = ops.mean(ops.square(ops.cast(recovered, "float32") - z))
        self._track(latent_error=error)
        return self.latent_weight * error

    def _gradient_penalty(self, real: Tensor, fake: Tensor) -> Tensor:
        import tensorflow as tf

        shape = (ops.shape(real)[0], 1, 1, 1)
        share = keras.random.uniform(shape, dtype="float32", seed=self.seed_generator)
        mixed = share * real + (1.0 - share) * fake
        with tf.GradientTape() as tape:
            tape.watch(mixed)
            _, value = self._criticise(mixed)
            value = ops.sum(value)
        slope = ops.cast(tape.gradient(value, mixed), "float32")
        # The root has no derivative at 0.
        norm = ops.sqrt(ops.sum(ops.square(slope), axis=(1, 2, 3)) + 1e-12)
        return ops.mean(ops.square(norm - 1.0))

    def _track(self, **terms: Tensor) -> None:
        for name, value in terms.items():
            self.term_trackers[name].update_state(ops.stop_gradient(value))


def _assemble_gan(
    networks: Networks, num_latents: int, quantizer: Any
) -> tuple[Assembly, keras.Model]:
    """The parts, and the critic: images to (recovered latents, value)."""
    network = networks.encoder(head_size(quantizer, num_latents))
    images = keras.Input(networks.image_shape, name="images")
    features_of = keras.Model(
        network.inputs, [network.output, network.get_layer("features").output]
    )
    head, features = features_of(images)
    z = head if quantizer is None else quantizer(head)
    value = dense(features, 1, uniform_by_fan_in, name="value", dtype="float32")
    encoder = keras.Model(images, z, name="encoder")
    decoder = networks.decoder(num_latents)
    parts = Assembly(
        graph=keras.Model(images, decoder(z), name="graph"),
        encoder=encoder,
        decoder=decoder,
        quantizer=quantizer,
    )
    return parts, keras.Model(images, [z, value], name="critic")


def encoder_steps(hyperparameters: Mapping[str, Any]) -> int:
    """Number of pieces of a batch: one for each update of the encoder."""
    return int(hyperparameters.get("encoder_steps", _ENCODER_STEPS))
