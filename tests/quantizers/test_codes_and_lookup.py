"""`Codes` and `Lookup` share the quantizer: one codebook, never an old one."""

import keras
import numpy as np
import pytest
from keras import ops

import qlayers
from qlayers.testing import case_name
from qlayers.testing.layer_contract import as_list
from tests.quantizers.cases import CASES

pytestmark = pytest.mark.backends

NAMES = ("latent", "latent_shared", "vector_revived", "gumbel_vector", "categorical")
NAMES += ("finite_scalar", "ordered_categorical_masked", "gaussian")
CHOSEN = [case for case in CASES if case.name in NAMES]


def numpy_of(x):
    return ops.convert_to_numpy(x)


def assert_same(a, b):
    np.testing.assert_array_equal(numpy_of(a), numpy_of(b))


def move(quantizer, seed=0):
    """Sets every weight of the codebook to something else, as training would."""
    rng = np.random.default_rng(seed)
    for variable in quantizer.weights:
        if "codebook" in variable.name or "moved" in variable.name:
            variable.assign(rng.normal(size=variable.shape).astype("float32"))


def both_ways(case, quantizer):
    """Models of codes and of values, made by the natural lines."""
    inputs = keras.Input((case.size,))
    quantizer(inputs)
    codes = keras.Input((quantizer.num_latents,), dtype="int32")
    return (
        keras.Model(inputs, quantizer.codes(inputs)),
        keras.Model(codes, quantizer.lookup(codes)),
    )


@pytest.mark.parametrize("case", CHOSEN, ids=case_name)
def test_models_made_before_training_are_right_after_it(case):
    quantizer = case.make()
    tokens_of, values_of = both_ways(case, quantizer)
    x = np.random.default_rng(1).normal(size=(64, case.size)).astype("float32")
    before = numpy_of(tokens_of(x))
    move(quantizer)
    tokens = tokens_of(x)
    assert_same(tokens, quantizer.codes(x))
    assert_same(values_of(tokens), quantizer.lookup(tokens))
    assert keras.backend.standardize_dtype(tokens.dtype) == "int32"
    has_inputs_compared = case.name in ("latent", "vector_revived", "gumbel_vector")
    assert has_inputs_compared <= (not np.array_equal(before, numpy_of(tokens)))
    assert not tokens_of.losses
    assert quantizer.usage is None or not np.any(quantizer.usage.counts)


def test_codes_are_the_nearest_of_the_trained_codebook():
    quantizer = qlayers.LatentQuantizer(5)
    inputs = keras.Input((3,))
    hidden = keras.layers.Dense(3)(inputs)
    tokenizer = keras.Model(inputs, quantizer.codes(hidden))
    head = keras.Model(inputs, hidden)
    model = keras.Model(inputs, keras.layers.Dense(3)(quantizer(hidden)))
    model.compile(keras.optimizers.Adam(0.1), "mse")
    x = np.random.default_rng(0).normal(size=(64, 3)).astype("float32")
    model.fit(x, x, epochs=5, verbose=0)
    table = numpy_of(quantizer.value_table())
    assert not np.allclose(table, np.linspace(-0.5, 0.5, 5), atol=1e-3)
    distance = np.abs(numpy_of(head(x))[:, :, None] - table)
    np.testing.assert_array_equal(tokenizer.predict(x, verbose=0), distance.argmin(-1))


# Methods of one tensor; of symbolic ones, `codes` and `lookup` are tested above.
METHODS = ("assignments", "continuous", "logits", "moments", "soft_values")


def method_models(case, quantizer, inputs):
    """A model of every such method that the quantizer has and that gives something."""
    found = {name: getattr(quantizer, name, None) for name in METHODS}
    outputs = {name: method(inputs) for name, method in found.items() if method}
    return {
        name: keras.Model(inputs, output)
        for name, output in outputs.items()
        if output is not None
    }


@pytest.mark.parametrize("case", CASES, ids=case_name)
def test_methods_of_symbolic_tensors_follow_training(case):
    quantizer = case.make()
    inputs = keras.Input((case.size,))
    models = method_models(case, quantizer, inputs)
    assert "soft_values" in models
    quantizer(inputs)
    move(quantizer)
    x = np.random.default_rng(1).normal(size=(16, case.size)).astype("float32")
    for name, model in models.items():
        found, expected = model(x), getattr(quantizer, name)(x)
        for ours, theirs in zip(as_list(found), as_list(expected), strict=True):
            assert keras.backend.standardize_dtype(ours.dtype) == "float32"
            np.testing.assert_allclose(
                numpy_of(ours), numpy_of(theirs), rtol=1e-5, atol=1e-6, err_msg=name
            )


