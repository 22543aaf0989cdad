"""Networks and latents as a page runs them, beside Keras with the stored weights."""

import keras
import numpy as np
import pytest
from keras import ops

import models
import qlayers
from experiments.reporting.graph_export import GraphExport, NotExportableError
from experiments.reporting.page_model import load_page_model, page_model
from experiments.reporting.weight_store import WeightStore
from experiments.storage.files import write_json
from experiments.storage.run_directory import RunDirectory
from tests.experiments.reporting import node_runtime, numpy_runtime

TOLERANCE = 1e-4


def as_the_page_stores(model):
    """Gives a model random weights of which kernels are halves, as in a page."""
    rng = np.random.default_rng(1)
    for variable in model.variables:
        if "int" in str(variable.dtype) or "seed" in variable.path:
            continue
        value = np.asarray(variable.value)
        if "variance" in variable.path:
            value = rng.uniform(0.5, 2.0, value.shape)
        elif value.ndim <= 1:
            value = value + rng.normal(0.0, 0.2, value.shape)
        is_kernel = value.ndim >= 2 and "codebook" not in variable.path
        variable.assign(value.astype("float16" if is_kernel else "float32"))


def made(method, shape=(32, 32, 3), latents=4, **settings):
    model = models.build(method, shape, latents, **{"width": 0.125, **settings})
    as_the_page_stores(model.encoder)
    as_the_page_stores(model.decoder)
    return model


NETWORKS = {
    "style": {"method": "qlae", "network": "style"},
    "style of the code": {
        "method": "qlae",
        "network": "style",
        "encoder_options": {"variant": "code"},
        "decoder_options": {"variant": "code", "preserving_layers": 1},
    },
    "residual": {"method": "tripod", "network": "residual"},
    "naive residual": {"method": "tripod_naive", "network": "residual"},
    "dalle": {"method": "qvae", "network": "dalle", "width": 0.05},
    "dalle of the code": {
        "method": "qvae",
        "network": "dalle",
        "width": 0.1,
        "encoder_options": {"variant": "code"},
        "decoder_options": {"variant": "code"},
    },
    "locatello": {"method": "beta_vae", "network": "locatello"},
    "locatello of the code": {
        "method": "d_vae",
        "network": "locatello",
        "encoder_options": {"variant": "code"},
    },
    "resnet": {"method": "cliff", "network": "resnet"},
    "additive": {"method": "additive", "latents": 3},
    "spatial broadcast": {"method": "ae", "network": "spatial_broadcast"},
    "grey 48 by 32": {
        "method": "ae",
        "network": "dalle",
        "shape": (48, 32, 1),
        "width": 0.05,
    },
}


# Variants of a family share its layers; the slow run has them too.
_VARIANTS = ("style of the code", "naive residual", "dalle of the code")
_VARIANTS += ("locatello of the code", "grey 48 by 32")


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[pytest.mark.slow] * (n in _VARIANTS)) for n in NETWORKS],
)
def test_networks_compute_what_keras_computes(name):
    model = made(**NETWORKS[name])
    data = page_model(model.encoder, model.decoder, model.reconstruction.kind)
    rng = np.random.default_rng(0)
    images = rng.uniform(0, 1, (3, *model.encoder.input_shape[1:])).astype("float32")
    latents = model.encode(images)
    latents = latents + rng.normal(0, 0.3, latents.shape).astype("float32")
    wanted = model.decode(latents)

    weights = numpy_runtime.unpack(data["weights"])
    outputs = numpy_runtime.run(data["decoder"], weights, latents)
    ours = 1 / (1 + np.exp(-outputs)) if data["output"] == "sigmoid" else outputs
    np.testing.assert_allclose(np.clip(ours, 0, 1), wanted, atol=TOLERANCE)
    features = numpy_runtime.run(data["encoder"], weights, images)
    head = model.encoder if model.quantizer is None else model.quantizer_inputs
    expected = ops.convert_to_numpy(head(images))
    np.testing.assert_allclose(features, expected, atol=1e-4, rtol=1e-4)

    codes, values, decoded = node_runtime.run(data, images, latents)
    np.testing.assert_allclose(decoded, wanted, atol=TOLERANCE)
    np.testing.assert_allclose(values, model.encode(images), atol=1e-4, rtol=1e-4)
    if data["latent"]["kind"] not in ("continuous", "gaussian"):
        np.testing.assert_array_equal(codes, model.codes(images))


