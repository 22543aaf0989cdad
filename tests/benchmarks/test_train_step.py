"""The two sides of the training-step benchmark are the same models."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the peer, PyTorch, is not installed")

import keras

from benchmarks import torch_peers, train_step
from qlayers import functional
from qlayers.functional.hessian_penalty import penalty_of_samples
from qlayers.functional.standardize import standard_deviation

_METHODS = [(case, m) for case in train_step.CASES for m in ("ae", case.method)]
_SMALL = [case for case in train_step.CASES if case.size == 32]


def _name(value):
    return f"{value.method}-{value.name}" if hasattr(value, "method") else str(value)


@pytest.fixture
def z():
    return np.random.default_rng(1).normal(size=(32, 5)).astype("float32")


@pytest.mark.parametrize("case, method", _METHODS, ids=_name)
def test_both_sides_have_as_many_parameters(case, method):
    ours = train_step.our_model(case, method)
    ours.compile()
    peer = train_step.torch_model(case, method)
    count = sum(int(np.prod(v.shape)) for v in ours.trainable_variables)
    assert torch_peers.num_parameters(peer) == count


def _fill_ours(model):
    """Weights that depend on a variable's kind and fan-in alone, not on its place."""
    for variable in model.trainable_variables:
        shape, name = tuple(variable.shape), variable.name
        if name == "kernel":
            is_transposed = "deconv" in variable.path or shape[:2] == (4, 4)
            is_transposed = is_transposed and "decoder" in model.name
            inputs = shape[-1] if is_transposed else shape[-2]
            fill = 1.5 / (inputs * int(np.prod(shape[:-2])))
        else:
            fill = {"gamma": 1.1, "constant": None}.get(name, 0.05)
        if fill is not None:
            variable.assign(np.full(shape, fill, "float32"))


def _fill_torch(model):
    for module in model.modules():
        weight = getattr(module, "weight", None)
        if weight is None:
            continue
        fan_in = 1
        if weight.ndim > 1:
            is_transposed = isinstance(module, torch.nn.ConvTranspose2d)
            inputs = weight.shape[0] if is_transposed else weight.shape[1]
            fan_in = inputs * int(np.prod(weight.shape[2:]))
        with torch.no_grad():
            weight.fill_(1.5 / fan_in if weight.ndim > 1 else 1.1)
            if module.bias is not None:
                module.bias.fill_(0.05)


@pytest.mark.parametrize("case", _SMALL, ids=_name)
def test_both_sides_compute_the_same(case):
    ours = train_step.our_model(case, "ae")
    peer = train_step.torch_model(case, "ae")
    encoder = ours.encoder.get_layer("encoder_network")
    _fill_ours(encoder)
    _fill_ours(ours.decoder)
    _fill_torch(peer)
    images = case.images("ae")[:3]
    latents = np.random.default_rng(2).normal(size=(3, 12)).astype("float32")
    with torch.no_grad():
        channels_first = torch.from_numpy(images).permute(0, 3, 1, 2)
        their_latents = peer.encoder(channels_first).numpy()
        their_images = peer.decoder(torch.from_numpy(latents)).permute(0, 2, 3, 1)
        their_loss = peer.loss(channels_first).item()
    our_latents = keras.ops.convert_to_numpy(encoder(images))
    our_images = keras.ops.convert_to_numpy(ours.decoder(latents))
    np.testing.assert_allclose(our_latents, their_latents, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(our_images, their_images.numpy(), rtol=1e-3, atol=1e-4)
    our_loss = ours.compute_loss(images, y_pred=ours(images))
    np.testing.assert_allclose(float(our_loss), their_loss, rtol=1e-4)


def test_quantization_is_the_same(z):
    import qlayers

    layer = qlayers.LatentQuantizer(10, quantize_weight=1.0, commit_weight=1.0)
    expected = keras.ops.convert_to_numpy(layer(z))
    codebook = torch.linspace(-0.5, 0.5, 10).repeat(5, 1)
    values, terms = torch_peers.latent_quantize(torch.from_numpy(z), codebook)
    np.testing.assert_allclose(values.numpy(), expected, atol=1e-6)
    np.testing.assert_allclose(terms.item(), float(sum(layer.losses)), rtol=1e-5)

    squashed = torch.tanh(torch.from_numpy(z))
    expected = keras.ops.convert_to_numpy(qlayers.FiniteScalarQuantizer(12)(z))
    rounded = torch_peers.finite_scalar(squashed, 12).numpy()
    np.testing.assert_allclose(rounded, expected, atol=1e-6)


def test_multiinformation_is_the_same(z):
    scale = z.std(0)
    expected = float(functional.kernel_multiinformation(z, scale))
    value = torch_peers.kernel_multiinformation(
        torch.from_numpy(z), torch.from_numpy(scale)
    )
    np.testing.assert_allclose(value.item(), expected, rtol=1e-4)


def test_hessian_penalty_is_the_same(z):
    directions = torch_peers.draw_directions(*z.shape)
    directions = directions * torch.from_numpy(
        keras.ops.convert_to_numpy(standard_deviation(z))
    )
    expected = penalty_of_samples(
        lambda x: [keras.ops.sin(x) * x[:, :1], x**2],
        z,
        directions.numpy(),
        0.1,
        True,
        "joint",
    )
    value = torch_peers.normalized_hessian_penalty(
        lambda x: [torch.sin(x) * x[:, :1], x**2], torch.from_numpy(z), directions
    )
    np.testing.assert_allclose(value.item(), float(keras.ops.mean(expected)), rtol=1e-3)


def test_cliff_terms_are_the_same(z):
    conditions = np.arange(20)
    points = np.linspace(-1.7, 1.7, 100, dtype="float32")
    expected = functional.cliff_terms(z, conditions=conditions, uniform_points=points)
    values = torch_peers.cliff_terms(
        torch.from_numpy(z), torch.from_numpy(conditions), torch.from_numpy(points)
    )
    for name, value in values.items():
        np.testing.assert_allclose(value.item(), float(expected[name]), rtol=1e-3)


def test_divergence_of_assignments_is_the_same(z):
    codebook = np.linspace(-1.0, 1.0, 8, dtype="float32")
    logits = -np.abs(z[..., None] - codebook)
    expected = functional.uniform_kl(logits)
    weights, divergence = torch_peers.gumbel_assignments(
        torch.from_numpy(z), torch.from_numpy(codebook), 1.0
    )
    np.testing.assert_allclose(weights.sum(-1).numpy(), 1.0, rtol=1e-5)
    np.testing.assert_allclose(
        divergence.item(), float(keras.ops.mean(keras.ops.sum(expected, -1))), rtol=1e-5
    )


@pytest.mark.parametrize("case", _SMALL[-1:] + _SMALL[2:4], ids=_name)
def test_a_peer_step_trains_what_it_should(case):
    model = torch_peers.build(
        case.method, case.network, (16, 16, 3), 4, 0.1, case.loss, **case.options
    )
    images = np.random.default_rng(0).random((8, 16, 16, 3), dtype="float32")
    before = [p.detach().clone() for p in model.parameters()]
    step = torch_peers.side(model, case.method, images, channels_last=True)
    losses = [step() for _ in range(3)]
    assert np.all(np.isfinite(losses))
    moved = [not torch.equal(a, b) for a, b in zip(before, model.parameters())]
    assert np.mean(moved) > 0.9