def test_posterior_of_a_trained_codebook():
    """Built before training, right after it, by the formula."""
    quantizer = qlayers.GumbelQuantizer(5, seed=0)
    inputs = keras.Input((3,))
    hidden = keras.layers.Dense(3)(inputs)
    posterior = keras.Model(inputs, quantizer.assignments(hidden))
    means = keras.Model(inputs, quantizer.soft_values(hidden))
    head = keras.Model(inputs, hidden)
    model = keras.Model(inputs, keras.layers.Dense(3)(quantizer(hidden)))
    model.compile(keras.optimizers.Adam(0.1), "mse")
    x = np.random.default_rng(0).normal(size=(64, 3)).astype("float32")
    start = numpy_of(quantizer.value_table())
    model.fit(x, x, epochs=5, verbose=0)
    table = numpy_of(quantizer.value_table())
    assert not np.allclose(table, start, atol=1e-2)
    weights = np.exp(-np.abs(numpy_of(head(x))[:, :, None] - table))
    weights /= weights.sum(-1, keepdims=True)
    np.testing.assert_allclose(numpy_of(posterior(x)), weights, rtol=1e-4, atol=1e-6)
    expected = (weights * table).sum(-1)
    np.testing.assert_allclose(numpy_of(means(x)), expected, rtol=1e-4, atol=1e-5)


def test_models_of_methods_are_saved_with_one_codebook(tmp_path):
    quantizer = qlayers.CategoricalQuantizer(5, seed=0)
    inputs = keras.Input((20,))
    outputs = [quantizer(inputs), quantizer.soft_values(inputs)]
    model = keras.Model(inputs, [*outputs, quantizer.assignments(inputs)])
    move(quantizer)
    model.save(tmp_path / "model.keras")
    restored = keras.saving.load_model(tmp_path / "model.keras")
    assert [v.name for v in restored.weights].count("codebook") == 1
    x = np.random.default_rng(2).normal(size=(8, 20)).astype("float32")
    for ours, theirs in zip(model(x), restored(x), strict=True):
        assert_same(ours, theirs)


def test_codes_of_channels_first_maps_have_the_latents_last():
    quantizer = qlayers.FiniteScalarQuantizer([2, 3, 4], axis=1)
    inputs = keras.Input((3, 5, 6))
    codes = quantizer.codes(inputs)
    assert codes.shape == (None, 5, 6, 3)
    x = np.random.default_rng(2).normal(size=(2, 3, 5, 6)).astype("float32")
    assert_same(keras.Model(inputs, codes)(x), quantizer.codes(x))
    assert quantizer.lookup(codes).shape == (None, 3, 5, 6)


def shared_model(quantizer):
    inputs = keras.Input((6,))
    hidden = keras.layers.Dense(4)(inputs)
    z = quantizer(hidden)
    codes = qlayers.Codes(quantizer)(hidden)
    again = qlayers.Lookup(quantizer)(codes)
    return keras.Model(inputs, [z, codes, again])


@pytest.mark.parametrize("suffix", [".keras", ".weights.h5"])
def test_one_codebook_in_the_file_and_after_it(suffix, tmp_path):
    model = shared_model(qlayers.VectorQuantizer(7, 2, seed=3))
    move(model.get_layer(index=2))
    path = tmp_path / f"model{suffix}"
    if suffix == ".keras":
        model.save(path)
        restored = keras.saving.load_model(path)
    else:
        model.save_weights(path)
        restored = shared_model(qlayers.VectorQuantizer(7, 2, seed=4))
        restored.load_weights(path)
    x = np.random.default_rng(2).normal(size=(32, 6)).astype("float32")
    for ours, theirs in zip(model(x), restored(x), strict=True):
        assert_same(ours, theirs)
    codebooks = [v for v in restored.weights if v.name == "codebook"]
    assert len(codebooks) == 1
    codebooks[0].assign(codebooks[0] + 1.0)
    z, codes, again = restored(x)
    np.testing.assert_allclose(numpy_of(z), numpy_of(again), atol=1e-6)
    assert not np.array_equal(numpy_of(codes), numpy_of(model(x)[1]))


def test_one_codebook_where_the_quantizer_is_in_a_nested_model(tmp_path):
    """Keras writes the nested model's config before it meets the layer again."""
    quantizer = qlayers.VectorQuantizer(7, 2, seed=3)
    hidden = keras.Input((4,))
    inner = keras.Model(hidden, quantizer(hidden))
    inputs = keras.Input((6,))
    hidden = keras.layers.Dense(4)(inputs)
    model = keras.Model(inputs, [inner(hidden), quantizer.codes(hidden)])
    move(quantizer)
    model.save(tmp_path / "model.keras")
    restored = keras.saving.load_model(tmp_path / "model.keras")
    assert len([v for v in restored.weights if v.name == "codebook"]) == 1
    x = np.random.default_rng(2).normal(size=(32, 6)).astype("float32")
    for ours, theirs in zip(model(x), restored(x), strict=True):
        assert_same(ours, theirs)


