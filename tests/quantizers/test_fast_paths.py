"""What is computed in an unusual order for speed, against plain NumPy.

Codes: ties, tables in any order, infinities, NaN, half precision. Sums and counts of
codes: masked, NaN and infinite inputs. Entropies: the list of all codes.
"""

import keras
import numpy as np
import pytest
from keras import ops

import qlayers
from qlayers.backend import select, sum_by_integer, take_rows
from qlayers.functional import nearest_code, nearest_vector
from tests.gradients import gradient_of

pytestmark = pytest.mark.backends


def as_array(tensor):
    return ops.convert_to_numpy(tensor)


def reference_codes(x, table, available=None):
    """First smallest float32 distance of limited scalars, one by one; -1 for NaN."""
    table = np.broadcast_to(table, (x.shape[-1], np.shape(table)[-1]))
    if available is None:
        available = np.ones_like(table, bool)
    available = np.broadcast_to(available, table.shape)
    codes = np.full(x.shape, -1, "int32")
    for place in np.ndindex(*x.shape):
        row, usable = table[place[-1]], available[place[-1]]
        if np.isnan(x[place]):
            continue
        inside = np.clip(x[place], row[usable].min(), row[usable].max())
        smallest = np.float32(np.inf)
        for code in np.flatnonzero(usable):
            distance = np.abs(np.float32(inside) - row[code])
            if distance < smallest:
                smallest, codes[place] = distance, code
    return codes


def awkward_scalars(rng, table, samples):
    """Values of the table, middles of two, their neighbours, far ones and NaN."""
    n, m = table.shape
    first, second = rng.integers(0, m, (2, samples, n))
    latents = np.arange(n)
    a, b = table[latents, first], table[latents, second]
    x = np.where(rng.random((samples, n)) < 0.3, a, (a + b) / np.float32(2))
    x = np.where(rng.random(x.shape) < 0.3, np.nextafter(x, np.float32(9)), x)
    x = np.where(rng.random(x.shape) < 0.2, rng.normal(size=x.shape), x)
    odd = np.array([np.inf, -np.inf, np.nan, 1e30, -3e38, 0.0, -0.0], "float32")
    x[: len(odd)] = odd[:, None]
    return x.astype("float32")


TABLES = {
    "unsorted": lambda rng: rng.normal(size=(5, 10)),
    "even": lambda rng: np.tile(np.linspace(-0.5, 0.5, 10), (5, 1)),
    "descending": lambda rng: -np.tile(np.linspace(-0.5, 0.5, 10), (5, 1)),
    "with equals": lambda rng: rng.integers(-2, 3, size=(5, 10)) / 4,
    # From afar these are as near as one another after rounding, nearby they are not.
    "crowded": lambda rng: rng.choice([1.0, 0.0, 1e-9, -1e-9, -3.0], size=(5, 10)),
    "one value": lambda rng: np.full((5, 1), 0.25),
    "far from zero": lambda rng: 1e6 + rng.normal(size=(5, 10)),
}


@pytest.mark.parametrize("kind", TABLES)
def test_codes_of_awkward_scalars(kind):
    rng = np.random.default_rng(0)
    table = TABLES[kind](rng).astype("float32")
    x = awkward_scalars(rng, table, 200)
    expected = reference_codes(x, table)
    np.testing.assert_array_equal(as_array(nearest_code(x, table)), expected)
    cube = x.reshape(4, 50, 5)
    np.testing.assert_array_equal(
        as_array(nearest_code(cube, table)), expected.reshape(4, 50, 5)
    )
    np.testing.assert_array_equal(
        as_array(nearest_code(x, table[0])), reference_codes(x, table[0])
    )


def test_codes_among_the_available_values():
    rng = np.random.default_rng(1)
    table = rng.integers(-3, 4, size=(5, 8)).astype("float32")
    available = rng.random(table.shape) < 0.5
    available[:, 3] = True
    x = awkward_scalars(rng, table, 100)
    np.testing.assert_array_equal(
        as_array(nearest_code(x, table, available)),
        reference_codes(x, table, available),
    )


def test_a_table_that_is_no_number_gives_codes_all_the_same():
    """A diverged codebook must not take the search out of the table."""
    table = np.array([[0.0, np.nan, 1.0]], "float32")
    codes = as_array(nearest_code(np.array([[0.2], [5.0]], "float32"), table))
    assert ((codes >= 0) & (codes < 3)).all()