QUANTIZERS = {
    "latent": (lambda: qlayers.LatentQuantizer(5), 6),
    "shared": (lambda: qlayers.LatentQuantizer(5, shared_codebook=True), 6),
    "revived": (lambda: qlayers.LatentQuantizer(5, revive_after=3), 6),
    "even grid": (lambda: qlayers.FiniteScalarQuantizer(4), 6),
    "uneven grids": (lambda: qlayers.FiniteScalarQuantizer([2, 3, 8]), 3),
    "vector": (lambda: qlayers.VectorQuantizer(7, code_dim=2, seed=0), 6),
    "gumbel": (lambda: qlayers.GumbelQuantizer(8, seed=0), 6),
    "gumbel vectors": (lambda: qlayers.GumbelQuantizer(8, code_dim=3, seed=0), 6),
    "gumbel squares": (
        lambda: qlayers.GumbelQuantizer(8, 3, distance="squared_l2", seed=0),
        6,
    ),
    "categorical": (lambda: qlayers.CategoricalQuantizer(3, seed=0), 6),
    "ordered": (lambda: qlayers.OrderedCategoricalQuantizer(3, temperature=0.5), 6),
    "masked": (
        lambda: qlayers.OrderedCategoricalQuantizer(5, active_values=[2, [1, 2]]),
        10,
    ),
    "gaussian": (lambda: qlayers.GaussianLatent(), 6),
    "none": (lambda: None, 6),
}


def tiny_model(quantizer, num_features):
    """An encoder that hands its image's pixels to a quantizer, and a decoder."""
    image = keras.Input((1, num_features, 1))
    z = keras.layers.Flatten()(image)
    z = z if quantizer is None else quantizer(z)
    latents = keras.Input((z.shape[-1],))
    pixels = keras.layers.Dense(num_features)(latents)
    pixels = keras.layers.Reshape((1, num_features, 1))(pixels)
    return keras.Model(image, z), keras.Model(latents, pixels)


@pytest.mark.parametrize("name", QUANTIZERS)
def test_quantizers_choose_the_codes_that_keras_chooses(name):
    make, num_features = QUANTIZERS[name]
    quantizer = make()
    encoder, decoder = tiny_model(quantizer, num_features)
    if name == "revived":
        encoder(np.full((2, 1, num_features, 1), 5.0, "float32"), training=True)
    data = page_model(encoder, decoder)
    x = np.random.default_rng(0).normal(0, 1.5, (200, 1, num_features, 1))
    x = x.astype("float32")
    codes, values, _ = node_runtime.run(data, x)
    np.testing.assert_allclose(values, encoder(x), atol=1e-6)
    if quantizer is None or name == "gaussian":
        assert codes[0] is None
    else:
        wanted = quantizer.codes(x.reshape(200, -1))
        np.testing.assert_array_equal(codes, wanted)


def test_ties_go_where_keras_sends_them():
    """Halfway values: the lowest index of a table, the even step of a grid."""
    for quantizer in (qlayers.LatentQuantizer(3), qlayers.FiniteScalarQuantizer(4)):
        encoder, decoder = tiny_model(quantizer, 4)
        x = np.array([-0.25, 0.25, 0.0, 0.5], "float32").reshape(1, 1, 4, 1)
        codes, _, _ = node_runtime.run(page_model(encoder, decoder), x)
        np.testing.assert_array_equal(codes, quantizer.codes(x.reshape(1, 4)))


LAYERS = {
    "valid": lambda x: keras.layers.Conv2D(4, 3, padding="valid")(x),
    "odd stride": lambda x: keras.layers.Conv2D(4, (3, 3), 2, padding="same")(x),
    "transposed 3 by 3": lambda x: keras.layers.Conv2DTranspose(4, 3, 2, "same")(x),
    "transposed 2 by 2": lambda x: keras.layers.Conv2DTranspose(4, 2, 2, "same")(x),
    "transposed valid": lambda x: keras.layers.Conv2DTranspose(4, 3, 2)(x),
    "transposed 5 by 5": lambda x: keras.layers.Conv2DTranspose(4, 5, 1, "same")(x),
    "transposed far": lambda x: keras.layers.Conv2DTranspose(4, 2, 3, "same")(x),
    "pool": lambda x: keras.layers.MaxPooling2D(3, 2, padding="same")(x),
    "join": lambda x: keras.layers.Concatenate()([x, keras.layers.ReLU()(x), x]),
    "product": lambda x: keras.layers.Multiply()([x, keras.ops.tanh(x)]),
    "sequential": lambda x: keras.Sequential([keras.layers.Conv2D(4, 2)])(x),
    "input itself": lambda x: x,
    **{
        name: lambda x, name=name: keras.layers.Activation(name)(x)
        for name in ("gelu", "softplus", "silu", "elu", "leaky_relu", "sigmoid")
    },
}


