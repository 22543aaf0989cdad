"""Blocks against NumPy, on every backend."""

import keras
import numpy as np
import pytest
from keras import ops

from qlayers.blocks import (
    AdaptiveInstanceNormalization,
    InstanceNormalization,
    LearnedConstant,
    SpaceToDepth,
    SpatialBroadcast,
    UpsamplingConv2D,
)
from tests import numpy_layers as ref

pytestmark = pytest.mark.backends
# JAX has float64 only if it is told so before it starts.
DOUBLE = [] if keras.backend.backend() == "jax" else ["float64"]


def feature_map(*shape, mean=0.0, seed=0):
    return np.random.default_rng(seed).normal(mean, 1.0, shape).astype("float32")


def numpy(x):
    return ops.convert_to_numpy(x)


class TestInstanceNormalization:
    def test_equals_its_definition(self):
        x = feature_map(3, 5, 4, 2)
        layer = InstanceNormalization(epsilon=1e-3)
        layer.build(x.shape)
        layer.gamma.assign([2.0, -1.0])
        layer.beta.assign([0.5, 3.0])
        expected = ref.instance_norm(x.astype(float), 1e-3, [2.0, -1.0], [0.5, 3.0])
        np.testing.assert_allclose(numpy(layer(x)), expected, atol=2e-6)

    def test_equals_group_normalization_of_keras(self):
        x = feature_map(2, 8, 8, 3)
        peer = keras.layers.GroupNormalization(groups=-1, epsilon=1e-5)
        ours = InstanceNormalization(epsilon=1e-5)
        np.testing.assert_allclose(numpy(ours(x)), numpy(peer(x)), atol=5e-6)

    def test_large_mean_does_not_drown_the_variance(self):
        x = feature_map(2, 16, 16, 3, mean=100.0)
        expected = ref.instance_norm(x.astype(float), 1e-6)
        y = numpy(InstanceNormalization(affine=False)(x))
        # float32 inputs near 100 are 8e-6 apart, and the deviation is 1.
        np.testing.assert_allclose(y, expected, atol=2e-4)

    def test_constant_map_gives_the_shift(self):
        y = numpy(InstanceNormalization()(np.full((2, 4, 4, 3), 7.0, "float32")))
        np.testing.assert_allclose(y, 0.0, atol=1e-3)

    def test_without_affine_has_no_weights(self):
        layer = InstanceNormalization(affine=False)
        layer.build((None, 4, 4, 3))
        assert layer.weights == []

    def test_half_precision_statistics_are_float32(self):
        x = feature_map(2, 8, 8, 3, mean=3.0).astype("float16")
        layer = InstanceNormalization(dtype="mixed_float16")
        y = layer(x)
        assert keras.backend.standardize_dtype(y.dtype) == "float16"
        expected = ref.instance_norm(x.astype(float), 1e-6)
        np.testing.assert_allclose(numpy(y).astype(float), expected, atol=2e-3)

    @pytest.mark.parametrize("dtype", [*DOUBLE, "float16", "bfloat16"])
    @pytest.mark.parametrize("affine", [True, False])
    def test_every_pure_precision(self, dtype, affine):
        x = feature_map(2, 8, 8, 3, mean=1.0)
        layer = InstanceNormalization(affine=affine, dtype=dtype)
        y = layer(ops.cast(x, dtype))
        assert keras.backend.standardize_dtype(y.dtype) == dtype
        rounded = numpy(ops.cast(ops.cast(x, dtype), "float32"))
        expected = ref.instance_norm(rounded.astype(float), 1e-6)
        tolerance = {"float64": 1e-5, "float16": 2e-3, "bfloat16": 2e-2}[dtype]
        np.testing.assert_allclose(
            numpy(ops.cast(y, "float32")), expected, atol=tolerance
        )

    def test_needs_space(self):
        with pytest.raises(ValueError, match=r"between the first .* \(None, 3\)"):
            InstanceNormalization().build((None, 3))
        with pytest.raises(ValueError, match="sizes must be known"):
            InstanceNormalization().build((None, None, 4, 3))
        with pytest.raises(ValueError, match="epsilon"):
            InstanceNormalization(epsilon=0.0)


