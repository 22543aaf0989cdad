"""Nearest scalars and vectors against exhaustive search in float64."""

import keras
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from keras import ops

from qlayers.functional import nearest_code, nearest_vector
from tests.gradients import gradient_of

pytestmark = pytest.mark.backends


def reference_nearest(x, table):
    """First index of the smallest |x - v|, exactly (float64 holds the difference)."""
    distance = np.abs(x.astype("float64")[..., None] - table.astype("float64"))
    return distance.argmin(axis=-1)


def as_array(tensor):
    return ops.convert_to_numpy(tensor)


@pytest.mark.parametrize("leading", [(), (5,), (2, 3)])
def test_one_table_for_each_latent(leading):
    rng = np.random.default_rng(0)
    table = rng.normal(size=(4, 7)).astype("float32")
    x = rng.normal(size=(*leading, 4)).astype("float32")
    codes = as_array(nearest_code(x, table))
    assert codes.dtype == np.int32
    np.testing.assert_array_equal(codes, reference_nearest(x, table))


def test_one_table_for_all_latents():
    rng = np.random.default_rng(1)
    table = rng.normal(size=7).astype("float32")
    x = rng.normal(size=(50, 3)).astype("float32")
    np.testing.assert_array_equal(
        as_array(nearest_code(x, table)), reference_nearest(x, table)
    )


# Multiples of 1/4: differences are exact in float32, so that ties are true ties.
quarters = st.integers(-40, 40).map(lambda i: i / 4)


@settings(deadline=None, max_examples=60)
@given(
    hnp.arrays("float32", (6, 1), elements=quarters),
    hnp.arrays("float32", (1, 5), elements=quarters),
)
def test_ties_go_to_the_lowest_index(x, table):
    np.testing.assert_array_equal(
        as_array(nearest_code(x, table)), reference_nearest(x, table)
    )


@settings(deadline=None, max_examples=60)
@given(
    hnp.arrays("float32", (6, 3), elements=quarters),
    hnp.arrays("float32", (5, 3), elements=quarters),
)
def test_vector_ties_go_to_the_lowest_index_in_l1(x, table):
    difference = np.abs(x[:, None].astype("float64") - table.astype("float64"))
    np.testing.assert_array_equal(
        as_array(nearest_vector(x, table, distance="l1")),
        difference.sum(-1).argmin(-1),
    )


def test_vector_ties_go_to_the_lowest_index_in_l2():
    table = np.array([[0, 1], [1, 0], [0, -1], [-1, 0], [1, 0]], "float32")
    x = np.array([[0, 0], [1, 0], [0.5, 0.5], [-0.5, -0.5]], "float32")
    np.testing.assert_array_equal(as_array(nearest_vector(x, table)), [0, 1, 0, 2])


@pytest.mark.parametrize("distance", ["l1", "l2"])
@pytest.mark.parametrize("leading", [(40,), (3, 5), ()])
def test_vectors_against_exhaustive_search(distance, leading):
    rng = np.random.default_rng(2)
    table = rng.normal(size=(9, 4)).astype("float32")
    x = rng.normal(size=(*leading, 4)).astype("float32")
    difference = x[..., None, :].astype("float64") - table.astype("float64")
    power = 1 if distance == "l1" else 2
    expected = (np.abs(difference) ** power).sum(-1).argmin(-1)
    codes = as_array(nearest_vector(x, table, distance=distance))
    assert codes.dtype == np.int32
    np.testing.assert_array_equal(codes, expected)


@pytest.mark.parametrize("offset", [0.0, 10.0, 1000.0])
def test_a_code_is_nearest_to_itself_far_from_the_origin(offset):
    """|x|^2 - 2xc + |c|^2 would cancel here; duplicates go to the lowest index."""
    rng = np.random.default_rng(3)
    table = (offset + 0.1 * rng.normal(size=(200, 24))).astype("float32")
    table[100:] = table[:100]
    codes = as_array(nearest_vector(table, table))
    np.testing.assert_array_equal(codes, np.arange(200) % 100)


