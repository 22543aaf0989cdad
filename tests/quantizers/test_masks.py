"""Padding has no part in losses, usage and updates of a quantizer."""

import itertools

import keras
import numpy as np
import pytest
from keras import ops

import qlayers
from qlayers.testing import LayerCase, case_name
from tests.quantizers.cases import CASES

pytestmark = pytest.mark.backends

LENGTHS = (3, 5, 1)
MASK = np.arange(5) < np.array(LENGTHS)[:, None]
# Draws of noise depend on the shape of the batch, and with them the outputs; what is
# compared does not.
SAMPLED = ("gumbel", "gumbel_vector", "gaussian_softplus", "categorical")
NAMES = ("latent", "latent_revived", "vector", "vector_revived", "finite_scalar")
NAMES += ("residual", "residual_finite_scalar", "lookup_free", "lookup_free_spherical")


def _revived_stack():
    steps = [
        qlayers.VectorQuantizer(16, 2, init=init, revive_after=1, seed=seed)
        for seed, init in enumerate(("uniform", "data"))
    ]
    return qlayers.ResidualQuantizer(steps, track_usage="per_latent")


CHOSEN = [
    *(case for case in CASES if case.name in (*NAMES, *SAMPLED)),
    LayerCase("residual_revived", _revived_stack, size=4),
]


def padded_and_plain(size, seed=0):
    """Sequences with far padding, and their unmasked rows."""
    padded = np.random.default_rng(seed).normal(size=(3, 5, size)).astype("float32")
    padded[~MASK] = 40.0
    return padded, padded[MASK]


def state_of(layer):
    """Losses, usage and weights after a call."""
    state = {f"loss_{i}": value for i, value in enumerate(layer.losses)}
    for i, part in enumerate([layer, *getattr(layer, "quantizers", ())]):
        state |= {f"{i}_{weight.name}": weight for weight in part.weights}
        if part.usage is not None:
            state[f"{i}_counts"] = part.usage.counts
    return {name: ops.convert_to_numpy(value) for name, value in state.items()}


@pytest.mark.parametrize("case", CHOSEN, ids=case_name)
def test_a_padded_batch_equals_the_unpadded_one(case):
    padded, plain = padded_and_plain(case.size)
    masked, unmasked = case.make(), case.make()
    for layer in (masked, unmasked):
        layer.build((None, case.size))
    for _ in range(2):
        masked(padded, training=True, mask=MASK)
        unmasked(plain, training=True)
        found, expected = state_of(masked), state_of(unmasked)
        assert found.keys() == expected.keys() and found
        for name, value in expected.items():
            np.testing.assert_allclose(
                found[name], value, rtol=2e-5, atol=1e-6, err_msg=name
            )


def sequence_model(jit_compile):
    keras.utils.set_random_seed(0)
    inputs = keras.Input((None, 4))
    hidden = keras.layers.Masking(40.0)(inputs)
    layer = qlayers.VectorQuantizer(16, 2, revive_after=1, seed=3, name="q")
    outputs = keras.layers.LSTM(2)(layer(hidden))
    model = keras.Model(inputs, outputs)
    model.compile(keras.optimizers.SGD(0.1), "mse", jit_compile=jit_compile)
    return model, layer


@pytest.mark.slow
def test_masks_of_keras_in_a_compiled_fit():
    """More padding, the same training: history, weights and what follows the layer."""
    padded, _ = padded_and_plain(4)
    longer = np.pad(padded, [(0, 0), (0, 3), (0, 0)], constant_values=40.0)
    y = np.ones((3, 2), "float32")
    results = []
    # XLA's own unrolled recurrence compares with another order of sums.
    jit_compile = keras.backend.backend() == "jax"
    for x in (padded, longer):
        model, layer = sequence_model(jit_compile)
        history = model.fit(x, y, batch_size=3, epochs=2, verbose=0).history
        results.append((history, layer.get_weights()))
    (short, weights), (long, others) = results
    assert short["q_usage"] == pytest.approx(long["q_usage"])
    assert short["q_commit_loss"] == pytest.approx(long["q_commit_loss"], rel=1e-4)
    assert short["loss"] == pytest.approx(long["loss"], rel=1e-4)
    for ours, theirs in zip(weights, others, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-6)


def test_codes_pass_the_mask_on_and_a_wrong_one_is_named():
    layer = qlayers.LatentQuantizer(5)
    x = keras.layers.Masking(40.0)(padded_and_plain(4)[0])
    for outputs in (layer(x), qlayers.Codes(layer)(x)):
        np.testing.assert_array_equal(outputs._keras_mask, MASK)
    with pytest.raises(ValueError, match=r"mask of shape \(3, 5, 4\)"):
        layer(x, mask=np.ones((3, 5, 4), bool))


def test_all_masked_is_finite_and_moves_nothing():
    layer = qlayers.LatentQuantizer(5, revive_after=1, seed=0)
    layer.build((None, 4))
    start = ops.convert_to_numpy(layer.value_table())
    x = np.full((2, 3, 4), np.float32(3.0))
    for _ in range(3):
        layer(x, training=True, mask=np.zeros((2, 3), bool))
    assert all(np.isfinite(ops.convert_to_numpy(loss)) for loss in layer.losses)
    np.testing.assert_array_equal(ops.convert_to_numpy(layer.value_table()), start)


def test_entropies_of_bits_are_those_of_the_unmasked_positions():
    """By the formula over all codes, with nothing of the layer's own."""
    padded, plain = padded_and_plain(3)
    layer = qlayers.LookupFreeQuantizer(
        entropy_weight=1.0, commit_weight=0.0, temperature=0.7
    )
    layer(padded, training=True, mask=MASK)
    codes = np.array(list(itertools.product([-1.0, 1.0], repeat=3)))
    squares = ((plain[:, None].astype("float64") - codes) ** 2).sum(-1)
    soft = np.exp(-squares / 0.7)
    soft /= soft.sum(-1, keepdims=True)
    mean = soft.mean(0)
    expected = -(soft * np.log(soft)).sum(-1).mean() + (mean * np.log(mean)).sum()
    (loss,) = layer.losses
    assert float(ops.convert_to_numpy(loss)) == pytest.approx(expected, rel=1e-4)
    counts = [(plain <= 0).sum(0), (plain > 0).sum(0)]
    np.testing.assert_array_equal(
        ops.convert_to_numpy(layer.usage.counts), np.transpose(counts)
    )


def test_codes_of_a_stack_are_revived_onto_unmasked_leftovers():
    """Every step's codes end on what the unmasked positions left over."""
    padded, plain = padded_and_plain(2)
    step = qlayers.VectorQuantizer(
        64, 2, **{**qlayers.VectorQuantizer.PLAIN, "revive_after": 1}, seed=0
    )
    coarse = qlayers.FiniteScalarQuantizer(3, squash="clip")
    layer = qlayers.ResidualQuantizer([coarse, step])
    layer(padded, training=True, mask=MASK)
    left_over = plain - ops.convert_to_numpy(coarse(plain))
    table = ops.convert_to_numpy(step.value_table())[0]
    distance = np.abs(table[:, None] - left_over).max(-1)
    moved = distance.min(-1) < 1e-6
    # A code in use stays; the nine positions use nine at most.
    assert moved.sum() >= 64 - len(left_over)
    assert np.abs(table).max() < 5