def test_one_direction_alone_is_saved_with_its_codebook(tmp_path):
    quantizer = qlayers.LatentQuantizer(5)
    for model in both_ways(CASES[0], quantizer):
        move(quantizer)
        model.save(tmp_path / "model.keras")
        restored = keras.saving.load_model(tmp_path / "model.keras")
        x = np.ones((2, *model.input_shape[1:]), model.inputs[0].dtype)
        assert_same(model(x), restored(x))


def test_sharing_trains_once():
    """The views add no second gradient, loss or count of the codebook."""
    histories = []
    x = np.random.default_rng(0).normal(size=(16, 6)).astype("float32")
    for with_views in (False, True):
        keras.utils.set_random_seed(0)
        quantizer = qlayers.LatentQuantizer(5, name="q")
        model = shared_model(quantizer)
        if not with_views:
            model = keras.Model(model.inputs, model.outputs[0])
        outputs = [*model.outputs] if with_views else model.outputs[0]
        model = keras.Model(model.inputs, outputs)
        loss = ["mse", None, None] if with_views else "mse"
        model.compile("adamw", loss)
        y = [x[:, :4]] * 3 if with_views else x[:, :4]
        histories.append(model.fit(x, y, epochs=2, verbose=0).history)
    assert {*histories[0]} <= {*histories[1]}
    for name, values in histories[0].items():
        np.testing.assert_allclose(values, histories[1][name], rtol=1e-5)


def test_half_precision_does_not_round_inputs():
    previous = keras.config.dtype_policy()
    x = np.random.default_rng(0).normal(size=(512, 4)).astype("float32") * 0.2
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        quantizer = qlayers.LatentQuantizer(64)
        codes = numpy_of(qlayers.Codes(quantizer)(x))
        table = np.linspace(-0.5, 0.5, 64, dtype="float32")
        expected = np.abs(x[..., None] - table).argmin(-1)
        assert (codes == expected).mean() > 0.999
        values = qlayers.Lookup(quantizer)(codes)
        assert keras.backend.standardize_dtype(values.dtype) == "bfloat16"
    finally:
        keras.config.set_dtype_policy(previous)


def test_wrong_arguments_are_refused():
    with pytest.raises(ValueError, match="needs a quantizer"):
        qlayers.Codes(keras.layers.Dense(3))
    quantizer = qlayers.LatentQuantizer(5)
    with pytest.raises(ValueError, match="integers"):
        quantizer.lookup(keras.Input((4,)))
    with pytest.raises(ValueError, match="integers"):
        qlayers.Lookup(quantizer)(keras.Input((4,)))


def test_exported_with_the_trained_codebook(tmp_path):
    if keras.backend.backend() != "tensorflow":
        pytest.skip("SavedModels are TensorFlow's")
    import tensorflow as tf

    quantizer = qlayers.VectorQuantizer(7, 2)
    for i, model in enumerate(both_ways(CASES[0], quantizer)):
        move(quantizer)
        model.export(str(tmp_path / str(i)), verbose=False)
        served = tf.saved_model.load(str(tmp_path / str(i)))
        x = np.ones((3, *model.input_shape[1:]), model.inputs[0].dtype)
        np.testing.assert_array_equal(served.serve(x), model(x))


# What Keras exports by.
CONVERTERS = {"tensorflow": "tf2onnx", "torch": "onnx", "jax": "jax2onnx"}
IN_ONNX = [
    "latent",
    *(pytest.param(name, marks=pytest.mark.slow) for name in ("vector", "categorical")),
]


@pytest.mark.parametrize("name", IN_ONNX)
def test_exported_to_onnx(name, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime", reason="needs onnxruntime")
    converter = CONVERTERS[keras.backend.backend()]
    pytest.importorskip(converter, reason=f"Keras exports by {converter}")
    (case,) = [case for case in CASES if case.name == name]
    quantizer = case.make()
    x = np.random.default_rng(0).normal(size=(8, case.size)).astype("float32")
    codes = numpy_of(quantizer.codes(x))
    for model, given in zip(both_ways(case, quantizer), (x, codes), strict=True):
        move(quantizer)
        expected = numpy_of(model(given))
        path = tmp_path / f"{model.name}.onnx"
        model.export(str(path), format="onnx", verbose=False)
        session = onnxruntime.InferenceSession(str(path))
        (found,) = session.run(None, {session.get_inputs()[0].name: given})
        np.testing.assert_array_equal(found, expected)
