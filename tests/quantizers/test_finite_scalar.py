"""FiniteScalarQuantizer against equation 10 of the Tripod paper."""

import numpy as np
import pytest
from keras import ops

import qlayers
from tests.gradients import as_float64, gradients

pytestmark = pytest.mark.backends

rng = np.random.default_rng(0)
COUNTS = [2, 3, 12, 144]
X = (2 * rng.normal(size=(200, len(COUNTS)))).astype("float32")


def equation_10(x, counts):
    steps = np.asarray(counts, dtype="float64") - 1
    position = np.rint(steps / 2 * (np.tanh(x.astype("float64")) + 1))
    return 2 / steps * position - 1, position.astype(int)


def far_from_a_border(x, counts):
    """Where float32 and float64 must round alike."""
    steps = np.asarray(counts, dtype="float64") - 1
    scaled = steps / 2 * (np.tanh(x.astype("float64")) + 1)
    return np.abs(scaled - np.floor(scaled) - 0.5) > 1e-4


def make(num_values, size=4):
    layer = qlayers.FiniteScalarQuantizer(num_values)
    layer.build((None, size))
    return layer


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("num_values", [COUNTS, 2, 3, 12, 144])
def test_output_and_codes(num_values, training):
    layer = make(num_values)
    z, codes = equation_10(X, num_values)
    sure = far_from_a_border(X, num_values)
    assert sure.mean() > 0.9
    output = as_float64(layer(X, training=training))
    np.testing.assert_allclose(output[sure], z[sure], rtol=1e-6, atol=1e-7)
    np.testing.assert_array_equal(as_float64(layer.codes(X))[sure], codes[sure])
    np.testing.assert_array_equal(as_float64(layer.lookup(layer.codes(X))), output)
    assert not layer.losses


@pytest.mark.parametrize("count", [2, 3, 4, 7, 12, 144])
def test_grid_is_even_symmetric_and_reaches_both_ends(count):
    table = as_float64(make(count, size=1).value_table())[0]
    assert table[0] == -1.0
    assert table[-1] == 1.0
    np.testing.assert_array_equal(table, -table[::-1])
    np.testing.assert_allclose(table, np.linspace(-1, 1, count), atol=1e-7)


def test_value_table_of_unequal_latents_is_padded_with_nan():
    table = as_float64(make([2, 4], size=2).value_table())
    np.testing.assert_array_equal(np.isnan(table), [[0, 0, 1, 1], [0, 0, 0, 0]])
    np.testing.assert_array_equal(table[0, :2], [-1.0, 1.0])


def test_halves_are_rounded_to_even():
    """x = 0 lies half way between the middle grid values of an even count."""
    # (count - 1) / 2: 0.5 -> 0, 1.5 -> 2, 2.5 -> 2, 5.5 -> 6.
    layer = make([2, 4, 6, 12])
    codes = as_float64(layer.codes(np.zeros((1, 4), "float32")))
    np.testing.assert_array_equal(codes, [[0, 2, 2, 6]])


def test_gradient_is_that_of_tanh():
    layer = make(12)
    direction = rng.normal(size=X.shape).astype("float32")
    found = gradients(
        layer, X, lambda z: ops.sum(ops.multiply(direction, z)), training=True
    )
    expected = direction * (1 - np.tanh(X.astype("float64")) ** 2)
    np.testing.assert_allclose(found.inputs, expected, rtol=1e-3, atol=1e-5)


def test_gradient_downstream_is_taken_at_the_code():
    layer = make(12)
    found = gradients(layer, X, lambda z: ops.sum(ops.power(z, 3)))
    z = found.outputs[0]
    expected = 3 * z**2 * (1 - np.tanh(X.astype("float64")) ** 2)
    np.testing.assert_allclose(found.inputs, expected, rtol=1e-3, atol=1e-5)


def test_continuous_is_tanh():
    np.testing.assert_allclose(
        as_float64(make(12).continuous(X)), np.tanh(X.astype("float64")), rtol=1e-5
    )


def test_infinities_reach_the_ends_with_zero_gradient():
    layer = make(5, size=2)
    x = np.array([[np.inf, -np.inf], [1e30, -1e30]], "float32")
    found = gradients(layer, x, ops.sum)
    np.testing.assert_array_equal(found.outputs[0], [[1.0, -1.0]] * 2)
    np.testing.assert_array_equal(found.inputs, 0.0)


def test_nothing_is_learned():
    assert make(12).trainable_variables == []


@pytest.mark.parametrize("squash", ["tanh", "sigmoid", "clip"])
def test_value_and_gradient_of_each_squash(squash):
    x = rng.normal(size=(30, 3)).astype("float32")
    function, slope = {
        "tanh": (np.tanh, lambda s: 1 - s**2),
        # The map of iFSQ, 2 sigmoid(1.6 x) - 1, and its derivative.
        "sigmoid": (
            lambda x: 2 / (1 + np.exp(-1.6 * x)) - 1,
            lambda s: 1.6 * (1 + s) * (1 - s) / 2,
        ),
        "clip": (lambda x: np.clip(x, -1, 1), lambda s: 1.0 * (np.abs(s) < 1)),
    }[squash]
    layer = qlayers.FiniteScalarQuantizer(6, squash=squash)
    layer.build((None, 3))
    squashed = function(x.astype("float64"))
    expected = np.round(2.5 * (squashed + 1)) / 2.5 - 1
    found = gradients(layer, x, lambda z: ops.sum(z))
    np.testing.assert_allclose(found.outputs[0], expected, atol=1e-6)
    np.testing.assert_allclose(found.inputs, slope(squashed), rtol=1e-4, atol=1e-6)
