"""ResidualQuantizer: sums of quantizers, their codes and gradients."""

import numpy as np
import pytest
from keras import ops

import qlayers
from tests.gradients import as_float64, gradients

pytestmark = pytest.mark.backends

DIM, NUM_CODES = 3, 6
rng = np.random.default_rng(0)
TABLES = [rng.normal(size=(NUM_CODES, DIM)).astype("float32") / 2**k for k in range(3)]
X = rng.normal(size=(10, DIM)).astype("float32")


def vectors():
    steps = [
        qlayers.VectorQuantizer(
            NUM_CODES, DIM, loss_reduction="sum", **qlayers.VectorQuantizer.PLAIN
        )
        for _ in TABLES
    ]
    layer = qlayers.ResidualQuantizer(steps)
    layer.build((None, DIM))
    for step, table in zip(steps, TABLES, strict=True):
        step.codebook.assign(table[None])
    return layer


def greedy(x):
    """Nearest vector of each table to what the tables before left over."""
    rest, codes, commit = x.astype("float64"), [], 0.0
    for table in TABLES:
        code = ((rest[:, None] - table) ** 2).sum(-1).argmin(-1)
        codes.append(code)
        commit += ((rest - table[code]) ** 2).sum(-1).mean()
        rest = rest - table[code]
    return x - rest, np.stack(codes, -1), commit


def test_vectors_are_greedy_sums():
    layer = vectors()
    z, codes, squares = greedy(X)
    np.testing.assert_allclose(as_float64(layer(X)), z, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(as_float64(layer.codes(X)), codes)
    np.testing.assert_allclose(as_float64(layer.lookup(codes)), z, rtol=1e-5, atol=1e-6)
    losses = sum(float(as_float64(loss)) for loss in layer.losses)
    np.testing.assert_allclose(losses, 1.25 * squares, rtol=1e-5)
    assert as_float64(layer.value_table()).shape == (3, NUM_CODES, DIM)


def test_gradient_passes_the_sum_once():
    a = rng.normal(size=X.shape).astype("float32")
    found = gradients(vectors(), X, lambda z: ops.sum(ops.multiply(a, z)))
    np.testing.assert_allclose(found.inputs, a, rtol=1e-6)


def test_vectors_are_those_of_vector_quantize_pytorch():
    torch = pytest.importorskip("torch")
    peer = pytest.importorskip("vector_quantize_pytorch")
    theirs = peer.ResidualVQ(
        dim=DIM, codebook_size=NUM_CODES, num_quantizers=3, rotation_trick=False
    ).eval()
    for step, table in zip(theirs.layers, TABLES, strict=True):
        step._codebook.embed.copy_(torch.tensor(table[None]))
    z, codes, _ = theirs(torch.tensor(X[:, None]))
    layer = vectors()
    np.testing.assert_array_equal(as_float64(layer.codes(X)), codes.numpy()[:, 0])
    np.testing.assert_allclose(
        as_float64(layer(X)), z.detach().numpy()[:, 0], rtol=1e-5, atol=1e-6
    )


def grids(counts=(4, 4)):
    return qlayers.ResidualQuantizer(
        [qlayers.FiniteScalarQuantizer(m, squash="clip") for m in counts]
    )


def test_grids_are_those_of_vector_quantize_pytorch():
    torch = pytest.importorskip("torch")
    peer = pytest.importorskip("vector_quantize_pytorch")
    theirs = peer.ResidualFSQ(levels=[4] * DIM, num_quantizers=2, dim=DIM).eval()
    z, tokens = theirs(torch.tensor(X[:, None]))
    layer = grids()
    np.testing.assert_allclose(
        as_float64(layer(X)), z.detach().numpy()[:, 0], rtol=1e-4, atol=1e-5
    )
    codes = as_float64(layer.codes(X)).astype("int32")
    for k, step in enumerate(layer.quantizers):
        own = as_float64(step.to_token(codes[:, k * DIM : (k + 1) * DIM]))
        np.testing.assert_array_equal(own, tokens.numpy()[:, 0, k])


def test_finer_grids_come_nearer_to_the_limited_input():
    x = np.linspace(-5, 5, 400, dtype="float32")[:, None]
    errors = []
    for counts in ((4,), (4, 4), (4, 4, 4)):
        layer = grids(counts)
        errors.append(np.abs(as_float64(layer(x) - layer.continuous(x))).max())
    half_cell = 1 / 3
    np.testing.assert_allclose(errors, half_cell * 4.0 ** -np.arange(3), rtol=0.05)


def test_given_scales_and_limit():
    steps = [qlayers.FiniteScalarQuantizer(3, squash="clip") for _ in range(2)]
    layer = qlayers.ResidualQuantizer(steps, scales=[2.0, 0.5], limit=4.0)
    x = 4.0 * np.tanh(X / 4.0)
    first = 2.0 * np.clip(np.round(x / 2.0), -1, 1)
    second = 0.5 * np.clip(np.round((x - first) / 0.5), -1, 1)
    np.testing.assert_allclose(as_float64(layer(X)), first + second, rtol=1e-5)


def test_bad_arguments():
    step = qlayers.VectorQuantizer(4, 2)
    for quantizers in ([], [3], step, [step, step]):
        with pytest.raises(ValueError, match="`quantizers` must be"):
            qlayers.ResidualQuantizer(quantizers)
    with pytest.raises(ValueError, match=r"`scales` must have a number for each of"):
        qlayers.ResidualQuantizer([step], scales=[1.0, 2.0])