def test_no_scalars_have_no_codes():
    x, table = np.zeros((0, 3), "float32"), np.zeros((3, 2), "float32")
    assert as_array(nearest_code(x, table)).shape == (0, 3)


@pytest.mark.parametrize("shared", [False, True])
def test_half_precision_does_not_move_codes(shared):
    rng = np.random.default_rng(2)
    x = rng.normal(size=(50, 6)).astype("float32")
    layer = qlayers.LatentQuantizer(
        7, shared_codebook=shared, init="normal", seed=1, dtype="mixed_float16"
    )
    layer.build(x.shape)
    table = as_array(layer.codebook)[..., 0]
    expected = reference_codes(x, table)
    np.testing.assert_array_equal(as_array(layer.codes(x)), expected)
    rows = np.broadcast_to(table, (6, 7))
    values = rows[np.arange(6), expected].astype("float16")
    np.testing.assert_array_equal(as_array(layer(x)), values)


@pytest.mark.parametrize("num_codes", [2, 3, 5, 16, 17, 33, 64])
def test_vectors_for_every_layout_of_the_codes(num_codes):
    """The search arranges codes in lines and columns, some of them missing."""
    rng = np.random.default_rng(num_codes)
    table = rng.normal(size=(num_codes, 4)).astype("float32")
    table[-1] = table[0]
    x = np.concatenate([table, rng.normal(size=(40, 4)).astype("float32")])
    difference = x[:, None].astype("float64") - table.astype("float64")
    expected = (difference**2).sum(-1).argmin(-1)
    np.testing.assert_array_equal(as_array(nearest_vector(x, table)), expected)


@pytest.mark.parametrize("num_values", [5, [3, 5, 4]])
def test_grid_codes_and_counts(num_values):
    rng = np.random.default_rng(3)
    x = rng.normal(size=(60, 3)).astype("float32")
    layer = qlayers.FiniteScalarQuantizer(num_values)
    values = as_array(layer(x))
    counts = np.broadcast_to(num_values, 3)
    half = ((counts - 1) / 2).astype("float32")
    codes = np.round((np.tanh(x) + np.float32(1)) * half)
    np.testing.assert_allclose(values, codes / half - 1, atol=1e-6)
    np.testing.assert_array_equal(as_array(layer.codes(x)), codes)
    expected = np.zeros((3, max(counts)))
    np.add.at(expected, (np.arange(3), codes.astype(int)), 1)
    np.testing.assert_array_equal(as_array(layer.usage.counts), expected)


@pytest.mark.parametrize("n", [1, 2, 5])
@pytest.mark.parametrize("masked", [False, True])
def test_joint_entropy_is_that_of_the_list_of_all_codes(n, masked):
    rng = np.random.default_rng(4)
    x = (0.02 * rng.normal(size=(9, n))).astype("float32")
    mask = np.arange(9) < 6 if masked else None
    layer = qlayers.LookupFreeQuantizer(
        entropy_weight=1.0, commit_weight=0.0, temperature=0.05
    )
    layer(x, mask=mask)
    bits = np.arange(2**n)[:, None] >> np.arange(n) & 1
    kept = x[mask] if masked else x
    distance = ((kept[:, None].astype("float64") - (2.0 * bits - 1)) ** 2).sum(-1)
    soft = np.exp(-(distance - distance.min(-1, keepdims=True)) / 0.05)
    soft /= soft.sum(-1, keepdims=True)
    mean = soft.mean(0)
    expected = -(soft * np.log(soft)).sum(-1).mean() + (mean * np.log(mean)).sum()
    np.testing.assert_allclose(as_array(layer.losses[0]), expected, atol=2e-6)


