"""Revival of dead codes: onto a real input, once, and nothing else moves."""

import keras
import numpy as np
import pytest

import qlayers
from tests.gradients import as_float64

pytestmark = pytest.mark.backends

rng = np.random.default_rng(0)


def latent(revive_after, **kwargs):
    """Values -4, -2, 0, 2, 4 for two latents; inputs near 0 and 2 use two of them."""
    layer = qlayers.LatentQuantizer(
        5, init_range=4.0, revive_after=revive_after, seed=0, **kwargs
    )
    layer.build((None, 2))
    return layer


def batch(size=6):
    x = rng.choice([0.0, 2.0], size=(size, 2)) + rng.uniform(-0.3, 0.3, (size, 2))
    x[0], x[1] = 0.1, 2.1
    return x.astype("float32")


def call(layer, times, training=True):
    """Calls the layer on as many batches."""
    for _ in range(times):
        layer(batch(), training=training)


def table_of(layer):
    return as_float64(layer.value_table())


def test_nothing_moves_without_revival():
    layer = latent(None)
    before = table_of(layer)
    call(layer, 5)
    np.testing.assert_array_equal(table_of(layer), before)
    assert [variable.name for variable in layer.weights] == ["codebook"]


def test_dead_codes_move_onto_inputs_of_the_batch_and_used_ones_stay():
    layer = latent(3)
    start = table_of(layer)
    for _ in range(2):
        call(layer, 1)
        np.testing.assert_array_equal(table_of(layer), start)
    last = batch()
    layer(last, training=True)
    after = table_of(layer)
    np.testing.assert_array_equal(after[:, [2, 3]], start[:, [2, 3]])
    for j in range(2):
        for k in (0, 1, 4):
            assert np.abs(last[:, j] - after[j, k]).min() < 1e-6


def test_inference_calls_neither_count_nor_move():
    layer = latent(1)
    start = table_of(layer)
    call(layer, 4, training=False)
    np.testing.assert_array_equal(table_of(layer), start)


def test_a_revived_code_stays_where_it_is_and_its_counter_restarts():
    layer = latent(2)
    call(layer, 2)
    revived = table_of(layer)
    idle = as_float64(layer._codebook.idle_calls)
    np.testing.assert_array_equal(idle, 0.0)
    # Inputs far from it: idle again, but moved only after two more calls.
    far = np.array([[0.0, 0.0], [2.0, 2.0]], "float32") + 100.0
    layer(far, training=True)
    np.testing.assert_array_equal(table_of(layer), revived)
    layer(far, training=True)
    assert not np.array_equal(table_of(layer), revived)


def test_a_code_used_once_in_a_while_never_moves():
    layer = latent(2)
    everything = np.array([[v, v] for v in (-4, -2, 0, 2, 4)], "float32")
    start = table_of(layer)
    for step in range(6):
        layer(everything if step % 2 else batch(), training=True)
    np.testing.assert_array_equal(table_of(layer), start)


@pytest.mark.parametrize(
    "make_optimizer",
    [
        lambda: keras.optimizers.SGD(0.1, momentum=0.9),
        lambda: keras.optimizers.Adam(0.05),
    ],
    ids=["momentum", "adam"],
)
def test_the_optimizer_does_not_drag_a_revived_code_back(make_optimizer):
    """The dead code is trained for a while first, so that momentum has built up."""
    layer = latent(4, quantize_weight=1.0, commit_weight=0.0)
    inputs = keras.Input((2,))
    model = keras.Model(inputs, layer(inputs))
    model.compile(make_optimizer(), "mse")
    wide = np.array([[3.0, -3.1], [-3.0, 3.1], [0.1, 0.2]] * 2, "float32")
    narrow = np.array([[0.1, 0.2], [0.3, -0.2], [-0.4, 0.1]] * 2, "float32")
    for _ in range(3):
        model.train_on_batch(wide, wide)
    for _ in range(4):
        model.train_on_batch(narrow, narrow)
    table = table_of(layer)
    # Revived in the last step: all codes are among the inputs now, up to one small
    # optimizer step.
    assert np.abs(table).max() < 1.5
    codes = as_float64(layer.codes(narrow)).astype(int)
    assert max(len(np.unique(codes[:, j])) for j in range(2)) >= 2
    # And they still are, a step later.
    model.train_on_batch(narrow, narrow)
    assert np.abs(table_of(layer)).max() < 1.5


@pytest.mark.parametrize("kind", ["vector", "gumbel"])
def test_vectors_are_revived_onto_whole_slots(kind):
    if kind == "vector":
        layer = qlayers.VectorQuantizer(
            6,
            2,
            codebook_update="gradient",
            init="uniform",
            revive_after=1,
            seed=0,
        )
    else:
        layer = qlayers.GumbelQuantizer(6, code_dim=2, revive_after=1, seed=0)
    layer.build((None, 4))
    table = 50.0 + np.arange(12, dtype="float32").reshape(1, 6, 2)
    table[0, 0] = 0.0
    layer.codebook.assign(table)
    x = rng.normal(size=(8, 4)).astype("float32")
    assert set(as_float64(layer.codes(x)).ravel()) == {0.0}
    layer(x, training=True)
    after = as_float64(layer.value_table())[0]
    np.testing.assert_array_equal(after[0], 0.0)
    slots = x.reshape(-1, 2)
    for k in range(1, 6):
        assert np.abs(slots - after[k]).sum(-1).min() < 1e-5


def test_shared_codebook_counts_all_latents():
    """A code that any latent uses is alive."""
    layer = latent(1, shared_codebook=True)
    x = np.array([[-4.0, 0.0], [-2.0, 2.0], [-4.0, 4.0]], "float32")
    start = table_of(layer)
    layer(x, training=True)
    np.testing.assert_array_equal(table_of(layer), start)


def test_infinite_inputs_never_become_codes():
    layer = latent(1)
    start = table_of(layer)
    layer(np.full((4, 2), np.inf, "float32"), training=True)
    np.testing.assert_array_equal(table_of(layer), start)


@pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="graphs are TensorFlow's"
)
def test_nan_inputs_in_a_graph_never_become_codes():
    import tensorflow as tf

    layer = latent(1)
    start = table_of(layer)
    tf.function(lambda x: layer(x, training=True))(tf.fill((4, 2), np.nan))
    np.testing.assert_array_equal(table_of(layer), start)


def test_choice_follows_the_seed():
    tables = []
    x = batch(40)
    for _ in range(2):
        layer = latent(1)
        layer(x, training=True)
        tables.append(table_of(layer))
    np.testing.assert_array_equal(*tables)


@pytest.mark.parametrize("value", [0, -1, 2.5, "3", True])
def test_bad_revive_after(value):
    with pytest.raises(ValueError, match=r"revive_after.*Received"):
        qlayers.LatentQuantizer(revive_after=value)
