"""Every kind of model stops when it diverges, with its last good state."""

import keras
import numpy as np
import pytest

import models
from qlayers.callbacks import StopOnNonFinite
from qlayers.callbacks.stop_on_non_finite import training_variables

BATCH = 10
# The default run has the one with two optimizers; a GAN's generator diverges below.
METHODS = (
    pytest.param("qlae", marks=pytest.mark.slow),
    "factor_qvae",
    pytest.param("ql_infowgan_gp", marks=pytest.mark.slow),
)


def make_model(method):
    keras.utils.set_random_seed(0)
    options = {"encoder_steps": 2} if "gan" in method else {}
    # The smallest networks: what counts is which variables there are.
    model = models.build(
        method, (32, 32, 3), 3, network="locatello", width=0.0625, **options
    )
    model.compile()
    return model


def images(steps):
    generator = np.random.default_rng(0)
    return generator.random((steps * BATCH, 32, 32, 3), dtype="float32")


def train(model, x, *callbacks):
    model.fit(x, batch_size=BATCH, shuffle=False, verbose=0, callbacks=list(callbacks))


def state_of(model):
    return [np.array(v) for v in training_variables(model)]


@pytest.mark.parametrize("method", METHODS)
def test_last_good_state_of_all_networks_and_optimizers(method):
    x = images(6)
    x[4 * BATCH :] = np.nan
    model = make_model(method)
    guard = StopOnNonFinite(every_n_steps=2, report=lambda text: None)
    train(model, x, guard)
    # The copy of step 4 gave no finite loss, that of step 2 did.
    assert (guard.diverged_at, guard.restored_step) == (5, 2)
    wanted = make_model(method)
    train(wanted, x[: 2 * BATCH])
    for ours, theirs in zip(state_of(model), state_of(wanted), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert np.isfinite(model.encode(images(1))).all()


def test_generator_that_diverges_alone():
    """Its loss is another than the encoder's."""
    model = make_model("ql_infowgan_gp")
    # The last kernel: ReLUs fused with what precedes them may turn NaN into 0.
    model.decoder.trainable_variables[-1].assign_add(np.float32(np.nan))
    guard = StopOnNonFinite(
        every_n_steps=9, monitors=["generator_loss"], report=lambda text: None
    )
    train(model, images(2), guard)
    assert guard.diverged_at == 1
    assert "`generator_loss` is nan" in guard.message


def test_checkpoint_with_a_running_mean_that_is_not_finite_is_good():
    """Only what the next step starts from must be finite."""
    from experiments.storage.checkpoints import (
        all_variables,
        take_snapshot,
        training_values,
    )

    model = make_model("qlae")
    model.metrics_variables[0].assign(np.nan)
    snapshot = take_snapshot(model, 1)
    values = training_values(model, snapshot)
    assert not np.isfinite(np.concatenate([a.ravel() for a in snapshot.arrays])).all()
    assert np.isfinite(np.concatenate([a.ravel() for a in values])).all()
    means = len(model.metrics_variables)
    assert len(values) == len(all_variables(model)) - means
