"""Values and gradients stay finite where batches degenerate."""

import numpy as np
import pytest
from keras import ops

import qlayers
from tests.gradients import as_float64, gradients
from tests.regularizers.cases import make_decoder

pytestmark = pytest.mark.backends
rng = np.random.default_rng(0)
ORDINARY = rng.normal(size=(8, 3)).astype("float32")


def nothing(outputs):
    """A float32 zero for outputs of any dtype."""
    return 0.0 * ops.sum(ops.cast(outputs, "float32"))


def _partly_constant():
    z = ORDINARY.copy()
    z[:, 1] = 0.3
    return z


BATCHES = {
    "constant": np.full((8, 3), 0.3, "float32"),
    "one_latent_constant": _partly_constant(),
    "batch_of_one": ORDINARY[:1],
    "two_equal_rows": np.repeat(ORDINARY[:1], 2, axis=0),
    "duplicated_rows": np.repeat(ORDINARY[:2], 4, axis=0),
    "tiny": ORDINARY * np.float32(1e-12),
    "huge": ORDINARY * np.float32(1e12),
    "mixed_scales": ORDINARY * np.array([1e-12, 1.0, 1e12], "float32"),
    "far_from_origin": ORDINARY + np.float32(1e6),
    "half": ORDINARY.astype("float16"),
}

LAYERS = {
    "multiinformation": lambda: qlayers.KernelMultiinformation(1.0),
    "multiinformation_fixed": lambda: qlayers.KernelMultiinformation(1.0, 0.1),
    "hessian": lambda: qlayers.HessianPenalty(make_decoder(3), 1.0, seed=0),
    "normalized_hessian": lambda: qlayers.NormalizedHessianPenalty(
        make_decoder(3), 1.0, seed=0
    ),
    "normalized_hessian_relu": lambda: qlayers.NormalizedHessianPenalty(
        make_decoder(3, "relu"), 1.0, aggregate="per_output", seed=0
    ),
    "discriminator": lambda: qlayers.TotalCorrelationDiscriminator(1.0, (6,), seed=0),
    "cliff": lambda: qlayers.Cliff(seed=0),
    "activity": lambda: qlayers.ActivityEnergy(1.0),
    "hausdorff": lambda: qlayers.HausdorffFactorizedSupport(1.0, seed=0),
    "independent_support": lambda: qlayers.IndependentSupport(1.0, 100, seed=0),
}


# The ratio of a piecewise linear decoder has gradients beyond the range of float16.
CASES = [
    (name, batch)
    for name in LAYERS
    for batch in BATCHES
    if (name, batch) != ("normalized_hessian_relu", "half")
]


@pytest.mark.parametrize(("name", "batch"), CASES)
def test_value_and_gradient_are_finite(name, batch):
    layer, z = LAYERS[name](), BATCHES[batch]
    layer(z)
    result = gradients(layer, z, nothing, add_losses=True, training=True)
    assert np.all(np.isfinite(result.inputs))
    for variable, gradient in result.variables.items():
        assert np.all(np.isfinite(gradient)), variable
    layer(z, training=True)
    for loss in layer.losses:
        assert np.isfinite(as_float64(loss))


@pytest.mark.parametrize("batch", BATCHES)
def test_minibatch_total_correlation_is_finite(batch):
    z = BATCHES[batch]
    for scale in (1e-12, 1.0, 1e12):
        layer = qlayers.MinibatchTotalCorrelation(1.0, 100)
        scales = np.full(z.shape, scale, "float32")
        layer(z, z, scales)
        result = gradients(
            layer, z, nothing, add_losses=True, mean=z, scale=scales, training=True
        )
        assert np.all(np.isfinite(result.inputs))
        layer(z, z, scales, training=True)
        assert all(np.isfinite(as_float64(loss)) for loss in layer.losses)


def test_codes_that_agree_while_the_continuous_latents_do_not():
    """A batch may fall into one code: the smoothing then comes from before it."""
    layer = qlayers.KernelMultiinformation(1.0)
    z = np.zeros((8, 3), "float32")
    layer(z, continuous=0.01 * ORDINARY, training=True)
    assert np.isfinite(as_float64(layer.losses[0]))
