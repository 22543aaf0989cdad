"""What holds for every network: shapes, gradients, files, errors."""

import subprocess
import sys
import textwrap

import keras
import numpy as np
import pytest
import tensorflow as tf

from models import networks

ENCODERS = {
    "style": networks.style_encoder,
    "residual": networks.residual_encoder,
    "dalle": networks.dalle_encoder,
    "locatello": networks.locatello_encoder,
    "resnet": networks.resnet_encoder,
}
DECODERS = {
    "style": networks.style_decoder,
    "residual": networks.residual_decoder,
    "dalle": networks.dalle_decoder,
    "locatello": networks.locatello_decoder,
    "balls": networks.balls_decoder,
    "additive": networks.additive_decoder,
    "spatial_broadcast": networks.spatial_broadcast_decoder,
}
WITH_VARIANT = {
    "style_encoder",
    "style_decoder",
    "dalle_encoder",
    "dalle_decoder",
    "locatello_encoder",
    "balls_decoder",
}


every_shape = pytest.mark.parametrize(
    "shape",
    [pytest.param((64, 64, 3), marks=pytest.mark.slow), (32, 32, 1), (32, 64, 3)],
)


def random(*shape, seed=0):
    return np.random.default_rng(seed).uniform(size=shape).astype("float32")


def small(build, *args):
    return build(*args, width=1 / 16)


@every_shape
@pytest.mark.parametrize("family", ENCODERS)
def test_encoder_shape(family, shape):
    encoder = small(ENCODERS[family], shape, 7)
    assert encoder.input_shape == (None, *shape)
    assert encoder.output_shape == (None, 7)
    assert encoder(random(2, *shape)).shape == (2, 7)


@every_shape
@pytest.mark.parametrize("family", DECODERS)
def test_decoder_shape(family, shape):
    decoder = small(DECODERS[family], 3, shape)
    assert decoder.input_shape == (None, 3)
    assert decoder.output_shape == (None, *shape)
    for batch in (1, 2):
        assert decoder(random(batch, 3)).shape == (batch, *shape)


@pytest.mark.parametrize("family", ["style", "residual"])
def test_decoder_treats_samples_apart(family):
    """What is computed once for the batch must not mix samples."""
    decoder = small(DECODERS[family], 4, (16, 16, 3))
    z = random(3, 4)
    together = np.asarray(decoder(z))
    apart = np.concatenate([np.asarray(decoder(z[i : i + 1])) for i in range(3)])
    np.testing.assert_allclose(together, apart, atol=1e-5)
    assert np.abs(together[0] - together[1]).max() > 1e-3


def gradients(model, inputs):
    weights = random(*model(inputs).shape, seed=1)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(weights * model(inputs, training=True))
    variables = model.trainable_variables
    return dict(
        zip([v.path for v in variables], tape.gradient(loss, variables), strict=True)
    )


def is_cancelled(path, model):
    """Biases that a normalization right after them takes away again."""
    layer, name = path.split("/")[-2:]
    followers = {
        f"{layer}_norm",
        f"{layer.removesuffix('_conv')}_norm",
        "latents" if layer == "head" else "",
    }
    normalizations = {
        part.name for part in model.layers if "Normalization" in type(part).__name__
    }
    return name == "bias" and bool(followers & normalizations)


@pytest.mark.parametrize("family", ENCODERS)
def test_gradient_reaches_every_encoder_variable(family):
    model = ENCODERS[family]((32, 32, 3), 5, width=1 / 8)
    assert_reached(model, gradients(model, random(4, 32, 32, 3)))


@pytest.mark.parametrize("family", [f for f in DECODERS if f != "additive"])
def test_gradient_reaches_every_decoder_variable(family):
    model = DECODERS[family](5, (32, 32, 3), width=1 / 8)
    assert_reached(model, gradients(model, random(4, 5)))


def assert_reached(model, gradient_of):
    missing = [path for path, gradient in gradient_of.items() if gradient is None]
    assert missing == []
    zero = {
        path
        for path, gradient in gradient_of.items()
        if not np.abs(np.asarray(gradient)).max() > 0.0
    }
    assert {path for path in zero if not is_cancelled(path, model)} == set()


@pytest.mark.parametrize("family", ENCODERS)
def test_width_scales_every_hidden_layer(family):
    build = ENCODERS[family]
    full, half = build((32, 32, 3), 5, width=0.5), build((32, 32, 3), 5, width=0.25)
    for one, other in zip(full.layers, half.layers, strict=True):
        is_end = one.name in ("image", "center", "stem_conv_pad", "head", "latents")
        factor = 1 if is_end else 2
        assert one.output.shape[-1] == factor * other.output.shape[-1], one.name


