"""When regularizers act, when they do nothing, and what they show."""

import copy
import importlib

import keras
import numpy as np
import pytest
from keras import ops

import qlayers
from qlayers import functional
from tests.gradients import as_float64, gradient_of, gradients
from tests.regularizers.cases import make_decoder

rng = np.random.default_rng(0)
Z = rng.normal(size=(10, 4)).astype("float32")

# Layer, the module whose function does its work, and that function's name.
PLAIN = {
    "multiinformation": (
        lambda weight: qlayers.KernelMultiinformation(weight),
        "kernel_multiinformation",
    ),
    "cliff": (lambda weight: qlayers.Cliff(weight, seed=1), "cliff_terms"),
    "activity": (
        lambda weight: qlayers.ActivityEnergy(weight, nonnegative_weight=weight),
        "activity_energy",
    ),
    "hausdorff": (
        lambda weight: qlayers.HausdorffFactorizedSupport(weight, seed=1),
        "hausdorff_factorized_support",
    ),
    "independent_support": (
        lambda weight: qlayers.IndependentSupport(weight, 100, seed=1),
        "independent_support",
    ),
    "total_correlation": (
        lambda weight: qlayers.TotalCorrelationDiscriminator(weight, (5,), seed=1),
        "permute_latents",
    ),
    "hessian": (
        lambda weight: qlayers.HessianPenalty(make_decoder(), weight, seed=1),
        "penalty_of_samples",
    ),
    "normalized_hessian": (
        lambda weight: qlayers.NormalizedHessianPenalty(make_decoder(), weight, seed=1),
        "penalty_of_samples",
    ),
}


def module_of(layer, function):
    """The module in which the layer looks the function up."""
    for cls in type(layer).__mro__:
        module = importlib.import_module(cls.__module__)
        if hasattr(module, function):
            return module
    raise AssertionError(f"{function} is not used by {type(layer).__name__}")


@pytest.mark.parametrize("name", PLAIN)
def test_weight_0_computes_nothing(name, monkeypatch):
    make, function = PLAIN[name]

    def refuse(*args, **kwargs):
        raise AssertionError("computed although the weight is 0")

    layer = make(0.0)
    monkeypatch.setattr(module_of(layer, function), function, refuse)
    layer(Z, training=True)
    assert layer.losses == []
    assert layer.metrics == []
    with pytest.raises(AssertionError, match="weight is 0"):
        make(1.0)(Z, training=True)


def test_weight_0_makes_no_discriminator():
    layer = qlayers.TotalCorrelationDiscriminator(0.0)
    layer(Z, training=True)
    assert layer.weights == []
    with pytest.raises(ValueError, match="weight is 0"):
        layer.discriminator_loss(Z, Z)


@pytest.mark.backends
@pytest.mark.parametrize("name", PLAIN)
def test_only_training_adds_losses_unless_asked(name):
    make, _ = PLAIN[name]
    layer = make(1.0)
    layer(Z)
    assert layer.losses == []
    layer(Z, training=True)
    assert len(layer.losses) >= 1
    config = layer.get_config()
    del config["at_inference"]
    for name in ("at_inference", "always"):  # the second stands in older files
        at_inference = type(layer).from_config(
            {**copy.deepcopy(config), name: True}  # Keras empties what it reads
        )
        at_inference(Z)
        assert len(at_inference.losses) == len(layer.losses)


@pytest.mark.backends
@pytest.mark.parametrize("name", [n for n in PLAIN if "hessian" not in n])
def test_the_input_comes_back_untouched(name):
    make, _ = PLAIN[name]
    layer = make(1.0)
    for dtype in ("float32", "float16"):
        z = ops.convert_to_tensor(Z.astype(dtype))
        outputs = layer(z, training=True)
        assert keras.backend.standardize_dtype(outputs.dtype) == dtype
        np.testing.assert_array_equal(as_float64(outputs), as_float64(z))
    spec = layer(keras.KerasTensor((None, 4), dtype="float16"))
    assert spec.dtype == "float16"


@pytest.mark.backends
def test_raw_values_are_tracked_and_weighted_ones_added():
    layer = qlayers.KernelMultiinformation(3.0)
    expected = as_float64(functional.kernel_multiinformation(Z))
    layer(Z, training=True)
    np.testing.assert_allclose(as_float64(layer.losses[0]), 3 * expected, rtol=1e-5)
    (metric,) = layer.metrics
    np.testing.assert_allclose(as_float64(metric.result()), expected, rtol=1e-5)
    assert metric.name == f"{layer.name}_multiinformation"


@pytest.mark.backends
def test_a_term_never_counted_is_absent_not_zero():
    layer = qlayers.KernelMultiinformation(1.0)
    assert layer.metrics[0].result() == {}
    layer(Z, training=True)
    assert np.isfinite(as_float64(layer.metrics[0].result()))


