"""Total correlation by a discriminator."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import keras
from keras import ops

from qlayers.backend import Tensor, read_variable
from qlayers.checks import check_count, check_number
from qlayers.functional.permute_latents import permute_latents
from qlayers.masks import share_of_weights, weighted_mean
from qlayers.regularizers.base import LatentRegularizer
from qlayers.regularizers.replicas import (
    gather_samples,
    part_of_replica,
    share_of_samples,
)
from qlayers.schedules import Schedulable


@keras.saving.register_keras_serializable(package="qlayers")
class TotalCorrelationDiscriminator(LatentRegularizer):
    """Penalises dependence among latents, as a discriminator sees it.

    A multilayer perceptron `D` with two logits learns to tell latents from latents
    permuted over the batch, each on its own. Where it has learned that, the logits'
    difference is the log-ratio of the joint density to the product of the marginals.
    Added are

        weight * mean_b [D_0(z_b) - D_1(z_b)],
        mean_b [CE(D(z_b), 0) + CE(D(permuted_b), 1)] / 2,

    of which the first moves only the encoder and the second only the discriminator,
    so that a plain `fit` with one optimizer trains both, and a train step with two
    optimizers gives `discriminator_variables` to one and the rest to the other. The
    latents are returned as they are. Tracked as `<name>_total_correlation` and
    `<name>_discriminator_loss`.

    Args:
        weight: Weight of the total correlation, a number or a schedule; 0 switches
            everything off, and no discriminator is made.
        hidden_units: Widths of the hidden layers. FactorQVAE's public code has five of
            1000.
        negative_slope: Slope of the leaky ReLU below 0. The public code of Friede et
            al. has 0.01.
        one_hot: Whether a latent is a vector, such as a relaxed one-hot code; inputs
            then have the shape `(..., n, num_values)` and vectors move as a whole.
        trains_itself: Whether the discriminator's loss is added. Switch it off to take
            that loss, by `discriminator_loss`, from another batch.
        kernel_initializer: Initializer of the discriminator's kernels; None is Glorot's
            uniform one. Every layer draws anew.
        **kwargs: `seed` and `at_inference` of the regularizers and those of
            `keras.layers.Layer`.

    Input and output shape: `(..., n)`, or `(..., n, num_values)` with `one_hot`.

    Example:

    ```python
    z = qlayers.TotalCorrelationDiscriminator(weight=10.0)(z)

    discriminator = qlayers.TotalCorrelationDiscriminator(weight=1e-4, one_hot=True)
    z, assignments = qlayers.GumbelQuantizer(64)(h, return_assignments=True)
    z = qlayers.blocks.FirstInput()([z, discriminator(assignments)])
    ```

    Reference:
        Kim and Mnih 2018, Disentangling by Factorising; Baykal et al., equations 5 to
        8 and Algorithm 1; Friede et al. 2023, appendix 3.
    """

    config_names = ("negative_slope", "one_hot", "trains_itself")

    def __init__(
        self,
        weight: Schedulable,
        hidden_units: Sequence[int] = (1000,) * 6,
        negative_slope: float = 0.2,
        one_hot: bool = False,
        trains_itself: bool = True,
        kernel_initializer: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.weight = self.schedulable("weight", weight)
        self.hidden_units = [check_count("hidden_units", u) for u in hidden_units]
        self.negative_slope = check_number("negative_slope", negative_slope)
        self.one_hot = bool(one_hot)
        self.sample_axes = 2 if self.one_hot else 1
        self.reads = ("assignments",) if self.one_hot else ("latents",)
        self.trains_itself = bool(trains_itself)
        self.kernel_initializer = kernel_initializer
        self.kernels: list[Any] = []
        self.biases: list[Any] = []
        if not self.is_off("weight"):
            self.track_terms("total_correlation")
            if self.trains_itself:
                self.track_terms("discriminator_loss")

    def build(self, input_shape: Any) -> None:
        super().build(input_shape)
        size = input_shape[-1]
        if self.one_hot:
            if len(input_shape) < 3 or input_shape[-2] is None:
                raise ValueError(
                    "TotalCorrelationDiscriminator with `one_hot=True` needs an input "
                    "of shape (..., n, num_values) with a known n. Received an input "
                    f"of shape {tuple(input_shape)}."
                )
            size *= input_shape[-2]
        if not self.is_off("weight"):
            self._add_network([size, *self.hidden_units, 2])

    def _add_network(self, widths: list[int]) -> None:
        for depth, (before, after) in enumerate(itertools.pairwise(widths)):
            self.kernels.append(
                self.add_weight(
                    name=f"kernel_{depth}",
                    shape=(before, after),
                    dtype="float32",
                    autocast=False,
                    initializer=self._initializer(depth),
                )
            )
            self.biases.append(
                self.add_weight(
                    name=f"bias_{depth}",
                    shape=(after,),
                    dtype="float32",
                    autocast=False,
                    initializer="zeros",
                )
            )

    def _initializer(self, depth: int) -> Any:
        seed = None if self.seed is None else self.seed + depth
        if self.kernel_initializer is None:
            return keras.initializers.GlorotUniform(seed=seed)
        given = keras.initializers.get(self.kernel_initializer)
        config = given.get_config()
        # One seed for all would draw layers of equal sizes alike.
        return type(given)(**{**config, **({"seed": seed} if "seed" in config else {})})

    @property
    def discriminator_variables(self) -> list[Any]:
        """The discriminator's weights, for an optimizer of their own."""
        return [*self.kernels, *self.biases]

    def add_terms(self, own: Tensor, weights: Tensor | None = None) -> None:
        share = share_of_samples(own) if weights is None else share_of_weights(weights)
        # One read for both terms; `read_variable` says why.
        network = self._read_network()
        ratio = network.frozen().log_ratio(own)
        estimate = share * weighted_mean(ratio, weights)
        self.add_term("total_correlation", estimate, self.value_of("weight"))
        if self.trains_itself:
            of_all = ops.stop_gradient(gather_samples(own))
            all_weights = None if weights is None else gather_samples(weights)
            permuted = part_of_replica(
                permute_latents(of_all, self.seed_generator, all_weights), own
            )
            loss = share * self._loss_of(network, own, permuted, weights)
            self.add_term("discriminator_loss", loss, 1.0)

    def log_density_ratio(self, z: Tensor) -> Tensor:
        """Estimate of `log(q(z) / prod_j q(z_j))` of every sample.

        Its mean over samples of `q` is the total correlation. Gradients flow to `z`
        alone.
        """
        return self._read_network().frozen().log_ratio(self.samples_of(z))

    def discriminator_loss(
        self, z: Tensor, z_permuted: Tensor, weights: Tensor | None = None
    ) -> Tensor:
        """Half the sum of the cross-entropies of latents and permuted latents.

        Gradients flow to the discriminator alone.

        Args:
            z: Latents, of the shape that the layer is called on.
            z_permuted: Latents from `qlayers.functional.permute_latents`.
            weights: Weights of the samples, `(samples,)`. Default: all alike.
        """
        return self._loss_of(self._read_network(), z, z_permuted, weights)

    def _loss_of(
        self, network: "_Network", z: Tensor, z_permuted: Tensor, weights: Tensor | None
    ) -> Tensor:
        # With two logits, -log softmax(D)_0 is softplus(D_1 - D_0).
        of_joint = network.log_ratio(ops.stop_gradient(self.samples_of(z)))
        of_product = network.log_ratio(ops.stop_gradient(self.samples_of(z_permuted)))
        as_joint, as_product = ops.softplus(-of_joint), ops.softplus(of_product)
        return 0.5 * (
            weighted_mean(as_joint, weights) + weighted_mean(as_product, weights)
        )

    def samples_of(self, x: Tensor, weights: Tensor | None = None) -> Tensor:
        # This replica's own: each estimates the ratio of its samples.
        return self.own_samples(x, self.sample_axes, weights)

    def gathered_weights(self, weights: Tensor) -> Tensor:
        return weights

    def _read_network(self) -> "_Network":
        if not self.kernels:
            raise ValueError(
                "TotalCorrelationDiscriminator has no discriminator: the layer is not "
                f"built, or its weight is 0. built={self.built}, "
                f"weight={self.weight!r}."
            )
        kernels, biases = (
            [read_variable(variable) for variable in variables]
            for variables in (self.kernels, self.biases)
        )
        return _Network(kernels, biases, self.negative_slope)

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        config.update(
            hidden_units=list(self.hidden_units),
            kernel_initializer=self.kernel_initializer
            and keras.initializers.serialize(
                keras.initializers.get(self.kernel_initializer)
            ),
        )
        return config


@dataclass(frozen=True)
class _Network:
    """The discriminator's weights as they were read, and its function.

    Attributes:
        kernels: Kernel of each layer.
        biases: Bias of each layer.
        negative_slope: Slope of the leaky ReLU below 0.
    """

    kernels: list[Tensor]
    biases: list[Tensor]
    negative_slope: float

    def frozen(self) -> "_Network":
        """The same function, which no gradient trains."""
        kernels, biases = (
            [ops.stop_gradient(x) for x in tensors]
            for tensors in (self.kernels, self.biases)
        )
        return _Network(kernels, biases, self.negative_slope)

    def log_ratio(self, samples: Tensor) -> Tensor:
        """Difference of the two logits of each sample."""
        x = ops.reshape(samples, (-1, self.kernels[0].shape[0]))
        last = len(self.kernels) - 1
        for depth, (kernel, bias) in enumerate(
            zip(self.kernels, self.biases, strict=True)
        ):
            x = ops.matmul(x, kernel) + bias
            if depth < last:
                x = ops.leaky_relu(x, self.negative_slope)
        return x[:, 0] - x[:, 1]
