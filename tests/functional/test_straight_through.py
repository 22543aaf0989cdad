"""The straight-through estimator: exact forward, identity backward."""

import keras
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from keras import ops

from qlayers.functional import straight_through
from tests.gradients import gradient_of

pytestmark = pytest.mark.backends

LARGE = float(np.float32(1e30))
# Backends flush subnormal numbers to zero; they are no codes that anyone uses.
finite = st.floats(-LARGE, LARGE, width=32, allow_subnormal=False)


@settings(deadline=None, max_examples=40)
@given(hnp.arrays("float32", (2, 6), elements=finite))
def test_forward_is_exactly_q(pair):
    x, q = pair
    y = straight_through(ops.convert_to_tensor(x), ops.convert_to_tensor(q))
    np.testing.assert_array_equal(ops.convert_to_numpy(y), q)


def test_usual_form_would_split_a_code():
    """The reason for the other form: x + (q - x) is not always q."""
    x = np.linspace(-1, 1, 1001, dtype="float32")
    q = np.full_like(x, np.float32(0.1))
    assert len(np.unique(x + (q - x))) > 1
    assert len(np.unique(ops.convert_to_numpy(straight_through(x, q)))) == 1


def test_gradient_is_one_in_x_and_zero_in_q():
    x = np.array([0.2, -1.7, 3.0], "float32")
    weights = np.array([1.0, -2.0, 0.5], "float32")

    def in_x(t):
        return ops.sum(ops.multiply(weights, straight_through(t, ops.round(t))))

    def in_q(t):
        return ops.sum(ops.multiply(weights, straight_through(x, t)))

    np.testing.assert_array_equal(gradient_of(in_x, x), weights)
    np.testing.assert_array_equal(gradient_of(in_q, x), np.zeros(3))


def test_gradient_downstream_is_taken_at_q():
    x = np.array([0.2, -1.7], "float32")
    q = np.array([0.0, -2.0], "float32")

    def loss(t):
        return ops.sum(ops.power(straight_through(t, ops.convert_to_tensor(q)), 3))

    np.testing.assert_allclose(gradient_of(loss, x), 3 * q.astype("float64") ** 2)


def test_nan_stays_nan():
    x = np.array([np.nan, 1.0], "float32")
    y = straight_through(ops.convert_to_tensor(x), ops.zeros((2,)))
    np.testing.assert_array_equal(ops.convert_to_numpy(y), [np.nan, 0.0])


@pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="compiles with TensorFlow"
)
@pytest.mark.parametrize("jit_compile", [False, True])
def test_compilers_do_not_simplify_the_gradient_path_away(jit_compile):
    import tensorflow as tf

    @tf.function(jit_compile=jit_compile)
    def step(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = straight_through(x, tf.round(x))
            total = tf.reduce_sum(tf.constant([2.0, 3.0]) * y)
        return y, tape.gradient(total, x)

    y, gradient = step(tf.constant([0.3, np.nan]))
    np.testing.assert_array_equal(y.numpy(), [0.0, np.nan])
    np.testing.assert_array_equal(gradient.numpy(), [2.0, 3.0])


@pytest.mark.parametrize(
    "q", [np.ones((2, 1), "float32"), np.ones(3, "float32"), np.ones((2, 3), "float16")]
)
def test_q_of_another_shape_or_type_is_refused(q):
    with pytest.raises(ValueError, match="same shape and dtype"):
        straight_through(np.ones((2, 3), "float32"), q)
