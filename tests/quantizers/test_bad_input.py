"""Bad arguments and inputs: a ValueError that says what came and what was expected."""

import keras
import numpy as np
import pytest
from keras import ops

import qlayers
from qlayers.testing import case_name
from tests.contract import with_slow_variants
from tests.gradients import as_float64
from tests.quantizers.cases import CASES

pytestmark = pytest.mark.backends

every_case = pytest.mark.parametrize("case", CASES, ids=case_name)


def built(case):
    layer = case.make()
    layer.build((None, case.size))
    return layer


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda v: qlayers.LatentQuantizer(v), "num_values"),
        (lambda v: qlayers.FiniteScalarQuantizer(v), "num_values"),
        (lambda v: qlayers.FiniteScalarQuantizer([3, v]), "num_values"),
        (lambda v: qlayers.VectorQuantizer(v, 4), "num_codes"),
        (lambda v: qlayers.GumbelQuantizer(v), "num_values"),
        (lambda v: qlayers.CategoricalQuantizer(v), "num_values"),
        (lambda v: qlayers.OrderedCategoricalQuantizer(v), "num_values"),
        (lambda v: qlayers.GaussianLatent(num_values=v), "num_values"),
    ],
)
@pytest.mark.parametrize("value", [1, 0, -3, 2.0, "4", None, True])
def test_counts_below_two_or_not_integer(make, name, value):
    message = f"`{name}` must be an integer of at least 2. Received: {value!r}"
    with pytest.raises(ValueError, match=message):
        make(value)


@pytest.mark.parametrize("value", [0, 1.5, -1])
def test_bad_code_dim(value):
    for make in (qlayers.VectorQuantizer, qlayers.GumbelQuantizer):
        with pytest.raises(ValueError, match=f"`code_dim`.*Received: {value}"):
            make(8, code_dim=value)


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: qlayers.GumbelQuantizer(distance="cosine"), "distance"),
        (lambda: qlayers.GumbelQuantizer(kl_reduction="cosine"), "kl_reduction"),
        (lambda: qlayers.CategoricalQuantizer(kl_reduction="cosine"), "kl_reduction"),
        (lambda: qlayers.LatentQuantizer(loss_reduction="cosine"), "loss_reduction"),
        (lambda: qlayers.VectorQuantizer(loss_reduction="cosine"), "loss_reduction"),
        (lambda: qlayers.LatentQuantizer(track_usage="cosine"), "track_usage"),
        (lambda: qlayers.GaussianLatent(scale="cosine"), "scale"),
    ],
)
def test_unknown_choice(make, name):
    with pytest.raises(ValueError, match=f"`{name}` must be one of .*'cosine'"):
        make()


@pytest.mark.parametrize("value", [0.0, -1.0, np.inf, "1"])
def test_bad_init_range(value):
    with pytest.raises(ValueError, match=r"`init_range`.*greater than 0. Received"):
        qlayers.LatentQuantizer(init_range=value)


@pytest.mark.parametrize(
    ("make", "size", "divisor"),
    [
        (lambda: qlayers.VectorQuantizer(8, 4), 6, 4),
        (lambda: qlayers.GumbelQuantizer(8, code_dim=4), 6, 4),
        (lambda: qlayers.CategoricalQuantizer(4), 6, 4),
        (lambda: qlayers.OrderedCategoricalQuantizer(4), 6, 4),
        (qlayers.GaussianLatent, 5, 2),
    ],
)
def test_last_axis_that_does_not_divide(make, size, divisor):
    message = rf"multiple of {divisor}. Received an input of shape \(3, {size}\)"
    with pytest.raises(ValueError, match=message):
        make()(np.zeros((3, size), "float32"))


def test_list_of_counts_must_match_the_latents():
    with pytest.raises(ValueError, match=r"lists 2 latents.*\(3, 4\) has 4"):
        qlayers.FiniteScalarQuantizer([3, 5])(np.zeros((3, 4), "float32"))


@every_case
def test_unknown_last_axis(case):
    with pytest.raises(ValueError, match=r"known size. Received.*\(3, None\)"):
        case.make().build((3, None))


@every_case
@pytest.mark.parametrize("method", ["__call__", "codes"])
@pytest.mark.parametrize("change", ["one more", "one"])
def test_wrong_last_dimension_after_build(case, method, change):
    """A last axis of 1 must not be broadcast in silence."""
    layer = built(case)
    size = 1 if change == "one" else case.size + 1
    message = (
        rf"built for inputs of shape \(..., {case.size}\). Received.*\(3, {size}\)"
    )
    with pytest.raises(ValueError, match=message):
        getattr(layer, method)(np.zeros((3, size), "float32"))