@pytest.mark.parametrize("name", LAYERS)
def test_layers_compute_what_keras_computes(name):
    image = keras.Input((5, 6, 3))
    encoder = keras.Model(image, keras.layers.Flatten()(LAYERS[name](image)))
    as_the_page_stores(encoder)
    latents = keras.Input((2,))
    decoder = keras.Model(
        latents, keras.layers.Reshape((5, 6, 3))(keras.layers.Dense(90)(latents))
    )
    data = page_model(encoder, decoder, "mse")
    x = np.random.default_rng(0).normal(0, 2, (2, 5, 6, 3)).astype("float32")
    wanted = ops.convert_to_numpy(encoder(x))
    weights = numpy_runtime.unpack(data["weights"])
    ours = numpy_runtime.run(data["encoder"], weights, x)
    np.testing.assert_allclose(ours, wanted, atol=1e-5)
    _, values, _ = node_runtime.run(data, x)
    np.testing.assert_allclose(values, wanted, atol=1e-5)


class Doubled(keras.layers.Dense):
    """A subclass that computes something else than its base."""

    def call(self, inputs):
        return 2.0 * super().call(inputs)


def test_what_the_page_cannot_run_is_named():
    z = keras.Input((2,))
    for layer, word in (
        (Doubled(3), "Doubled"),
        (keras.layers.Dense(3, activation="mish"), "mish"),
        (keras.layers.Softmax(), "Softmax"),
    ):
        with pytest.raises(NotExportableError, match=word):
            GraphExport(WeightStore()).steps([z], layer(z))
    image = keras.Input((4, 4, 2))
    for layer in (
        keras.layers.Conv2D(2, 3, groups=2),
        keras.layers.Conv2D(2, 2, dilation_rate=2),
        keras.layers.UpSampling2D(2, interpolation="bilinear"),
    ):
        with pytest.raises(NotExportableError, match=layer.name):
            GraphExport(WeightStore()).steps([image], layer(image))
    encoder, decoder = tiny_model(None, 4)
    with pytest.raises(NotExportableError, match="no decoder"):
        page_model(encoder, None)
    with pytest.raises(NotExportableError, match="images"):
        page_model(decoder, decoder)


class Reversed(qlayers.LatentQuantizer):
    def _codes(self, x):
        return 4 - super()._codes(x)


def test_a_quantizer_with_other_codes_is_refused(monkeypatch):
    encoder, decoder = tiny_model(Reversed(5), 4)
    with pytest.raises(NotExportableError, match="Reversed"):
        page_model(encoder, decoder)
    from experiments.reporting import latent_record

    known = {**latent_record._KINDS, Reversed: latent_record._latent}
    monkeypatch.setattr(latent_record, "_KINDS", known)
    with pytest.raises(NotExportableError, match="options of the quantizer"):
        page_model(encoder, decoder)


def test_halves_hold_kernels_and_nothing_that_overflows():
    store = WeightStore()
    kernel = np.array([[1.0, 6e-8], [65504.0, -1e-3]], "float32")
    for array in (kernel, kernel * 2, kernel[0], kernel):
        store.add(array)
    store.add(kernel, exact=True)
    packed = store.pack()
    assert packed["half"] == [1, 0, 0, 1, 0]
    arrays = numpy_runtime.unpack(packed)
    np.testing.assert_array_equal(arrays[0], kernel.astype("float16"))
    np.testing.assert_array_equal(arrays[1], kernel * 2)
    np.testing.assert_array_equal(arrays[4], kernel)


def test_models_are_read_from_a_run_folder(tmp_path):
    model = made("factor_qvae", latents=3, hidden_units=[8])
    directory = RunDirectory(tmp_path)
    assert "encoder.keras" in load_page_model(directory)[1]
    model.encoder.save(tmp_path / "encoder.keras")
    model.decoder.save(tmp_path / "decoder.keras")
    write_json(directory.config_file, {"model": {"reconstruction": {"kind": "mse"}}})
    data, reason = load_page_model(directory)
    assert (data["output"], reason) == ("clip", "")
    latents = model.encode(np.zeros((1, 32, 32, 3), "float32"))
    weights = numpy_runtime.unpack(data["weights"])
    ours = numpy_runtime.run(data["decoder"], weights, latents)
    wanted = model.decode(latents)
    np.testing.assert_allclose(np.clip(ours, 0, 1), wanted, atol=TOLERANCE)
    whole = (tmp_path / "decoder.keras").read_bytes()
    middle = len(whole) // 2
    for damaged in (
        b"not a zip file",
        whole[:middle],
        whole[:-30] + bytes(30),
        whole[:middle] + bytes(200) + whole[middle + 200 :],
        whole.replace(b"UpSampling2D", b"DownStreams2"),
    ):
        (tmp_path / "decoder.keras").write_bytes(damaged)
        data, reason = load_page_model(directory)
        assert data is None and "cannot be read" in reason, damaged[:20]
