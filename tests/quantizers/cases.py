"""The quantizers, in enough variants to reach every branch of their code."""

import keras

import qlayers
from tests.contract import case, replicated, stochastic

schedules = keras.optimizers.schedules


def _with_assignments(layer, logits):
    z, weights = layer(logits, return_assignments=True)
    return keras.layers.Concatenate()([z, keras.layers.Flatten()(weights)])


CASES = [
    case("latent", lambda: qlayers.LatentQuantizer(5, seed=3)),
    case(
        "latent_shared",
        lambda: qlayers.LatentQuantizer(
            5,
            shared_codebook=True,
            init_range=1.0,
            quantize_weight=schedules.ExponentialDecay(1.0, 3, 0.5),
            commit_weight=0.0,
            loss_reduction="mean",
            seed=3,
        ),
    ),
    replicated(
        "latent_revived",
        lambda: qlayers.LatentQuantizer(
            12, init_range=5.0, revive_after=1, track_usage="per_latent", seed=3
        ),
        # Which input a dead code moves onto is a random choice, the same everywhere.
    ),
    case("self_sizing", lambda: qlayers.SelfSizingQuantizer(5, seed=3)),
    case("finite_scalar", lambda: qlayers.FiniteScalarQuantizer(12, seed=3), size=4),
    case(
        "finite_scalar_list",
        lambda: qlayers.FiniteScalarQuantizer(
            [2, 3, 4, 144], squash="sigmoid", track_usage=None
        ),
    ),
    case(
        "lookup_free",
        lambda: qlayers.LookupFreeQuantizer(
            temperature=schedules.ExponentialDecay(1.0, 3, 0.5), seed=3
        ),
    ),
    case(
        "lookup_free_spherical",
        lambda: qlayers.LookupFreeQuantizer(
            spherical=True, entropy="factorized", commit_weight=0.0, seed=3
        ),
    ),
    case(
        "residual",
        lambda: qlayers.ResidualQuantizer(
            [
                # Named: the history is sorted by names, and "_10" stands before "_9".
                qlayers.VectorQuantizer(
                    5, 2, init="uniform", seed=seed, name=f"step_{seed}"
                )
                for seed in (3, 4)
            ],
            seed=3,
        ),
    ),
    case(
        "residual_finite_scalar",
        lambda: qlayers.ResidualQuantizer(
            [
                qlayers.FiniteScalarQuantizer(m, squash="clip", name=f"step_{m}")
                for m in (3, 5)
            ],
            track_usage="mean",
        ),
    ),
    case("vector", lambda: qlayers.VectorQuantizer(7, 2, seed=3)),
    replicated(
        "vector_revived",
        lambda: qlayers.VectorQuantizer(
            16,
            2,
            codebook_update="gradient",
            init="uniform",
            gradient="rotation",
            revive_after=1,
            seed=3,
        ),
    ),
    replicated(
        "vector_averaged",
        lambda: qlayers.VectorQuantizer(
            16,
            2,
            codebook_update="moving_average",
            similarity="cosine",
            revive_after=2,
            seed=3,
        ),
    ),
    stochastic(
        "gumbel",
        lambda: qlayers.GumbelQuantizer(
            8,
            temperature=schedules.ExponentialDecay(1.0, 10, 0.5),
            kl_weight=0.1,
            seed=3,
        ),
    ),
    stochastic(
        "gumbel_vector",
        lambda: qlayers.GumbelQuantizer(
            8,
            code_dim=2,
            distance="squared_l2",
            kl_reduction="mean",
            kl_weight=0.1,
            revive_after=1,
            seed=3,
        ),
    ),
    stochastic(
        "gumbel_l1_vector",
        lambda: qlayers.GumbelQuantizer(8, code_dim=2, seed=3),
        connect=_with_assignments,
    ),
    stochastic(
        "categorical",
        lambda: qlayers.CategoricalQuantizer(5, kl_weight=0.5, seed=3),
        size=20,
    ),
    stochastic(
        "ordered_categorical",
        lambda: qlayers.OrderedCategoricalQuantizer(
            5, noise_scale=schedules.CosineDecay(0.5, 10, alpha=4.0), seed=3
        ),
        size=20,
    ),
    stochastic(
        "ordered_categorical_masked",
        lambda: qlayers.OrderedCategoricalQuantizer(
            5, interval=(0.0, 1.0), active_values=[3, None, [0, 1], 5], seed=3
        ),
        size=20,
        connect=_with_assignments,
    ),
    stochastic(
        "gaussian",
        lambda: qlayers.GaussianLatent(kl_weight=0.1, seed=3),
        size=8,
    ),
    stochastic(
        "gaussian_softplus",
        lambda: qlayers.GaussianLatent(
            kl_weight=0.1, scale="softplus", track_usage="mean", seed=3
        ),
        size=8,
    ),
]
