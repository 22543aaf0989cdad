"""What Hsu et al. 2023 tried without success: the options of appendix B.4."""

import keras
import numpy as np
import pytest

from experiments.settings.hyperparameters import resolve_schedules
from models.optimizers import UNDECAYED, make_adam
from tests.models.tiny import tiny_images, tiny_model

RATE, DECAY, L1 = 1e-3, 0.5, 0.01


def _schedule(text, steps):
    written = resolve_schedules({"value": text}, steps)["value"]
    return keras.optimizers.schedules.deserialize(written)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("step(0, 0.1)", [0.0, 0.0, 0.0, 0.0, 0.0, 0.1, 0.1, 0.1, 0.1, 0.1]),
        ("step(0.2, 0, 3)", [0.2, 0.2, 0.2, 0, 0, 0, 0, 0, 0, 0]),
        ("linear(0, 0.01)", np.linspace(0, 0.01, 11)[:10]),
        ("linear(0, 0.01, 5)", [0, 0.002, 0.004, 0.006, 0.008] + [0.01] * 5),
    ],
)
def test_schedules_that_start_at_zero(text, values):
    schedule = _schedule(text, 10)
    found = [float(schedule(step)) for step in range(10)]
    np.testing.assert_allclose(found, values, rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("clip_value", [None, 1.0])
@pytest.mark.parametrize("run_eagerly", [True, False])
def test_weight_decay_that_starts_after_half_of_the_training(clip_value, run_eagerly):
    """One zero gradient a step: nothing but decay moves the weight."""
    inputs = keras.Input((1,))
    model = keras.Model(inputs, keras.layers.Dense(1, name="layer")(inputs))
    optimizer = make_adam(RATE, _schedule("step(0, 100)", 4), clip_value=clip_value)
    model.compile(optimizer, loss=lambda y, p: 0.0 * p, run_eagerly=run_eagerly)
    model.set_weights([np.ones((1, 1)), np.ones(1)])
    kernels = []
    for _ in range(4):
        model.train_on_batch(np.ones((2, 1)), np.ones((2, 1)))
        kernel, bias = model.get_weights()
        kernels.append(float(kernel[0, 0]))
        assert bias[0] == 1.0
    kept = optimizer.get_config()["weight_decay"]["config"]["values"]
    assert kept == [0.0, 100.0]
    shrunk = 1 - RATE * 100
    np.testing.assert_allclose(kernels, [1, 1, shrunk, shrunk**2], rtol=1e-6)


@pytest.mark.parametrize("decay", [0.0, DECAY])
def test_l1_norm_of_the_weights(decay):
    """Adam's first moment shows a tenth of each gradient, which has the sign more."""
    without, plain = _moments("qlae", weight_decay=decay)
    model, regularized = _moments("qlae", weight_decay=decay, l1_weight=L1)
    expected, norm = 0, 0
    for variable, start, first, second in zip(
        without.trainable_variables, STARTS, plain, regularized, strict=True
    ):
        counts = variable.name.rpartition("/")[2] not in UNDECAYED
        difference = 0.1 * L1 * np.sign(start) if counts else np.zeros_like(start)
        np.testing.assert_allclose(second - first, difference, atol=1e-6)
        norm += np.abs(start).sum() if counts else 0.0
        expected += counts
    assert 5 < expected < len(plain)
    assert float(model.l1_trackers["l1_norm"].result()) == pytest.approx(norm, 1e-5)
    assert not without.l1_trackers


STARTS: list = []


def _moments(method, **options):
    model = tiny_model(method, learning_rate=RATE, **options)
    STARTS[:] = [np.array(v) for v in model.trainable_variables]
    model.compile(run_eagerly=True)
    model.train_on_batch(tiny_images())
    return model, [np.array(m) for m in model.optimizer._momentums]


def test_l1_norm_is_in_the_losses_of_both_sides_of_a_gan():
    losses = []
    for weight in (0.0, L1):
        model = tiny_model("ql_infowgan_gp", encoder_steps=1, l1_weight=weight)
        keras.utils.set_random_seed(0)
        norms = [
            sum(
                np.abs(np.array(v)).sum()
                for v in variables
                if v.name.rpartition("/")[2] not in UNDECAYED
            )
            for variables in (model.encoder_variables, model.generator_variables)
        ]
        # Nobody moves, so that both sides see the weights they started with.
        model.compile(
            keras.optimizers.SGD(0.0), keras.optimizers.SGD(0.0), run_eagerly=True
        )
        logs = model.train_on_batch(tiny_images(), return_dict=True)
        losses.append((float(logs["loss"]), float(logs["generator_loss"])))
    added = np.subtract(losses[1], losses[0])
    np.testing.assert_allclose(added, L1 * np.array(norms), rtol=1e-3)
    assert float(logs["encoder_l1_norm"]) == pytest.approx(norms[0], 1e-5)
    assert float(logs["generator_l1_norm"]) == pytest.approx(norms[1], 1e-5)


def test_weights_of_the_codebook_losses_grow_from_zero():
    model = tiny_model(
        "qlae",
        quantize_weight=_schedule("linear(0, 4, 2)", 2),
        commit_weight=_schedule("linear(0, 4, 2)", 2),
    )
    model.compile(run_eagerly=True)
    for weight in (0.0, 2.0, 4.0, 4.0):
        model.reset_metrics()
        logs = model.train_on_batch(tiny_images(), return_dict=True)
        of_codes = logs["quantizer_quantize_loss"] + logs["quantizer_commit_loss"]
        wanted = logs["reconstruction"] + weight * of_codes
        assert float(logs["loss"]) == pytest.approx(float(wanted), 1e-5)


def test_whose_steps_train_the_codebook():
    for side in ("generator", "encoder"):
        model = tiny_model("ql_infowgan_gp", codebook_side=side)
        codebook = {id(v) for v in model.quantizer.trainable_variables}
        owners = {
            "encoder": codebook <= {id(v) for v in model.encoder_variables},
            "generator": codebook <= {id(v) for v in model.generator_variables},
        }
        assert owners == {s: s == side for s in ("encoder", "generator")}
    with pytest.raises(ValueError, match="codebook_side"):
        tiny_model("ql_infowgan_gp", codebook_side="critic")