@pytest.mark.parametrize("revive_after", [None, 2])
def test_moving_averages_leave_out_what_is_not_usable(revive_after):
    rng = np.random.default_rng(5)
    x = rng.normal(size=(20, 3 * 2)).astype("float32")
    mask = np.arange(20) != 7
    x[4, 0] = np.inf
    layer = qlayers.VectorQuantizer(
        6, 2, init="uniform", revive_after=revive_after, seed=0
    )
    layer.build(x.shape)
    before = as_array(layer.codebook)[0].astype("float64")
    codes = as_array(layer.codes(x)).reshape(-1)
    layer(x, training=True, mask=mask)
    slots = x.reshape(-1, 2)
    usable = np.isfinite(slots).all(-1) & np.repeat(mask, 3)
    counts, sums = np.zeros(6), np.zeros((6, 2))
    np.add.at(counts, codes[usable], 1)
    np.add.at(sums, codes[usable], slots[usable])
    after = 0.8 + 0.2 * counts

    def smoothed(number):
        return (number + 1e-5) / (number.sum() + 6e-5) * number.sum()

    average = 0.8 * before * smoothed(np.ones(6))[:, None] + 0.2 * sums
    np.testing.assert_allclose(
        as_array(layer.codebook)[0], average / smoothed(after)[:, None], rtol=1e-5
    )
    if revive_after:
        # A masked slot does not use its code; one with an infinity does.
        used = np.isin(np.arange(6), codes[np.repeat(mask, 3)])
        idle = as_array(layer._codebook.idle_calls)[0]
        np.testing.assert_array_equal(idle, np.where(used, 0.0, 1.0))


def test_sums_leave_out_rows_without_a_number():
    x = np.array([[1.0, 2.0], [np.nan, np.inf], [3.0, 4.0], [5.0, 6.0]], "float32")
    numbers = np.array([2, -1, 0, 2], "int32")
    sums = as_array(sum_by_integer(ops.convert_to_tensor(x), numbers, 4))
    np.testing.assert_array_equal(sums, [[3, 4], [0, 0], [6, 8], [0, 0]])


def test_selection_takes_nothing_from_the_other_side():
    x = ops.convert_to_tensor(np.array([1.0, np.nan], "float32"))
    y = ops.convert_to_tensor(np.array([np.inf, 3.0], "float32"))
    np.testing.assert_array_equal(as_array(select(y < 4.0, y, x)), [1.0, 3.0])


def test_rows_carry_gradients_to_their_table():
    index = np.array([[0, 2], [2, 2]], "int32")

    def loss(table):
        return ops.sum(ops.square(take_rows(table, index)))

    table = np.array([[1.0], [5.0], [2.0]], "float32")
    np.testing.assert_allclose(gradient_of(loss, table), [[2.0], [0.0], [12.0]])


def test_lookup_of_no_code_is_nan_and_moves_nothing():
    layer = qlayers.VectorQuantizer(4, 2, **qlayers.VectorQuantizer.PLAIN, seed=0)
    layer.build((None, 4))
    table = as_array(layer.codebook)[0]
    if keras.backend.backend() != "tensorflow":
        pytest.skip("checks a TensorFlow graph")
    import tensorflow as tf

    @tf.function
    def values_and_gradient(codes):
        with tf.GradientTape() as tape:
            values = layer.lookup(codes)
            loss = tf.reduce_sum(tf.where(codes[:, 1] < 0, 0.0, values[:, 0]))
        return values, tf.convert_to_tensor(tape.gradient(loss, layer.codebook.value))

    codes = np.array([[2, -1], [3, 0], [-5, 1]], "int32")
    values, gradient = map(as_array, values_and_gradient(codes))
    expected = np.concatenate([np.full((1, 2), np.nan, "float32"), table])
    rows = expected[np.maximum(codes, -1) + 1].reshape(3, 4)
    np.testing.assert_array_equal(values, rows)
    np.testing.assert_array_equal(gradient[0, :, 0], [0, 0, 0, 1])


@pytest.mark.parametrize("name", ["latent", "grid", "signs"])
def test_nan_inside_a_graph_is_no_code(name):
    make = {
        "latent": lambda: qlayers.LatentQuantizer(4),
        "grid": lambda: qlayers.FiniteScalarQuantizer(4),
        "signs": lambda: qlayers.LookupFreeQuantizer(),
    }[name]
    if keras.backend.backend() != "tensorflow":
        pytest.skip("checks a TensorFlow graph")
    import tensorflow as tf

    layer = make()
    layer.build((None, 3))
    x = np.array([[0.1, np.nan, np.inf], [-0.4, -np.inf, 0.3]], "float32")
    codes = as_array(tf.function(layer.codes)(x))
    last = layer.codes_per_latent[0] - 1
    assert codes[0, 1] == -1 and codes[0, 2] == last and codes[1, 1] == 0
    values = as_array(tf.function(layer)(x))
    np.testing.assert_array_equal(np.isnan(values), np.isnan(x))
    assert as_array(layer.usage.counts).sum() == 5