@pytest.mark.parametrize("distance", ["l1", "l2"])
@pytest.mark.parametrize("compiled", [False, True])
def test_equal_sums_in_another_order_are_ties(distance, compiled):
    """Codes with the same entries in another order are as far from equal entries."""
    rng = np.random.default_rng(4)
    code = rng.normal(size=24).astype("float32")
    table = np.stack([rng.permutation(code) for _ in range(300)])
    # The first rows are farther, so that the lowest of the ties is not the first row.
    table[:7] += np.sign(table[:7])
    x = np.repeat(rng.normal(size=(40, 1)), 24, axis=1).astype("float32") * 0.01
    codes = as_array(run(nearest_vector, compiled)(x, table, distance))
    np.testing.assert_array_equal(codes, 7)


@pytest.mark.parametrize("compiled", [False, True])
def test_near_ties_are_decided_by_the_differences(compiled):
    """An outlier makes the matrix product too coarse to tell the other codes apart."""
    rng = np.random.default_rng(5)
    table = 1e-3 * rng.normal(size=(60, 8)).astype("float32")
    table[59] = 1e4
    table[40:59] = table[10:29]
    x = np.concatenate([table, 1e-3 * rng.normal(size=(100, 8)).astype("float32")])
    difference = x[:, None].astype("float64") - table.astype("float64")
    expected = (difference**2).sum(-1).argmin(-1)
    codes = as_array(run(nearest_vector, compiled)(x, table))
    np.testing.assert_array_equal(codes, expected)


def run(function, compiled):
    """The function as it is, or compiled by the backend's compiler."""
    backend = keras.backend.backend()
    if not compiled or backend == "torch":
        return function
    if backend == "jax":
        import jax

        return jax.jit(function, static_argnums=2)
    import tensorflow as tf

    return tf.function(function, jit_compile=True)


def test_a_lookup_of_the_index_carries_gradients():
    """The search itself has none, and does not stand in their way."""
    table = np.array([[0.0, 0.0], [2.0, 2.0], [2.0, 2.0]], "float32")

    def loss(x):
        codes = ops.take(table, nearest_vector(x, table), axis=0)
        return ops.sum(ops.square(x - codes))

    x = np.array([[2.0, 2.5], [-1.0, 0.0]], "float32")
    np.testing.assert_allclose(gradient_of(loss, x), [[0.0, 1.0], [-2.0, 0.0]])


@pytest.mark.parametrize("value", [1e30, 3.4e38, np.inf])
def test_far_inputs_go_to_the_ends(value):
    table = np.array([0.3, -2.0, 5.0, 1.0], "float32")
    x = np.array([[value, -value]], "float32")
    np.testing.assert_array_equal(as_array(nearest_code(x, table)), [[2, 1]])


@pytest.mark.parametrize("distance", ["l1", "l2"])
def test_far_vectors_go_to_the_extreme_code(distance):
    table = np.array([[0, 0], [1, 0], [0, 1], [-1, 0]], "float32")
    x = np.array([[1e30, 0.0], [np.inf, 0.0], [0.0, 3e38], [-np.inf, 0.0]], "float32")
    codes = as_array(nearest_vector(x, table, distance=distance))
    np.testing.assert_array_equal(codes, [1, 1, 2, 3])


def test_denormal_inputs_count_as_zero():
    table = np.array([-1.0, 0.0, 1.0], "float32")
    x = np.array([[1e-40, -1e-45, 1e-38]], "float32")
    np.testing.assert_array_equal(as_array(nearest_code(x, table)), [[1, 1, 1]])


def test_nan_gets_minus_one():
    table = np.array([0.0, 1.0], "float32")
    x = np.array([[np.nan, 0.9]], "float32")
    np.testing.assert_array_equal(as_array(nearest_code(x, table)), [[-1, 1]])
    vectors = np.array([[np.nan, 0.9], [0.9, 0.9]], "float32")
    for distance in ("l1", "l2"):
        codes = nearest_vector(vectors, [[0.0, 0.0], [1.0, 1.0]], distance=distance)
        np.testing.assert_array_equal(as_array(codes), [-1, 1])


def test_unknown_distance_is_refused():
    with pytest.raises(ValueError, match=r"one of 'l1', 'l2'. Received: 'cosine'"):
        nearest_vector([[0.0]], [[0.0], [1.0]], distance="cosine")