@pytest.mark.parametrize("family", ["style", "residual", "locatello", "balls"])
@pytest.mark.parametrize("shape", [(48, 48, 3), (4, 4, 3), (64, 60, 3), (30, 30, 3)])
def test_sizes_that_do_not_fit(family, shape):
    with pytest.raises(ValueError, match=r"halves the image.*Resize the images"):
        small(DECODERS[family], 3, shape)
    if family in ENCODERS:
        with pytest.raises(ValueError, match=r"halves the image.*Resize the images"):
            small(ENCODERS[family], shape, 3)


def test_other_sizes_that_do_not_fit():
    with pytest.raises(ValueError, match=r"multiples of 4.*\(30, 32, 3\)"):
        networks.dalle_encoder((30, 32, 3), 4)
    with pytest.raises(ValueError, match=r"multiples of 4.*\(32, 30, 3\)"):
        networks.dalle_decoder(4, (32, 30, 3))
    with pytest.raises(ValueError, match=r"at least 32.*\(16, 16, 3\)"):
        networks.resnet_encoder((16, 16, 3), 4)
    with pytest.raises(ValueError, match=r"\(height, width, channels\).*\(32, 32\)"):
        networks.style_encoder((32, 32), 4)


@pytest.mark.parametrize("build", [*ENCODERS.values(), *DECODERS.values()])
def test_wrong_arguments(build):
    args = [3, (32, 32, 3)]
    args = args[::-1] if build in ENCODERS.values() else args
    with pytest.raises(ValueError, match="width"):
        build(*args, width=0.0)
    args[args.index(3)] = 0
    with pytest.raises(ValueError, match=r"num_outputs|num_latents"):
        build(*args)
    if build.__name__ in WITH_VARIANT:
        args[args.index(0)] = 3
        with pytest.raises(ValueError, match=r"'paper', 'code'.*'other'"):
            build(*args, variant="other")


LOAD_EVERYTHING = """
    import sys
    from pathlib import Path
    import numpy as np
    import qlayers
    import keras

    folder = Path(sys.argv[1])
    paths = sorted(folder.glob("*.keras"))
    for path in paths:
        model = keras.models.load_model(path)
        data = np.load(path.with_suffix(".npz"), allow_pickle=False)
        outputs = model(data["inputs"])
        np.testing.assert_allclose(np.asarray(outputs), data["outputs"], atol=1e-6)
    assert "models" not in sys.modules
    print("loaded", len(paths))
"""


def every_small_network():
    for family, build in ENCODERS.items():
        side = 32 if family == "resnet" else 16
        yield f"encoder_{family}", small(build, (side, side, 3), 2)
    for family, build in DECODERS.items():
        yield f"decoder_{family}", small(build, 2, (16, 16, 3))
    for build in (networks.style_encoder, networks.dalle_encoder):
        yield build.__name__, build((16, 16, 1), 4, width=1 / 16, variant="code")
    for build in (networks.style_decoder, networks.dalle_decoder):
        yield build.__name__, build(4, (16, 16, 1), width=1 / 16, variant="code")
    yield (
        "naive",
        networks.residual_decoder(4, (16, 16, 1), width=1 / 16, normalize_outputs=True),
    )
    yield "mlp", networks.mlp_encoder(2, 2)


@pytest.mark.slow
def test_files_load_in_a_process_that_only_imports_qlayers(tmp_path):
    count = 0
    for name, model in every_small_network():
        inputs = random(2, *model.input_shape[1:])
        outputs = model(inputs)
        model.save(tmp_path / f"{name}.keras")
        np.savez(tmp_path / f"{name}.npz", inputs=inputs, outputs=np.asarray(outputs))
        count += 1
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(LOAD_EVERYTHING), str(tmp_path)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert result.returncode == 0, result.stderr[-3000:]
    assert f"loaded {count}" in result.stdout


@pytest.mark.parametrize("family", ["style", "residual"])
def test_mixed_precision(family):
    policy = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        decoder = small(DECODERS[family], 4, (16, 16, 3))
    finally:
        keras.config.set_dtype_policy(policy)
    z = random(2, 4)
    reduced = np.asarray(tf.cast(decoder(z), "float32"))
    exact = small(DECODERS[family], 4, (16, 16, 3))
    exact.set_weights(decoder.get_weights())
    np.testing.assert_allclose(reduced, np.asarray(exact(z)), atol=0.1)