class TestAdaptiveInstanceNormalization:
    @pytest.mark.parametrize("activation", [None, "relu"])
    @pytest.mark.parametrize("scale_offset", [0.0, 1.0])
    def test_equals_its_definition(self, activation, scale_offset):
        x, style = feature_map(3, 4, 4, 5), feature_map(3, 6, seed=1)
        layer = AdaptiveInstanceNormalization(
            activation=activation, scale_offset=scale_offset, bias_initializer="normal"
        )
        y = numpy(layer([x, style]))
        projected = style.astype(float) @ numpy(layer.kernel) + numpy(layer.bias)
        if activation == "relu":
            projected = np.maximum(projected, 0.0)
        scale, shift = projected[:, :5] + scale_offset, projected[:, 5:]
        expected = ref.instance_norm(x.astype(float), 1e-6, scale, shift)
        np.testing.assert_allclose(y, expected, atol=1e-5)

    def test_map_with_a_batch_of_one_is_styled_for_every_sample(self):
        x, style = feature_map(1, 4, 4, 5), feature_map(3, 6, seed=1)
        layer = AdaptiveInstanceNormalization()
        y = numpy(layer([x, style]))
        repeated = numpy(layer([np.repeat(x, 3, axis=0), style]))
        assert y.shape == (3, 4, 4, 5)
        np.testing.assert_allclose(y, repeated, atol=1e-6)

    def test_scale_and_mean_of_the_map_are_forgotten(self):
        x, style = feature_map(2, 8, 8, 3), feature_map(2, 6, seed=1)
        layer = AdaptiveInstanceNormalization()
        once, again = numpy(layer([x, style])), numpy(layer([5.0 * x + 2.0, style]))
        np.testing.assert_allclose(once, again, atol=1e-5)

    @pytest.mark.parametrize("dtype", [*DOUBLE, "float16"])
    def test_every_pure_precision(self, dtype):
        x, style = feature_map(2, 8, 8, 3), feature_map(2, 6, seed=1)
        layer = AdaptiveInstanceNormalization(dtype=dtype)
        y = layer([ops.cast(x, dtype), ops.cast(style, dtype)])
        assert keras.backend.standardize_dtype(y.dtype) == dtype
        single = AdaptiveInstanceNormalization()
        single.build([x.shape, style.shape])
        single.set_weights(layer.get_weights())
        np.testing.assert_allclose(
            numpy(ops.cast(y, "float32")), numpy(single([x, style])), atol=2e-2
        )

    def test_wrong_inputs(self):
        with pytest.raises(ValueError, match=r"\[feature_map, style\]"):
            AdaptiveInstanceNormalization().build((None, 4, 4, 3))
        with pytest.raises(ValueError, match=r"\(batch, features\)"):
            AdaptiveInstanceNormalization().build([(None, 4, 4, 3), (None, 4, 2)])


class TestUpsamplingConv2D:
    def test_equals_doubling_then_convolving(self):
        x = feature_map(2, 3, 5, 4)
        layer = UpsamplingConv2D(6, bias_initializer="normal")
        y = numpy(layer(x))
        kernel, bias = numpy(layer.kernel).astype(float), numpy(layer.bias)
        expected = ref.conv(ref.double(x), kernel, bias=bias)
        assert y.shape == (2, 6, 10, 6)
        np.testing.assert_allclose(y, expected, atol=1e-5)

    def test_weights_are_those_of_a_3x3_convolution(self):
        layer = UpsamplingConv2D(6)
        layer.build((None, 4, 4, 5))
        assert [tuple(w.shape) for w in layer.weights] == [(3, 3, 5, 6), (6,)]
        assert layer.compute_output_shape((None, 4, None, 5)) == (None, 8, None, 6)

    def test_wrong_inputs(self):
        with pytest.raises(ValueError, match="filters"):
            UpsamplingConv2D(0)
        with pytest.raises(ValueError, match="known number of channels"):
            UpsamplingConv2D(3).build((None, 4, 5))