@pytest.mark.backends
def test_weights_follow_a_schedule():
    schedule = keras.optimizers.schedules.PiecewiseConstantDecay(
        [0, 1], [1.0, 5.0, 0.0]
    )
    layer = qlayers.ActivityEnergy(schedule, nonnegative_weight=0.0)
    value = (Z.astype("float64") ** 2).mean()
    for weight in (1.0, 5.0, 0.0, 0.0):
        layer(Z, training=True)
        np.testing.assert_allclose(
            as_float64(layer.losses[0]), weight * value, rtol=1e-5
        )


@pytest.mark.backends
def test_cliffs_bandwidth_follows_a_schedule():
    """Each call has the terms of its own bandwidth; the config keeps the schedule."""
    schedule = keras.optimizers.schedules.PiecewiseConstantDecay([0], [1.0, 0.3])
    layer = qlayers.Cliff(bandwidth=schedule, num_conditions=len(Z), seed=1)
    layer = qlayers.Cliff.from_config(layer.get_config())
    for bandwidth in (1.0, 0.3, 0.3):
        layer(Z, training=True)
        expected = functional.cliff_terms(
            Z, bandwidth, terms=["univariate", "bivariate"], conditions=np.arange(10)
        )
        # All samples are conditions, so that the order that is drawn does not matter.
        univariate, bivariate, _ = (as_float64(loss) for loss in layer.losses)
        np.testing.assert_allclose(
            [univariate, bivariate],
            [
                0.5 * as_float64(expected["univariate"]),
                as_float64(expected["bivariate"]),
            ],
            rtol=1e-4,
        )


@pytest.mark.parametrize("bandwidth", [0.0, -0.1, "wide"])
def test_cliff_refuses_a_bandwidth_that_is_none(bandwidth):
    with pytest.raises(ValueError, match=r"bandwidth.*LearningRateSchedule"):
        qlayers.Cliff(bandwidth=bandwidth)


@pytest.mark.backends
def test_leading_axes_are_samples():
    layer = qlayers.KernelMultiinformation(1.0)
    layer(ops.reshape(Z, (2, 5, 4)), training=True)
    expected = functional.kernel_multiinformation(Z)
    np.testing.assert_allclose(
        as_float64(layer.losses[0]), as_float64(expected), rtol=1e-5
    )


@pytest.mark.backends
@pytest.mark.parametrize("name", PLAIN)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_nan_and_infinity_name_their_cause(name, bad):
    make, _ = PLAIN[name]
    z = Z.copy()
    z[3, 1] = bad
    with pytest.raises(ValueError, match="NaN or infinity"):
        make(1.0)(z, training=True)


def test_cliff_shows_only_the_terms_it_computes():
    layer = qlayers.Cliff(2.0, univariate_weight=0.0, uniform_weight=3.0, seed=0)
    layer(Z, training=True)
    names = [metric.name.removeprefix(layer.name + "_") for metric in layer.metrics]
    assert names == ["bivariate", "uniform"]
    values = [float(metric.result()) for metric in layer.metrics]
    losses = [float(loss) for loss in layer.losses]
    np.testing.assert_allclose(losses, [2 * values[0], 6 * values[1]], rtol=1e-5)


def test_cliff_terms_of_the_layer_are_those_of_the_function():
    layer = qlayers.Cliff(seed=5, bandwidth=0.3, num_conditions=10)
    layer(Z, training=True)
    expected = functional.cliff_terms(
        Z, bandwidth=0.3, conditions=np.arange(10), terms=["univariate", "bivariate"]
    )
    shown = {
        m.name.removeprefix(layer.name + "_"): float(m.result()) for m in layer.metrics
    }
    for term in ("univariate", "bivariate"):
        np.testing.assert_allclose(shown[term], float(expected[term]), rtol=1e-4)


def test_cliffs_divergence_of_pairs_is_an_option_of_the_layer(monkeypatch):
    """Appendix F.5; the layer hands its own draws over, and keeps the option."""
    points = np.random.default_rng(0).uniform(-1.7, 1.7, (100, 2)).astype("float32")
    layer = qlayers.Cliff(univariate_weight=0.0, bivariate_weight=0.0, bandwidth=0.3)
    both = [layer, qlayers.Cliff.from_config({**layer.get_config(), **_OF_PAIRS})]
    monkeypatch.setattr(
        keras.random,
        "uniform",
        lambda shape, *a, **k: keras.ops.convert_to_tensor(
            points if len(shape) == 2 else points[:, 0]
        ),
    )
    for made, dimensions in zip(both, (1, 2), strict=True):
        assert made.get_config()["uniform_dimensions"] == dimensions
        made(Z, training=True)
        expected = functional.cliff_terms(
            Z, bandwidth=0.3, terms=["uniform"], uniform_dimensions=dimensions
        )["uniform"]
        assert float(made.metrics[0].result()) == pytest.approx(float(expected), 1e-5)
    assert float(both[0].losses[0]) != pytest.approx(float(both[1].losses[0]), 0.01)


_OF_PAIRS = {"uniform_dimensions": 2, "name": "of_pairs"}


