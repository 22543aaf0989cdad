"""LookupFreeQuantizer: signs, and entropies over all codes."""

import itertools

import numpy as np
import pytest
from keras import ops

import qlayers
from tests.gradients import as_float64, gradients

pytestmark = pytest.mark.backends

N = 4
rng = np.random.default_rng(0)
X = rng.normal(size=(12, N)).astype("float32")


def make(**kwargs):
    kwargs = {"temperature": 2.0, "commit_weight": 0.5, **kwargs}
    layer = qlayers.LookupFreeQuantizer(**kwargs)
    layer.build((None, N))
    return layer


def entropy(p):
    return -(p * np.log(np.maximum(p, 1e-300))).sum(-1)


def by_listing_all_codes(x, size, temperature):
    """Mean entropy of the samples, and the entropy of the mean over 2^n codes."""
    codes = size * np.array(list(itertools.product([-1.0, 1.0], repeat=N)))
    logits = -((x[:, None] - codes) ** 2).sum(-1) / temperature
    q = np.exp(logits - logits.max(-1, keepdims=True))
    q = q / q.sum(-1, keepdims=True)
    return entropy(q).mean(), entropy(q.mean(0)), q @ (codes > 0)


@pytest.mark.parametrize("spherical", [False, True])
@pytest.mark.parametrize("mode", ["joint", "factorized"])
def test_values_codes_and_losses(spherical, mode):
    layer = make(spherical=spherical, entropy=mode, entropy_weight=0.3, diversity=0.7)
    x = X.astype("float64")
    size = 1.0
    if spherical:
        x, size = x / np.linalg.norm(x, axis=-1, keepdims=True), N**-0.5
    z = size * np.sign(x)
    np.testing.assert_allclose(as_float64(layer(X)), z, rtol=1e-6)
    np.testing.assert_array_equal(as_float64(layer.codes(X)), x > 0)
    of_samples, of_batch, bits = by_listing_all_codes(x, size, 2.0)
    if mode == "factorized":
        p = bits.mean(0)
        of_batch = entropy(np.stack([p, 1 - p], -1)).sum()
    expected = [0.3 * (of_samples - 0.7 * of_batch), 0.5 * ((x - z) ** 2).mean()]
    found = [as_float64(loss) for loss in layer.losses]
    np.testing.assert_allclose(sorted(found), sorted(expected), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("spherical", [False, True])
def test_losses_and_gradients_are_those_of_vector_quantize_pytorch(spherical):
    torch = pytest.importorskip("torch")
    peer = pytest.importorskip("vector_quantize_pytorch")
    size = N**-0.5 if spherical else 1.0
    layer = make(
        spherical=spherical, entropy_weight=0.1, commit_weight=0.25, temperature=1.0
    )
    found = gradients(layer, X, lambda z: ops.sum(ops.square(z - 0.3)), add_losses=True)
    theirs = peer.LFQ(
        dim=N,
        codebook_size=2**N,
        entropy_loss_weight=0.1,
        commitment_loss_weight=0.25,
        spherical=spherical,
        codebook_scale=1.0,
    ).train()
    x = torch.tensor(X[:, None], requires_grad=True)
    z, token, loss = theirs(x, inv_temperature=1.0)
    ((z - 0.3).square().sum() + loss).backward()
    np.testing.assert_allclose(
        found.outputs[0], z.detach().numpy()[:, 0], rtol=1e-5, atol=1e-6
    )
    np.testing.assert_allclose(np.abs(found.outputs[0]), size, rtol=1e-5)
    layer(X)
    ours = sum(float(as_float64(each)) for each in layer.losses)
    np.testing.assert_allclose(ours, float(loss.detach()), rtol=1e-4)
    np.testing.assert_allclose(found.inputs, x.grad.numpy()[:, 0], rtol=1e-3, atol=1e-5)
    # Their first bit counts most, ours least.
    ours = as_float64(layer.to_token(layer.codes(X[:, ::-1])))
    np.testing.assert_array_equal(ours, token.numpy()[:, 0])


def test_entropy_of_sharp_assignments_is_finite():
    layer = make(temperature=1e-4, entropy_weight=1.0, commit_weight=0.0)
    found = gradients(layer, 100.0 * X, add_losses=True)
    assert np.all(np.isfinite(found.inputs))
    layer(100.0 * X)
    assert np.isfinite(float(as_float64(layer.losses[0])))


def test_joint_entropy_of_many_bits_is_refused_with_the_cure():
    with pytest.raises(ValueError, match=r'n = 17. Use `entropy="factorized"`'):
        qlayers.LookupFreeQuantizer().build((None, 17))
    qlayers.LookupFreeQuantizer(entropy="factorized").build((None, 17))