class TestSpaceToDepth:
    def test_every_pixel_goes_where_it_should(self):
        x = feature_map(2, 4, 6, 3)
        y = numpy(SpaceToDepth(2)(x))
        assert y.shape == (2, 2, 3, 12)
        for row in range(4):
            for column in range(6):
                first = 3 * (2 * (row % 2) + column % 2)
                moved = y[:, row // 2, column // 2, first : first + 3]
                np.testing.assert_array_equal(moved, x[:, row, column])

    def test_odd_size(self):
        with pytest.raises(ValueError, match=r"multiples of 2.*\(None, 5, 4, 3\)"):
            SpaceToDepth(2).build((None, 5, 4, 3))


class TestSpatialBroadcast:
    def test_vector_everywhere_and_coordinates(self):
        z = feature_map(2, 3)
        y = numpy(SpatialBroadcast(5, 7)(z))
        assert y.shape == (2, 5, 7, 5)
        np.testing.assert_array_equal(y[..., :3], np.tile(z[:, None, None], (5, 7, 1)))
        for row in range(5):
            for column in range(7):
                across, down = column / 3.0 - 1.0, row / 2.0 - 1.0
                np.testing.assert_allclose(
                    y[:, row, column, 3:], [[across, down]] * 2, atol=1e-6
                )

    def test_needs_a_vector(self):
        with pytest.raises(ValueError, match=r"\(batch, n\)"):
            SpatialBroadcast(4, 4).build((None, 4, 4, 3))


class TestLearnedConstant:
    def test_one_sample_whatever_the_batch(self):
        layer = LearnedConstant((4, 4, 2), value=0.1)
        y = numpy(layer(feature_map(5, 3)))
        np.testing.assert_array_equal(y, np.full((1, 4, 4, 2), 0.1, "float32"))
        assert len(layer.trainable_weights) == 1

    def test_wrong_shape(self):
        with pytest.raises(ValueError, match="shape"):
            LearnedConstant((4, 0))


def test_floatx_float64():
    previous = keras.config.floatx()
    keras.config.set_floatx("float64")
    try:
        x = feature_map(2, 8, 8, 3)
        for affine in (True, False):
            layer = InstanceNormalization(affine=affine, dtype="float64")
            expected = ref.instance_norm(x.astype(float), 1e-6)
            np.testing.assert_allclose(numpy(layer(x)), expected, atol=1e-5)
    finally:
        keras.config.set_floatx(previous)


@pytest.mark.parametrize(
    ("layer", "shapes"),
    [
        (InstanceNormalization(epsilon=1e-5, affine=False), [(4, 4, 3)]),
        (AdaptiveInstanceNormalization("relu", 1.0, 1e-5), [(4, 4, 3), (6,)]),
        (LearnedConstant((2, 2, 3), value=0.5), [(6,)]),
        (SpaceToDepth(2), [(4, 4, 3)]),
        (SpatialBroadcast(4, 6), [(3,)]),
        (UpsamplingConv2D(3), [(4, 4, 2)]),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, keras.Layer) else "",
)
def test_symbolic_shape_config_and_file(layer, shapes, tmp_path):
    inputs = [keras.Input(shape) for shape in shapes]
    outputs = layer(inputs if len(inputs) > 1 else inputs[0])
    model = keras.Model(inputs, outputs)
    arrays = [feature_map(2, *shape, seed=i) for i, shape in enumerate(shapes)]
    y = numpy(model(arrays))
    assert tuple(outputs.shape[1:]) == y.shape[1:]
    path = str(tmp_path / "model.keras")
    model.save(path)
    reloaded = keras.models.load_model(path)
    np.testing.assert_array_equal(numpy(reloaded(arrays)), y)
    twin = type(layer).from_config(layer.get_config())
    assert twin.get_config() == layer.get_config()