@pytest.mark.backends
def test_minibatch_total_correlation_reports_all_three():
    mean, scale = 0.5 * Z, np.full_like(Z, 0.7)
    layer = qlayers.MinibatchTotalCorrelation(4.0, 500, mi_weight=0.0, kl_weight=2.0)
    z = layer(Z, mean, scale, training=True)
    np.testing.assert_array_equal(as_float64(z), Z)
    expected = functional.minibatch_total_correlation(Z, mean, scale, 500)
    shown = {m.name.removeprefix(layer.name + "_"): m for m in layer.metrics}
    for name, value in expected.items():
        np.testing.assert_allclose(
            as_float64(shown[name].result()), as_float64(value), rtol=1e-5
        )
    total = 4 * expected["total_correlation"] + 2 * expected["dimension_kl"]
    np.testing.assert_allclose(
        as_float64(sum(layer.losses)), as_float64(total), rtol=1e-4
    )
    off = qlayers.MinibatchTotalCorrelation(0.0, 500, mi_weight=0.0, kl_weight=0.0)
    off(Z, mean, scale, training=True)
    assert off.losses == []
    assert off.metrics == []


@pytest.mark.backends
def test_gradient_through_the_layer_is_the_functions_times_the_weight():
    layer = qlayers.KernelMultiinformation(0.5)
    layer(Z)
    ours = gradients(layer, Z, add_losses=True, training=True).inputs
    expected = gradient_of(functional.kernel_multiinformation, Z)
    np.testing.assert_allclose(ours, 0.5 * expected, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: qlayers.KernelMultiinformation(-1.0), "weight"),
        (lambda: qlayers.KernelMultiinformation(1.0, bandwidth="x"), "bandwidth"),
        (lambda: qlayers.Cliff(bandwidth=0.0), "bandwidth"),
        (lambda: qlayers.Cliff(num_grid=1), "num_grid"),
        (lambda: qlayers.Cliff(num_conditions=0), "num_conditions"),
        (lambda: qlayers.ActivityEnergy(float("nan")), "activity_weight"),
        (lambda: qlayers.HausdorffFactorizedSupport(1.0, num_pairs=0), "num_pairs"),
        (lambda: qlayers.IndependentSupport(1.0, trim=0.5), "trim"),
        (lambda: qlayers.IndependentSupport(1.0, num_samples=2.5), "num_samples"),
        (lambda: qlayers.MinibatchTotalCorrelation(1.0, 0), "dataset_size"),
        (
            lambda: qlayers.TotalCorrelationDiscriminator(1.0, (0,)),
            "hidden_units",
        ),
        (lambda: qlayers.HessianPenalty("decoder", 1.0), "[Ll]ayer"),
        (
            lambda: qlayers.HessianPenalty(make_decoder(), 1.0, aggregate="joint"),
            "aggregate",
        ),
        (
            lambda: qlayers.NormalizedHessianPenalty(
                make_decoder(), 1.0, batch_fraction=1.5
            ),
            "batch_fraction",
        ),
        (
            lambda: qlayers.NormalizedHessianPenalty(
                make_decoder(), 1.0, step_interval=0
            ),
            "step_interval",
        ),
        (
            lambda: qlayers.NormalizedHessianPenalty(make_decoder(), 1.0, outputs=[]),
            "outputs",
        ),
    ],
)
def test_bad_arguments(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("layer", "shape", "message"),
    [
        (qlayers.HausdorffFactorizedSupport(1.0), (3, 1), "least two"),
        (qlayers.TotalCorrelationDiscriminator(1.0, one_hot=True), (3, 4), "one_hot"),
        (qlayers.KernelMultiinformation(1.0), (3, None), "last axis"),
        (
            qlayers.NormalizedHessianPenalty(make_decoder(), 1.0),
            (3, 2, 4),
            r"\(batch, n\)",
        ),
    ],
)
def test_bad_shapes(layer, shape, message):
    with pytest.raises(ValueError, match=message):
        layer(keras.KerasTensor(shape))


@pytest.mark.backends
def test_terms_of_training_are_absent_from_validation():
    """A NaN under `val_` would end what watches it; a 0 would look perfect."""
    keras.utils.set_random_seed(0)
    inputs = keras.Input((4,))
    z = qlayers.ActivityEnergy(0.1, name="training")(keras.layers.Dense(4)(inputs))
    z = qlayers.ActivityEnergy(0.1, at_inference=True, name="always")(z)
    model = keras.Model(inputs, keras.layers.Dense(4)(z))
    model.compile("sgd", "mse")
    x = np.random.default_rng(0).normal(size=(16, 4)).astype("float32")
    options = {"batch_size": 8, "epochs": 2, "verbose": 0}
    history = model.fit(x, x, validation_data=(x, x), **options).history
    terms = {"activity", "nonnegative"}
    both = {f"{name}_{t}" for name in ("training", "always") for t in terms}
    expected = {"loss", *both, "val_loss", *(f"val_always_{t}" for t in terms)}
    assert {*history} == expected
    assert all(len(v) == 2 and np.isfinite(v).all() for v in history.values())
    found = model.evaluate(x, x, verbose=0, return_dict=True)
    assert {*found} == {"loss", "always_activity", "always_nonnegative"}
