"""The wrappers around a decoder: what they return, evaluate, save and skip."""

import zipfile

import h5py
import keras
import numpy as np
import pytest
from keras import ops

import qlayers
from qlayers.functional import hessian_penalty, standard_deviation
from tests.gradients import as_float64, gradient_of, gradients
from tests.regularizers.cases import make_decoder

rng = np.random.default_rng(0)
Z = rng.normal(size=(12, 4)).astype("float32")
BOTH = [qlayers.HessianPenalty, qlayers.NormalizedHessianPenalty]


class CountingRows(keras.layers.Layer):
    """Remembers how many rows each eager call had."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.rows = []

    def call(self, x):
        if x.shape[0] is not None:
            self.rows.append(int(x.shape[0]))
        return x


def counting_decoder():
    """first -> after_first (counts) -> second -> after_second (counts) -> last."""
    inputs = keras.Input((4,))
    x = keras.layers.Dense(5, "tanh", name="first")(inputs)
    x = CountingRows(name="after_first")(x)
    x = keras.layers.Dense(5, "tanh", name="second")(x)
    x = CountingRows(name="after_second")(x)
    return keras.Model(inputs, keras.layers.Dense(3, name="last")(x))


def losses_of(layer, *args, **kwargs):
    layer(*args, **kwargs)
    return [float(as_float64(loss)) for loss in layer.losses]


@pytest.mark.backends
@pytest.mark.parametrize("cls", BOTH)
def test_returns_what_the_decoder_returns(cls):
    decoder = make_decoder()
    layer = cls(decoder, 1.0, seed=0)
    for training in (False, True):
        np.testing.assert_allclose(
            as_float64(layer(Z, training=training)), as_float64(decoder(Z)), rtol=1e-6
        )
    assert layer.decoder is decoder
    assert len(layer.trainable_weights) == len(decoder.trainable_weights)


@pytest.mark.backends
def test_values_are_those_of_the_function():
    """With many draws, other seeds give the same value within sampling error."""
    decoder = make_decoder()
    many = 400
    z = np.repeat(Z[:4], 50, axis=0)
    normalized = qlayers.NormalizedHessianPenalty(
        decoder, 1.0, num_perturbations=many, seed=0
    )
    scale = standard_deviation(0.5 * z)
    ours = losses_of(normalized, z, continuous=0.5 * z, training=True)[0]
    expected = hessian_penalty(decoder, z, scale, num_perturbations=many, seed=9)
    np.testing.assert_allclose(ours, as_float64(expected), rtol=0.05)
    plain = qlayers.HessianPenalty(decoder, 1.0, num_perturbations=many, seed=0)
    expected = hessian_penalty(
        decoder, z, num_perturbations=many, normalized=False, seed=9
    )
    np.testing.assert_allclose(
        losses_of(plain, z, training=True)[0], as_float64(expected), rtol=0.1
    )


@pytest.mark.backends
@pytest.mark.parametrize("aggregate", ["joint", "per_output"])
def test_coordinates_measure_what_the_function_does(aggregate):
    """Two latents: every sample measures its whole Hessian, whatever was drawn."""
    inputs = keras.Input((2,))
    x = keras.layers.Dense(5, "tanh", name="first")(inputs)
    decoder = keras.Model(inputs, keras.layers.Dense(3, "tanh", name="last")(x))
    names = ["first", "last"]
    regularized = keras.Model(inputs, [decoder.get_layer(n).output for n in names])
    settings = {"aggregate": aggregate, "epsilon": 0.02, "directions": "coordinates"}
    z = np.concatenate([Z[:, :2], 0.5 * Z[:, 2:]])
    layer = qlayers.NormalizedHessianPenalty(
        decoder, 0.5, outputs=names, seed=0, **settings
    )
    expected = 0.5 * as_float64(hessian_penalty(regularized, z, seed=9, **settings))
    assert expected > 0.01
    ours = losses_of(layer, z, training=True)[0]
    # The signs of the steps differ, which the differences' error of order epsilon sees.
    np.testing.assert_allclose(ours, expected, rtol=0.1)
    copy = qlayers.NormalizedHessianPenalty.from_config(layer.get_config())
    assert copy.directions == "coordinates"
    # Every second step, at twice the weight; in between nothing.
    lazy = qlayers.NormalizedHessianPenalty(
        decoder, 0.5, outputs=names, seed=0, step_interval=2, **settings
    )
    seen = [losses_of(lazy, z, training=True)[0] for _ in range(3)]
    np.testing.assert_allclose(seen, [2 * expected, 0.0, 2 * expected], rtol=0.1)


@pytest.mark.backends
def test_coordinates_of_the_plain_penalty():
    decoder, z = make_decoder(), np.repeat(Z[:4], 200, axis=0)
    layer = qlayers.HessianPenalty(decoder, 1.0, directions="coordinates", seed=0)
    settings = {"num_perturbations": 300, "normalized": False, "aggregate": "mean"}
    expected = hessian_penalty(decoder, z[::50], seed=9, **settings)
    layer.aggregate = "mean"
    ours = losses_of(layer, z, training=True)[0]
    np.testing.assert_allclose(ours, as_float64(expected), rtol=0.15)


def penalty_given(layer, continuous):
    layer(Z, continuous=continuous, training=True)
    return layer.losses[0]


def test_gradients_reach_decoder_latents_and_scale():
    layer = qlayers.NormalizedHessianPenalty(make_decoder(), 1.0, epsilon=0.5, seed=0)
    layer(Z)
    result = gradients(layer, Z, add_losses=True, training=True)
    assert np.abs(result.inputs).max() > 0
    kernels = [g for g in result.variables.values() if g.ndim == 2]
    assert all(np.abs(gradient).max() > 0 for gradient in kernels)
    # Apart from `z` there is only sigma to carry a gradient to `continuous`.
    of_continuous = gradient_of(lambda c: penalty_given(layer, c), Z)
    assert np.abs(of_continuous).max() > 0


def test_evaluates_no_further_than_the_last_regularized_activation():
    decoder = counting_decoder()
    layer = qlayers.NormalizedHessianPenalty(decoder, 1.0, outputs=["first"], seed=0)
    layer(Z, training=True)
    # The inner layers saw 8 perturbed batches in one call, then the batch itself.
    first = decoder.get_layer("after_first").rows
    assert 12 in first and 96 not in first
    assert decoder.get_layer("after_second").rows.count(96) == 0
    both = qlayers.NormalizedHessianPenalty(
        counting_decoder(), 1.0, outputs=["first", "second"], seed=0
    )
    both(Z, training=True)
    assert both.decoder.get_layer("after_first").rows.count(96) == 1
    assert both.decoder.get_layer("after_second").rows.count(96) == 0


@pytest.mark.parametrize(("cls", "rows"), [(BOTH[0], 48), (BOTH[1], 96)])
def test_one_batched_call_without_the_centre(cls, rows):
    decoder = counting_decoder()
    layer = cls(decoder, 1.0, seed=0)
    layer(Z)
    counter = decoder.get_layer("after_second").rows
    counter.clear()
    layer(Z, training=True)
    assert counter == [rows, 12]
    counter.clear()
    layer(Z, training=False)
    assert counter == [12]


def test_a_fraction_of_the_batch():
    decoder = counting_decoder()
    layer = qlayers.NormalizedHessianPenalty(decoder, 1.0, batch_fraction=0.25, seed=0)
    layer(Z, training=True)
    counter = decoder.get_layer("after_second").rows
    assert counter[-2:] == [8 * 3, 12]


def quadratic_decoder():
    """Curvature differs from sample to sample: z1 z2 + z3^3 and the like."""
    inputs = keras.Input((4,))
    x = keras.layers.Dense(6, "tanh", kernel_initializer="glorot_normal")(inputs)
    return keras.Model(inputs, keras.layers.Dense(2)(x * x))


@pytest.mark.backends
@pytest.mark.slow
def test_a_random_fraction_is_unbiased():
    decoder = quadratic_decoder()
    arguments = {"num_perturbations": 50, "epsilon": 0.5}
    whole = qlayers.NormalizedHessianPenalty(decoder, 1.0, seed=1, **arguments)
    part = qlayers.NormalizedHessianPenalty(
        decoder, 1.0, batch_fraction=0.25, seed=2, **arguments
    )
    of_whole = np.concatenate([losses_of(whole, Z, training=True) for _ in range(40)])
    of_part = np.concatenate([losses_of(part, Z, training=True) for _ in range(160)])
    error = np.hypot(of_whole.std() / np.sqrt(40), of_part.std() / np.sqrt(160))
    assert abs(of_whole.mean() - of_part.mean()) < 4 * error
    assert error < 0.1 * of_whole.mean()
    # It is a random part, not always the same.
    assert of_part.std() > 1.5 * of_whole.std()


@pytest.mark.backends
def test_every_third_step_at_three_times_the_weight():
    decoder = make_decoder()
    every = qlayers.NormalizedHessianPenalty(decoder, 0.5, epsilon=1.0, seed=1)
    third = qlayers.NormalizedHessianPenalty(
        decoder, 0.5, epsilon=1.0, step_interval=3, seed=1
    )
    shown = []
    for step in range(7):
        value = losses_of(every, Z, training=True)[0]
        lazy = losses_of(third, Z, training=True)[0]
        # The same draws, since both count on: exactly three times the value, or none.
        expected = 3 * value if step % 3 == 0 else 0.0
        np.testing.assert_allclose(lazy, expected, rtol=1e-5)
        # Between its steps the penalty is shown as it was last seen.
        shown.append(value / 0.5 if step % 3 == 0 else shown[-1])
        np.testing.assert_allclose(
            as_float64(third.metrics[0].result()), np.mean(shown), rtol=1e-4
        )


def test_skipped_steps_do_not_decode():
    decoder = counting_decoder()
    layer = qlayers.NormalizedHessianPenalty(decoder, 1.0, step_interval=4, seed=0)
    layer(Z)
    counter = decoder.get_layer("after_second").rows
    counter.clear()
    for _ in range(5):
        layer(Z, training=True)
    assert counter == [96, 12, 12, 12, 12, 96, 12]


def test_skipped_steps_do_not_decode_in_a_graph():
    """In a compiled step the branch that is not taken must not run."""
    import tensorflow as tf

    runs = tf.Variable(0)

    class CountingRuns(keras.layers.Layer):
        def call(self, x):
            with tf.control_dependencies([runs.assign_add(1)]):
                return tf.identity(x)

    inputs = keras.Input((4,))
    hidden = CountingRuns()(keras.layers.Dense(5, "tanh")(inputs))
    decoder = keras.Model(inputs, keras.layers.Dense(4)(hidden))
    layer = qlayers.NormalizedHessianPenalty(decoder, 1.0, step_interval=4, seed=0)
    model = keras.Sequential([keras.Input((4,)), layer])
    model.compile("sgd", "mse")
    model.train_on_batch(Z, Z)
    runs.assign(0)
    for _ in range(8):
        model.train_on_batch(Z, Z)
    # Eight decodings, and two of eight steps with a perturbed one.
    assert int(runs.numpy()) == 10


@pytest.mark.parametrize("cls", BOTH)
def test_the_file_holds_one_copy_of_the_decoder(cls, tmp_path):
    inputs = keras.Input((4,))
    layer = cls(make_decoder(), 0.1, outputs=["first", "second"], seed=0)
    model = keras.Model(inputs, layer(keras.layers.Dense(4)(inputs)))
    model.compile("sgd", "mse")
    model.fit(Z, Z[:, :3], verbose=0)
    model.save(tmp_path / "model.keras")
    with zipfile.ZipFile(tmp_path / "model.keras") as archive:
        archive.extract("model.weights.h5", tmp_path)
    sizes = []
    with h5py.File(tmp_path / "model.weights.h5") as file:
        file.visititems(
            lambda name, item: (
                sizes.append(item.shape)
                if isinstance(item, h5py.Dataset) and not name.startswith("optimizer")
                else None
            )
        )
    kernels = [shape for shape in sizes if len(shape) == 2]
    assert sorted(kernels) == sorted([(4, 4), (4, 5), (5, 4), (4, 3)])
    restored = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(
        model.predict(Z, verbose=0), restored.predict(Z, verbose=0)
    )
    assert len(restored.weights) == len(model.weights)


@pytest.mark.backends
def test_dropout_and_moving_averages_stay_out_of_the_differences():
    inputs = keras.Input((4,))
    x = keras.layers.Dense(8, name="dense")(inputs)
    x = keras.layers.BatchNormalization(name="norm")(x)
    x = keras.layers.Dropout(0.5, seed=0)(x)
    decoder = keras.Model(inputs, x)
    layer = qlayers.NormalizedHessianPenalty(decoder, 1.0, seed=0)
    layer(Z)
    (penalty,) = losses_of(layer, Z, training=True)
    # At inference this decoder is linear; dropout would give a ratio near 1.
    assert penalty < 0.1
    # One update by the batch itself: 0.99 * 0 + 0.01 * mean.
    mean = as_float64(decoder.get_layer("norm").moving_mean)
    expected = 0.01 * as_float64(decoder.get_layer("dense")(Z)).mean(0)
    np.testing.assert_allclose(mean, expected, rtol=1e-3, atol=1e-6)


@pytest.mark.backends
def test_perturbed_decodings_leave_no_losses_behind():
    decoder = keras.Sequential(
        [keras.Input((4,)), keras.layers.Dense(3, activity_regularizer="l2")]
    )
    layer = qlayers.NormalizedHessianPenalty(decoder, 1.0, seed=0)
    layer(Z)
    # The penalty, and one activity loss of the batch itself.
    assert len(losses_of(layer, Z, training=True)) == 2
    of_decoder = losses_of(decoder, Z)
    assert of_decoder[0] in losses_of(layer, Z, training=True)


def test_layers_after_it_still_train():
    """The perturbed calls run at inference; what follows must not."""
    dropout = keras.layers.Dropout(0.9, seed=0)

    class Follows(keras.Model):
        def __init__(self):
            super().__init__()
            self.penalty = qlayers.HessianPenalty(make_decoder(), 1.0, seed=0)

        def call(self, z):
            return dropout(self.penalty(z))

    outputs = as_float64(Follows()(Z, training=True))
    assert np.mean(outputs == 0) > 0.5


@pytest.mark.backends
def test_any_layer_can_be_a_decoder():
    class Product(keras.layers.Layer):
        def call(self, z):
            return z[:, :1] * z[:, 1:2]

    layer = qlayers.NormalizedHessianPenalty(
        Product(), 1.0, num_perturbations=4000, seed=0
    )
    (value,) = losses_of(layer, Z[:, :2], training=True)
    np.testing.assert_allclose(value, 1.0, rtol=0.05)
    with pytest.raises(ValueError, match="functional"):
        qlayers.HessianPenalty(Product(), 1.0, outputs=["x"])(Z)


def test_unknown_activations_are_named():
    layer = qlayers.NormalizedHessianPenalty(make_decoder(), 1.0, outputs=["third"])
    with pytest.raises(ValueError, match=r"third.*first.*second"):
        layer(Z)


@pytest.mark.backends
def test_several_outputs_and_a_sequential_decoder():
    inputs = keras.Input((4,))
    decoder = keras.Model(
        inputs, {"a": ops.tanh(inputs), "b": keras.layers.Dense(2, "tanh")(inputs)}
    )
    layer = qlayers.NormalizedHessianPenalty(decoder, 1.0, aggregate="per_output")
    outputs = layer(Z, training=True)
    assert set(outputs) == {"a", "b"}
    assert len(layer.losses) == 1
    sequential = keras.Sequential(
        [
            keras.Input((4,)),
            keras.layers.Dense(5, "tanh", name="inner"),
            keras.layers.Dense(2),
        ]
    )
    layer = qlayers.NormalizedHessianPenalty(sequential, 1.0, outputs=["inner"])
    layer(Z, training=True)
    assert np.isfinite(as_float64(layer.losses[0]))
