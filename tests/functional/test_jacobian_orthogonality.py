"""Jacobian orthogonality of decoders whose Jacobian is known."""

import itertools

import keras
import numpy as np
import pytest
from keras import ops

import qlayers
from qlayers.functional import jacobian_orthogonality
from qlayers.functional.jacobian_orthogonality import (
    draw_halves,
    orthogonality_of_samples,
)
from tests.finite_differences import finite_differences
from tests.gradients import as_float64, gradient_of

pytestmark = pytest.mark.backends
rng = np.random.default_rng(0)
N = 4
J = rng.normal(size=(6, N)).astype("float32")
Z = rng.normal(size=(5, N)).astype("float32")


def linear(z):
    return ops.matmul(z, J.T)


def all_halves(n=N):
    """Every cut into halves with every choice of signs."""
    for chosen in itertools.combinations(range(n), n // 2):
        first = np.isin(np.arange(n), chosen)
        for sign in itertools.product([-1.0, 1.0], repeat=n):
            yield np.stack([sign * first, sign * ~first]).astype("float32")


def test_expectation_is_the_sum_of_squares_off_the_diagonal():
    """Exactly, over all draws, for a linear decoder."""
    gram = J.T.astype("float64") @ J
    expected = (gram**2).sum() - (np.diag(gram) ** 2).sum()
    halves = np.stack(list(all_halves()), 1).reshape(-1, 1, N)
    found = as_float64(orthogonality_of_samples(linear, Z[:1], halves, 0.1, False))
    np.testing.assert_allclose(found.mean(), expected, rtol=1e-3)


def test_cosine_of_a_linear_decoder():
    halves = np.stack(list(all_halves()), 1).reshape(-1, 1, N)
    found = as_float64(orthogonality_of_samples(linear, Z[:1], halves, 0.1, True))
    s, t = halves.reshape(2, -1, N).astype("float64")
    a, b = s @ J.T, t @ J.T
    expected = (a * b).sum(-1) ** 2 / ((a**2).sum(-1) * (b**2).sum(-1))
    np.testing.assert_allclose(found[:, 0], expected, rtol=1e-3, atol=1e-5)
    assert found.max() <= 1 + 1e-5


@pytest.mark.parametrize("normalized", [False, True])
def test_orthogonal_columns_cost_nothing(normalized):
    columns = np.linalg.qr(rng.normal(size=(6, N)))[0] * [1, 2, 3, 4]
    matrix = columns.T.astype("float32")
    value = jacobian_orthogonality(
        lambda z: ops.matmul(z, matrix), Z, normalized=normalized, seed=0
    )
    assert float(as_float64(value)) < 1e-6


def test_draws_are_signs_on_complementary_halves():
    halves = as_float64(draw_halves(50, 5, 3, seed=0)).reshape(2, 3, 50, 5)
    assert set(np.unique(halves)) == {-1, 0, 1}
    np.testing.assert_array_equal(np.abs(halves).sum(0), 1)
    np.testing.assert_array_equal(np.abs(halves[0]).sum(-1), 2)
    assert (np.abs(halves[0]).mean((0, 1))).min() > 0.3
    assert np.abs(halves.sum(0).mean()) < 0.2


def test_rescaling_latents_and_outputs_does_not_change_the_cosine():
    factor = np.array([1.0, 10.0, 0.1, 3.0], "float32")
    plain = jacobian_orthogonality(linear, Z, seed=1)
    scaled = jacobian_orthogonality(
        lambda z: 7.0 * linear(z / factor), Z * factor, seed=1
    )
    np.testing.assert_allclose(as_float64(scaled), as_float64(plain), rtol=1e-3)


def test_gradient_is_that_of_the_differences():
    halves = draw_halves(len(Z), N, 1, seed=2)

    def value(z):
        outputs = [lambda p: [ops.tanh(ops.matmul(p, J.T)), ops.square(p)]][0]
        return ops.mean(orthogonality_of_samples(outputs, z, halves, 0.5, True))

    found = gradient_of(value, Z)
    expected = finite_differences(
        lambda z: float(as_float64(value(ops.convert_to_tensor(z.astype("float32"))))),
        Z.astype("float64"),
        1e-2,
    )
    np.testing.assert_allclose(found, expected, rtol=0.05, atol=5e-3)


def test_one_latent_has_no_other():
    value = jacobian_orthogonality(lambda z: z, Z[:, :1], seed=0)
    assert float(as_float64(value)) == 0.0


def test_training_makes_a_linear_decoder_orthogonal():
    keras.utils.set_random_seed(0)
    inputs = keras.Input((3,))
    decoder = keras.Sequential([keras.Input((3,)), keras.layers.Dense(5)])
    layer = qlayers.JacobianOrthogonality(decoder, 1.0, seed=0)
    model = keras.Model(inputs, layer(inputs))
    model.compile(keras.optimizers.Adam(0.05), None)
    z = rng.normal(size=(32, 3)).astype("float32")

    def cosines():
        columns = as_float64(decoder.layers[0].kernel)
        unit = columns / np.linalg.norm(columns, axis=1, keepdims=True)
        return np.abs(unit @ unit.T - np.eye(3)).max()

    before = cosines()
    for _ in range(20):
        model.train_on_batch(z, None)
    assert cosines() < 0.35 * before
