"""Tokens for combinations of codes, and quantizers of channels-first maps."""

import itertools

import numpy as np
import pytest

import qlayers
from tests.gradients import as_float64

pytestmark = pytest.mark.backends
rng = np.random.default_rng(0)


def test_tokens_number_all_combinations():
    layer = qlayers.FiniteScalarQuantizer([2, 3, 4])
    layer.build((None, 3))
    codes = np.array(list(itertools.product(range(2), range(3), range(4))), "int32")
    tokens = as_float64(layer.to_token(codes)).astype("int32")
    assert sorted(tokens) == list(range(24))
    # The first latent counts least.
    np.testing.assert_array_equal(tokens, codes @ [1, 2, 6])
    np.testing.assert_array_equal(as_float64(layer.from_token(tokens)), codes)


def test_tokens_are_those_of_vector_quantize_pytorch():
    torch = pytest.importorskip("torch")
    peer = pytest.importorskip("vector_quantize_pytorch")
    theirs = peer.FSQ(levels=[8, 5, 5], preserve_symmetry=True)
    x = rng.normal(size=(20, 3)).astype("float32")
    _, tokens = theirs(torch.tensor(x[:, None]))
    layer = qlayers.FiniteScalarQuantizer([8, 5, 5])
    np.testing.assert_array_equal(
        as_float64(layer.to_token(layer.codes(x))), tokens.numpy()[:, 0]
    )


def test_no_code_is_no_token():
    layer = qlayers.FiniteScalarQuantizer(4)
    layer.build((None, 2))
    codes = np.array([[[1, 2], [-1, 3]]], "int32")
    tokens = as_float64(layer.to_token(codes))
    np.testing.assert_array_equal(tokens, [[9, -1]])
    found = as_float64(layer.from_token(tokens.astype("int32")))
    np.testing.assert_array_equal(found, [[[1, 2], [-1, -1]]])


@pytest.mark.parametrize(
    ("num_values", "dtype"),
    [([4] * 4, "uint8"), ([16] * 4, "uint16"), ([8] * 3, "int16"), ([2] * 31, "int32")],
)
def test_tokens_of_a_type_that_just_holds_them(num_values, dtype):
    layer = qlayers.FiniteScalarQuantizer(num_values)
    layer.build((None, len(num_values)))
    codes = rng.integers(0, num_values, (50, len(num_values)))
    codes[0], codes[1] = 0, np.array(num_values) - 1
    places = np.cumprod([1, *num_values[:-1]])
    tokens = codes @ places
    assert tokens[1] == np.prod(num_values) - 1
    found = as_float64(layer.to_token(codes.astype("uint8")))
    np.testing.assert_array_equal(found, tokens)
    found = as_float64(layer.from_token(tokens.astype(dtype)))
    np.testing.assert_array_equal(found, codes)


@pytest.mark.parametrize(
    ("token", "dtype"), [(200, "uint8"), (2**32 + 3, "int64"), (2**63 + 3, "uint64")]
)
def test_tokens_out_of_range_in_every_type(token, dtype):
    layer = qlayers.FiniteScalarQuantizer(4)
    layer.build((None, 2))
    with pytest.raises(ValueError, match=rf"from 0 to 15. Received the token {token}"):
        layer.from_token(np.array([3, token], dtype))


def test_bad_tokens():
    layer = qlayers.FiniteScalarQuantizer(4)
    with pytest.raises(ValueError, match="Call the layer on a tensor, or `build"):
        layer.from_token([0])
    layer.build((None, 2))
    with pytest.raises(ValueError, match=r"from 0 to 15. Received the token 16"):
        layer.from_token(np.array([3, 16]))
    with pytest.raises(ValueError, match="Tokens are integers"):
        layer.from_token(np.array([3.0]))
    many = qlayers.FiniteScalarQuantizer(12)
    with pytest.raises(ValueError, match=r"12 latents have .* 2\^31"):
        many.to_token(np.zeros((1, 12), "int32"))


MAKERS = {
    "vector": lambda **kw: qlayers.VectorQuantizer(
        5, 2, similarity="cosine", gradient="rotation", seed=0, **kw
    ),
    "finite_scalar": lambda **kw: qlayers.FiniteScalarQuantizer([2, 3, 4, 5], **kw),
    "lookup_free": lambda **kw: qlayers.LookupFreeQuantizer(spherical=True, **kw),
    "residual": lambda **kw: qlayers.ResidualQuantizer(
        [qlayers.VectorQuantizer(5, 2, seed=seed) for seed in (0, 1)], **kw
    ),
}


@pytest.mark.parametrize("kind", MAKERS)
def test_channels_first_maps_are_channels_last_ones_transposed(kind):
    x = rng.normal(size=(2, 3, 5, 4)).astype("float32")
    last, first = MAKERS[kind](), MAKERS[kind](axis=1)
    expected = as_float64(last(x))
    turned = np.transpose(x, (0, 3, 1, 2))
    found = first(turned)
    np.testing.assert_allclose(as_float64(found), expected.transpose(0, 3, 1, 2))
    codes = as_float64(last.codes(x)).astype("int32")
    np.testing.assert_array_equal(as_float64(first.codes(turned)), codes)
    np.testing.assert_allclose(as_float64(first.lookup(codes)), as_float64(found))
    np.testing.assert_allclose(
        as_float64(first.continuous(turned)),
        as_float64(last.continuous(x)).transpose(0, 3, 1, 2),
    )
    np.testing.assert_allclose(
        [as_float64(loss) for loss in first.losses],
        [as_float64(loss) for loss in last.losses],
        rtol=1e-6,
    )
    restored = type(first).from_config(first.get_config())
    assert restored.axis == 1


@pytest.mark.parametrize("axis", [0, -2, 1.0, "channels"])
def test_bad_axis(axis):
    with pytest.raises(ValueError, match="`axis` must be -1"):
        qlayers.FiniteScalarQuantizer(axis=axis)
