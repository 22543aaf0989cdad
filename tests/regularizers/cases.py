"""The regularizers, in enough variants to reach every branch of their code."""

import keras
from keras import ops

import qlayers
from tests.contract import case, replicated, stochastic

schedules = keras.optimizers.schedules


def make_decoder(n=4, activation="tanh"):
    """A small decoder with named inner layers."""
    inputs = keras.Input((n,))
    hidden = keras.layers.Dense(5, activation, name="first")(inputs)
    hidden = keras.layers.Dense(4, activation, name="second")(hidden)
    outputs = keras.layers.Dense(3, name="last")(hidden)
    return keras.Model(inputs, outputs, name="decoder")


def _with_continuous(layer, latents):
    return layer(ops.tanh(latents), continuous=latents)


def _with_posterior(layer, latents):
    scale = ops.softplus(latents)
    return layer(latents + 0.3 * scale, latents, scale)


def _one_hot(layer, latents):
    groups = keras.layers.Softmax()(keras.layers.Reshape((2, 3))(latents))
    return keras.layers.Flatten()(layer(groups))


def _in_sequence(layer, latents):
    """As two samples of half the size for each row of the batch."""
    halves = keras.layers.Reshape((2, 3))(latents)
    return keras.layers.Flatten()(layer(halves))


CASES = [
    case(
        "multiinformation",
        lambda: qlayers.KernelMultiinformation(0.1),
        connect=_with_continuous,
    ),
    case(
        "multiinformation_fixed",
        lambda: qlayers.KernelMultiinformation(
            schedules.ExponentialDecay(1.0, 3, 0.5), bandwidth=0.3, at_inference=True
        ),
        size=6,
        connect=_in_sequence,
    ),
    replicated(
        "hessian",
        lambda: qlayers.HessianPenalty(
            make_decoder(),
            0.1,
            num_perturbations=3,
            outputs=["first", "second"],
            aggregate="mean",
            seed=3,
        ),
    ),
    replicated(
        "normalized_hessian",
        # A wide step: differences over a narrow one amplify the rounding, which is not
        # the same for a whole batch and for its halves.
        lambda: qlayers.NormalizedHessianPenalty(
            make_decoder(), 0.01, epsilon=0.5, seed=3
        ),
        connect=_with_continuous,
    ),
    replicated(
        "normalized_hessian_coordinates",
        lambda: qlayers.NormalizedHessianPenalty(
            make_decoder(), 0.01, epsilon=0.5, directions="coordinates", seed=3
        ),
        connect=_with_continuous,
    ),
    stochastic(
        "normalized_hessian_lazy",
        lambda: qlayers.NormalizedHessianPenalty(
            make_decoder(),
            0.01,
            outputs=["first", "second"],
            aggregate="per_output",
            batch_fraction=0.5,
            step_interval=2,
            seed=3,
        ),
    ),
    replicated(
        "jacobian",
        lambda: qlayers.JacobianOrthogonality(
            make_decoder(), 0.01, epsilon=0.5, seed=3
        ),
        connect=_with_continuous,
    ),
    stochastic(
        "jacobian_lazy",
        lambda: qlayers.JacobianOrthogonality(
            make_decoder(),
            0.01,
            num_perturbations=2,
            normalized=False,
            outputs=["first", "second"],
            batch_fraction=0.5,
            step_interval=2,
            seed=3,
        ),
    ),
    replicated(
        "discriminator",
        lambda: qlayers.TotalCorrelationDiscriminator(0.1, (8, 8), seed=3),
    ),
    replicated(
        "discriminator_one_hot",
        lambda: qlayers.TotalCorrelationDiscriminator(
            0.1, (8,), negative_slope=0.01, one_hot=True, seed=3
        ),
        size=6,
        connect=_one_hot,
    ),
    case(
        "minibatch_total_correlation",
        lambda: qlayers.MinibatchTotalCorrelation(0.1, 1000, kl_weight=0.0),
        connect=_with_posterior,
    ),
    replicated(
        "cliff",
        lambda: qlayers.Cliff(0.01, num_conditions=4, seed=3),
    ),
    replicated(
        "cliff_annealed",
        lambda: qlayers.Cliff(
            0.01,
            bandwidth=schedules.ExponentialDecay(1.0, 3, 0.5),
            num_conditions=4,
            seed=3,
        ),
    ),
    case("activity", lambda: qlayers.ActivityEnergy(0.1)),
    replicated(
        "hausdorff",
        lambda: qlayers.HausdorffFactorizedSupport(0.01, num_pairs=3, seed=3),
    ),
    replicated(
        "independent_support",
        lambda: qlayers.IndependentSupport(0.1, num_samples=50, trim=0.1, seed=3),
    ),
]
