"""VectorQuantizer's options: moving averages, data start, cosine, rotation."""

import keras
import numpy as np
import pytest
from keras import ops

import qlayers
from tests.gradients import as_float64, gradients
from tests.quantizers.plain_vectors import plain_vector_quantizer

pytestmark = pytest.mark.backends

SLOTS, DIM, NUM_CODES = 2, 3, 6
rng = np.random.default_rng(0)
TABLE = rng.normal(size=(NUM_CODES, DIM)).astype("float32")


def make(**kwargs):
    return plain_vector_quantizer(TABLE, SLOTS, **kwargs)


def batch(size=16):
    return rng.normal(size=(size, SLOTS * DIM)).astype("float32")


def table_of(layer):
    return as_float64(layer.value_table())[0]


def unit(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


# ---------------------------------------------------------------- moving averages


@pytest.mark.parametrize("similarity", ["euclidean", "cosine"])
def test_moving_averages_are_those_of_the_paper(similarity):
    layer = make(codebook_update="moving_average", similarity=similarity, decay=0.8)
    counts, sums = np.ones(NUM_CODES), TABLE.astype("float64")
    for _ in range(4):
        x = batch()
        layer(x, training=True)
        vectors = x.reshape(-1, DIM).astype("float64")
        codes = sums / smoothed(counts)[:, None]
        if similarity == "cosine":
            vectors, codes = unit(vectors), unit(codes)
        chosen = ((vectors[:, None] - codes) ** 2).sum(-1).argmin(-1)
        member = np.eye(NUM_CODES)[chosen]
        counts = 0.8 * counts + 0.2 * member.sum(0)
        sums = 0.8 * sums + 0.2 * member.T @ vectors
    expected = sums / smoothed(counts)[:, None]
    if similarity == "cosine":
        expected = unit(expected)
    np.testing.assert_allclose(table_of(layer), expected, rtol=1e-4, atol=1e-5)


def smoothed(counts):
    total = counts.sum()
    return (counts + 1e-5) / (total + len(counts) * 1e-5) * total


@pytest.mark.parametrize("similarity", ["euclidean", "cosine"])
def test_moving_averages_are_those_of_vector_quantize_pytorch(similarity):
    torch = pytest.importorskip("torch")
    peer = pytest.importorskip("vector_quantize_pytorch")
    is_cosine = similarity == "cosine"
    start = unit(TABLE) if is_cosine else TABLE
    layer = make(codebook_update="moving_average", similarity=similarity, decay=0.8)
    layer.codebook.assign(start[None])
    theirs = peer.VectorQuantize(
        dim=DIM, codebook_size=NUM_CODES, decay=0.8, use_cosine_sim=is_cosine
    ).train()
    theirs._codebook.embed.copy_(torch.tensor(start[None]))
    theirs._codebook.embed_avg.copy_(torch.tensor(start[None]))
    for _ in range(5):
        x = batch()
        ours = layer(x, training=True)
        z, _, _ = theirs(torch.tensor(x.reshape(-1, 1, DIM)))
        np.testing.assert_allclose(
            as_float64(ours).reshape(-1, DIM),
            z.detach().numpy()[:, 0],
            rtol=1e-4,
            atol=1e-5,
        )
    np.testing.assert_allclose(
        table_of(layer), theirs.codebook.detach().numpy(), rtol=1e-4, atol=1e-5
    )


def test_moving_averages_leave_nothing_to_the_optimizer():
    layer = make(codebook_update="moving_average")
    layer(batch(), training=True)
    assert layer.trainable_variables == []
    assert len(layer.losses) == 1  # the commitment
    before = table_of(layer)
    layer(batch(), training=False)
    np.testing.assert_array_equal(table_of(layer), before)


def test_infinities_do_not_enter_the_averages():
    layer = make(codebook_update="moving_average", decay=0.5)
    x = batch(3)
    x[0] = np.inf
    layer(x, training=True)
    assert np.abs(table_of(layer)).max() < 10


def test_a_revived_average_stays_where_it_was_put():
    layer = make(codebook_update="moving_average", revive_after=3, decay=0.5)
    far = TABLE.copy()
    far[1:] += 100.0
    layer.codebook.assign(far[None])
    x = batch(4)
    for _ in range(3):
        layer(x, training=True)
    revived = table_of(layer)
    slots = x.reshape(-1, DIM)
    for code in revived[1:]:
        assert np.abs(slots - code).sum(-1).min() < 1e-5
    # One code takes a far vector; the averages of the others must not remember where
    # they were before.
    layer(np.full((1, SLOTS * DIM), 1000.0, "float32"), training=True)
    moved = np.abs(table_of(layer) - revived).sum(-1)
    assert (moved < 1e-3).sum() == NUM_CODES - 1


# ------------------------------------------------------------------- data start


def clusters(per_code=5):
    centres = rng.uniform(-20, 20, (NUM_CODES, DIM))
    x = np.repeat(centres, per_code, axis=0) + rng.uniform(-0.1, 0.1, (30, DIM))
    return rng.permutation(x).reshape(-1, SLOTS * DIM).astype("float32")


@pytest.mark.parametrize("update", ["gradient", "moving_average"])
def test_first_training_call_starts_from_k_means(update):
    layer = make(init="data", codebook_update=update)
    np.testing.assert_allclose(table_of(layer), TABLE, rtol=1e-6)
    x = clusters()
    layer(x, training=False)
    np.testing.assert_allclose(table_of(layer), TABLE, rtol=1e-6)
    z = as_float64(layer(x, training=True))
    start = qlayers.functional.k_means(x.reshape(-1, DIM), NUM_CODES, seed=0)
    vectors, means = x.reshape(-1, DIM), as_float64(start)
    nearest = ((vectors[:, None] - means) ** 2).sum(-1).argmin(-1)
    # The call itself has the new codes already.
    np.testing.assert_allclose(z.reshape(-1, DIM), means[nearest], rtol=1e-4, atol=1e-4)
    if update == "gradient":
        np.testing.assert_allclose(table_of(layer), means, rtol=1e-4, atol=1e-4)
        layer(x + 50.0, training=True)
        np.testing.assert_allclose(table_of(layer), means, rtol=1e-4, atol=1e-4)


def test_a_batch_with_an_infinity_does_not_start_the_codebook():
    layer = make(init="data")
    x = batch()
    x[0, 0] = np.inf
    layer(x, training=True)
    np.testing.assert_allclose(table_of(layer), TABLE, rtol=1e-6)
    layer(np.zeros((0, SLOTS * DIM), "float32"), training=True)
    np.testing.assert_allclose(table_of(layer), TABLE, rtol=1e-6)


def test_a_codebook_larger_than_the_batch_fills_up_from_later_batches():
    layer = qlayers.VectorQuantizer(32, DIM, revive_after=1, seed=0)
    for _ in range(12):
        layer(batch(8), training=True)
    # A batch has 16 vectors.
    assert len(np.unique(np.round(table_of(layer), 5), axis=0)) > 16


# -------------------------------------------------------------- cosine and rotation


def test_cosine_takes_the_code_of_the_largest_cosine():
    layer = make(similarity="cosine")
    x = batch() * 7.0
    slots = x.reshape(-1, SLOTS, DIM).astype("float64")
    codes = (unit(slots) @ unit(TABLE.astype("float64")).T).argmax(-1)
    np.testing.assert_array_equal(as_float64(layer.codes(x)), codes)
    z = unit(TABLE)[codes]
    np.testing.assert_allclose(as_float64(layer(x)).reshape(z.shape), z, rtol=1e-5)
    np.testing.assert_allclose(
        sorted(as_float64(loss) for loss in layer.losses),
        ((unit(slots) - z) ** 2).sum((-1, -2)).mean() * np.array([0.25, 1.0]),
        rtol=1e-4,
    )
    np.testing.assert_allclose(
        as_float64(layer.continuous(x)).reshape(z.shape), unit(slots), rtol=1e-5
    )


def test_gradient_under_cosine_passes_the_normalisation():
    layer = make(similarity="cosine")
    x, a = batch(), batch()
    found = gradients(layer, x, lambda out: ops.sum(ops.multiply(a, out)))
    slots, direction = x.reshape(-1, DIM), a.reshape(-1, DIM)
    length = np.linalg.norm(slots, axis=-1, keepdims=True)
    u = slots / length
    expected = (direction - u * (direction * u).sum(-1, keepdims=True)) / length
    np.testing.assert_allclose(
        found.inputs.reshape(-1, DIM), expected, rtol=1e-3, atol=1e-5
    )


@pytest.mark.parametrize("similarity", ["euclidean", "cosine"])
def test_rotated_gradient_is_that_of_vector_quantize_pytorch(similarity):
    torch = pytest.importorskip("torch")
    peer = pytest.importorskip("vector_quantize_pytorch")
    is_cosine = similarity == "cosine"
    layer = make(gradient="rotation", similarity=similarity)
    x, a = batch(), batch()
    found = gradients(layer, x, lambda out: ops.sum(ops.multiply(a, out)))
    theirs = peer.VectorQuantize(
        dim=DIM,
        codebook_size=NUM_CODES,
        rotation_trick=True,
        use_cosine_sim=is_cosine,
        commitment_weight=0.0,
    ).train()
    start = unit(TABLE) if is_cosine else TABLE
    theirs._codebook.embed.copy_(torch.tensor(start[None]))
    tensor = torch.tensor(x.reshape(-1, 1, DIM), requires_grad=True)
    z, _, _ = theirs(tensor)
    (z * torch.tensor(a.reshape(-1, 1, DIM))).sum().backward()
    np.testing.assert_allclose(
        found.inputs.reshape(-1, DIM), tensor.grad.numpy()[:, 0], rtol=2e-3, atol=1e-4
    )


# ------------------------------------------------------------------- other things


def test_config_of_version_0_1_is_the_plain_layer():
    config = qlayers.VectorQuantizer(8, 2).get_config()
    for name in qlayers.VectorQuantizer.PLAIN:
        del config[name]
    del config["decay"]
    layer = qlayers.VectorQuantizer.from_config(config)
    for name, value in qlayers.VectorQuantizer.PLAIN.items():
        assert getattr(layer, name) == value


@pytest.mark.parametrize("name", ["codebook_update", "init", "similarity", "gradient"])
def test_unknown_option(name):
    with pytest.raises(ValueError, match=f"`{name}` must be one of .*'other'"):
        qlayers.VectorQuantizer(**{name: "other"})


@pytest.mark.parametrize("decay", [1.0, -0.1, "0.9"])
def test_bad_decay(decay):
    with pytest.raises(ValueError, match=r"`decay`.*Received"):
        qlayers.VectorQuantizer(decay=decay)


def test_codes_stay_in_use_where_the_plain_layer_collapses():
    """Inputs far from the first codes: without the cures one code takes them all."""
    x = (rng.normal(size=(64, DIM)) + 10.0).astype("float32")
    used = {}
    for name, options in {
        "default": {},
        "plain": qlayers.VectorQuantizer.PLAIN,
    }.items():
        layer = qlayers.VectorQuantizer(16, DIM, seed=0, **options)
        inputs = keras.Input((DIM,))
        model = keras.Model(inputs, layer(inputs))
        model.compile(keras.optimizers.Adam(1e-2), "mse", run_eagerly=True)
        model.fit(x, x, batch_size=64, epochs=5, verbose=0)
        used[name] = len(np.unique(as_float64(layer.codes(x))))
    assert used["default"] >= 15
    assert used["plain"] <= 4