@every_case
def test_a_layer_that_was_never_called_builds_itself(case):
    x = np.random.default_rng(0).normal(size=(3, case.size)).astype("float32")
    built = case.make()
    built.build((None, case.size))
    codes = as_float64(built.codes(x)).astype("int32")
    np.testing.assert_array_equal(as_float64(case.make().codes(x)), codes)
    np.testing.assert_array_equal(
        as_float64(case.make().lookup(codes)), as_float64(built.lookup(codes))
    )
    with pytest.raises(ValueError, match="Call the layer on a tensor, or `build"):
        case.make().value_table()


@every_case
def test_codes_out_of_range(case):
    layer = built(case)
    for bad in (-1, layer.codes_per_latent[0]):
        codes = np.zeros((2, layer.num_latents), "int32")
        codes[1, 0] = bad
        last = layer.codes_per_latent[0] - 1
        message = f"codes from 0 to {last} for latent 0. Received the code {bad}"
        with pytest.raises(ValueError, match=message):
            layer.lookup(codes)


@every_case
def test_codes_of_the_wrong_width_or_type(case):
    layer = built(case)
    n = layer.num_latents
    message = rf"codes of shape \(..., {n}\). Received shape \(2, {n + 1}\)"
    with pytest.raises(ValueError, match=message):
        layer.lookup(np.zeros((2, n + 1), "int32"))
    with pytest.raises(ValueError, match=r"Received shape \(\)"):
        layer.lookup(np.int32(0))
    with pytest.raises(ValueError, match=r"integers. Received dtype float32"):
        layer.lookup(np.zeros((2, n), "float32"))
    with pytest.raises(ValueError, match="integers"):
        layer.lookup(ops.zeros((2, n)))


def test_codes_are_checked_latent_by_latent():
    layer = qlayers.FiniteScalarQuantizer([2, 5])
    layer.build((None, 2))
    layer.lookup([[1, 4]])
    with pytest.raises(ValueError, match=r"from 0 to 1 for latent 0. Received the"):
        layer.lookup([[4, 1]])


@every_case
@pytest.mark.parametrize("method", ["__call__", "codes"])
def test_nan_is_an_error_in_eager_mode(case, method):
    layer = built(case)
    x = np.zeros((3, case.size), "float32")
    x[1, 0] = np.nan
    message = f"{type(layer).__name__} received NaN"
    with pytest.raises(ValueError, match=message):
        getattr(layer, method)(x)


@pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="graphs are TensorFlow's"
)
@pytest.mark.parametrize("case", with_slow_variants(CASES))
def test_nan_inside_a_graph_is_never_an_arbitrary_code(case):
    _check_nan_inside_a_graph(case, jit_compile=False)


@pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="graphs are TensorFlow's"
)
@pytest.mark.parametrize("case", with_slow_variants(CASES))
def test_nan_inside_a_compiled_graph_is_never_an_arbitrary_code(case):
    _check_nan_inside_a_graph(case, jit_compile=True)


def _check_nan_inside_a_graph(case, jit_compile):
    import tensorflow as tf

    layer = built(case)
    n = layer.num_latents
    x = np.random.default_rng(0).normal(size=(4, case.size)).astype("float32")
    # The first latent of the second sample; its inputs stand first or are spread.
    x[1, 0] = np.nan

    @tf.function(jit_compile=jit_compile)
    def run(x):
        codes = layer.codes(x)
        results = [layer(x), layer.lookup(codes)]
        if not jit_compile:
            # Last: a training step may move codes.
            results.append(layer(x, training=True))
        return codes, results

    codes, results = run(x)
    # A residual stack has a code for each step, a direction is spoiled as a whole.
    num_steps = len(getattr(layer, "quantizers", ["one"]))
    spoiled = np.zeros((4, n // num_steps), bool)
    spoiled[1, 0] = True
    spoiled[1] |= getattr(layer, "spherical", False)
    np.testing.assert_array_equal(codes == -1, np.tile(spoiled, num_steps))
    for result in results:
        by_latent = result.numpy().reshape(*spoiled.shape, -1)
        assert np.isnan(by_latent[1, 0]).any()
        assert np.isfinite(by_latent[~spoiled]).all()


@pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="graphs are TensorFlow's"
)
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize(
    ("make", "size"),
    [
        (qlayers.GumbelQuantizer, 1),
        (qlayers.CategoricalQuantizer, 3),
        (qlayers.OrderedCategoricalQuantizer, 3),
    ],
)
def test_assignments_of_nan_are_nan_inside_a_graph(make, size, training):
    import tensorflow as tf

    layer = make(3)
    layer.build((None, 2 * size))
    x = np.zeros((1, 2 * size), "float32")
    x[0, 0] = np.nan

    @tf.function
    def run(x):
        return layer(x, training=training, return_assignments=True)[1]

    weights = run(x).numpy()[0]
    assert np.isnan(weights[0]).any()
    np.testing.assert_allclose(weights[1].sum(), 1.0, rtol=1e-5)
