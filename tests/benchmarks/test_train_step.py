"""The two sides of the training-step benchmark are the same models."""

import keras
import numpy as np
import pytest

import qlayers
from benchmarks import train_step
from qlayers import functional
from qlayers.functional.hessian_penalty import penalty_of_samples
from qlayers.functional.standardize import standard_deviation

torch = pytest.importorskip("torch", reason="the peer, PyTorch, is not installed")
torch_peers = pytest.importorskip("benchmarks.torch_peers")

_METHODS = [
    pytest.param(case, m, marks=[pytest.mark.slow] * (case.size > 32))
    for case in train_step.CASES
    for m in ("ae", case.method)
]
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


def _values(shape, is_scale=False):
    """Random weights that depend on the shape, in PyTorch's order of axes, alone."""
    drawn = np.random.default_rng(list(shape)).normal(size=shape).astype("float32")
    if len(shape) == 1:
        return 1.0 + 0.3 * drawn if is_scale else 0.3 * drawn
    return drawn / np.sqrt(np.prod(shape[1:]))


def _fill_torch(model):
    for name, parameter in model.named_parameters():
        filled = _values(parameter.shape, is_scale=name.endswith("weight"))
        parameter.data.copy_(torch.from_numpy(filled))


def _fill_ours(network):
    """The same weights; axes that PyTorch flattens in another order are reordered."""
    before_dense = {}
    names = [layer.name for layer in network.layers]
    if "flatten" in names:
        first = next(x for x in network.layers if isinstance(x, keras.layers.Dense))
        before_dense[first.name] = network.get_layer("flatten").input.shape[1:]
    after_dense = {}
    if "start_dense" in names:
        after_dense["start_dense"] = network.get_layer("start").output.shape[1:]
    for layer in network.layers:
        for variable in layer.trainable_variables:
            variable.assign(_reordered(layer, variable, before_dense, after_dense))


def _reordered(layer, variable, before_dense, after_dense):
    shape = tuple(variable.shape)
    if variable.name == "constant":
        return _values((1, shape[2], *shape[:2]))[0].transpose(1, 2, 0)
    if layer.name in after_dense:
        rows, columns, channels = after_dense[layer.name]
        values = _values(shape[::-1]).reshape(channels, rows, columns, -1)
        return values.transpose(3, 1, 2, 0).reshape(shape)
    if len(shape) == 1:
        return _values(shape, is_scale=variable.name == "gamma")
    if len(shape) == 2:
        rows, columns, channels = before_dense.get(layer.name, (1, 1, shape[0]))
        values = _values(shape[::-1]).reshape(-1, channels, rows, columns)
        return values.transpose(2, 3, 1, 0).reshape(shape)
    values = _values((shape[3], shape[2], *shape[:2]))
    if layer.name.endswith("_down"):
        values = values.reshape(shape[3], -1, 2, 2)
    return values.transpose(2, 3, 1, 0).reshape(shape)


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
    assert np.ptp(our_latents, axis=0).max() > 0.01
    our_loss = ours.compute_loss(images, y_pred=ours(images))
    np.testing.assert_allclose(float(our_loss), their_loss, rtol=1e-4)


def test_quantization_is_the_same(z):
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
    pairs = zip(before, model.named_parameters(), strict=True)
    still = [name for old, (name, new) in pairs if torch.equal(old, new)]
    assert not still


def test_the_goal_is_for_the_faster_way_of_each_side():
    seconds = {
        "AE": 2.0,
        "AE, XLA": 1.0,
        "AE, PyTorch, contiguous": 4.0,
        "AE, PyTorch, contiguous, compiled": 1.25,
    }
    clocks = {name: train_step.CpuClock(lambda: None) for name in seconds}
    for name, clock in clocks.items():
        clock.seconds = [seconds[name]]
    times = {name: [value] * 3 for name, value in seconds.items()}
    rows = train_step._rows_of_method(train_step.CASES[0], "AE", times, clocks)
    found = [(row["ours"], row["peer"], row["ratio"]) for row in rows]
    assert found == [
        ("AE, XLA", "AE, PyTorch, contiguous, compiled", 0.8),
        ("AE, XLA", "AE, PyTorch, contiguous", 0.25),
        ("AE, XLA", "AE", 0.5),
    ]
    assert [row.get("goal") for row in rows] == [train_step.GOAL, None, None]
