"""Training that diverges ends with its last good state."""

import keras
import numpy as np
import pytest

from qlayers.callbacks import StopOnNonFinite
from qlayers.callbacks.stop_on_non_finite import training_variables

BATCH = 4


def state_of(model):
    """Copies of everything that a step changes, running means apart."""
    return [np.array(keras.ops.convert_to_numpy(v)) for v in training_variables(model)]


def assert_same(ours, theirs):
    assert len(ours) == len(theirs)
    for left, right in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(left, right)


def dense_model(learning_rate=0.01):
    keras.utils.set_random_seed(3)
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    model.compile(keras.optimizers.Adam(learning_rate), "mse")
    return model


def vectors(steps, bad=None):
    """Batches of inputs and targets; the one of step `bad` (from 1 on) is NaN."""
    generator = np.random.default_rng(0)
    x = generator.normal(size=(steps * BATCH, 3)).astype("float32")
    y = generator.normal(size=(steps * BATCH, 2)).astype("float32")
    if bad is not None:
        x[(bad - 1) * BATCH] = np.nan
    return x, y


def train(model, data, **options):
    said = []
    guard = StopOnNonFinite(report=said.append, **options)
    x, y = data
    model.fit(x, y, batch_size=BATCH, shuffle=False, verbose=0, callbacks=[guard])
    return guard, said


@pytest.mark.backends
@pytest.mark.parametrize(
    ("bad", "every", "restored"),
    # Good is what a finite loss was computed with: of the copies at 4 and 8, the one
    # at 8 is tried at step 9.
    [(1, 4, 0), (4, 4, 0), (5, 4, 0), (6, 4, 4), (9, 4, 4), (10, 4, 8), (7, 1, 5)],
)
def test_state_is_that_of_the_last_good_copy(bad, every, restored):
    model = dense_model()
    guard, said = train(model, vectors(12, bad), every_n_steps=every)
    assert (guard.diverged_at, guard.restored_step) == (bad, restored)
    # The same training, ended in time.
    wanted = dense_model()
    x, y = vectors(12)
    if restored:
        x, y = x[: restored * BATCH], y[: restored * BATCH]
        wanted.fit(x, y, batch_size=BATCH, shuffle=False, verbose=0)
    else:
        wanted.optimizer.build(wanted.trainable_variables)
    assert_same(state_of(model), state_of(wanted))
    assert int(model.optimizer.iterations) == restored
    assert said == [guard.message]
    assert f"`loss` is nan at step {bad}" in said[0]
    assert f"those of step {restored} again" in said[0]


@pytest.mark.backends
def test_training_goes_on_from_the_good_state():
    model = dense_model()
    guard, _ = train(model, vectors(12, bad=7), every_n_steps=2)
    x, y = vectors(12)
    rest = slice(guard.restored_step * BATCH, None)
    history = model.fit(x[rest], y[rest], batch_size=BATCH, shuffle=False, verbose=0)
    assert np.isfinite(history.history["loss"]).all()
    whole = dense_model()
    whole.fit(x, y, batch_size=BATCH, shuffle=False, verbose=0)
    assert_same(state_of(model), state_of(whole))


@pytest.mark.backends
def test_finite_training_is_left_alone():
    watched, plain = dense_model(), dense_model()
    guard, said = train(watched, vectors(12), every_n_steps=2)
    x, y = vectors(12)
    plain.fit(x, y, batch_size=BATCH, shuffle=False, verbose=0)
    assert_same(state_of(watched), state_of(plain))
    assert guard.diverged_at is None and guard.restored_step is None
    assert said == []


@pytest.mark.backends
def test_enormous_learning_rate():
    """Finite weights that give an infinite loss are not good weights."""
    model = dense_model()
    before = state_of(model)
    model.compile(keras.optimizers.SGD(1e30), "mse")
    guard, _ = train(model, vectors(12), every_n_steps=1)
    # The first update leaves weights of about 1e30, whose squared error overflows.
    assert (guard.diverged_at, guard.restored_step) == (2, 0)
    assert_same([np.array(w) for w in model.get_weights()], before[:2])


@pytest.mark.backends
def test_weights_that_are_not_finite_are_noticed_at_the_end():
    """The loss of the last step is finite; what the step does is not."""
    model = dense_model()
    before = state_of(model)
    # The gradient of the root is infinite at 0, where the first step is.
    model.set_weights([np.zeros((3, 2), "float32"), np.zeros(2, "float32")])
    model.compile(
        keras.optimizers.SGD(0.1), lambda y, p: keras.ops.sqrt(keras.ops.sum(p * p))
    )
    guard, said = train(model, vectors(1))
    assert (guard.diverged_at, guard.restored_step) == (1, 0)
    assert "a weight is not finite at step 1" in said[0]
    assert all((w == 0).all() for w in model.get_weights())
    assert len(before) > 2


def test_several_steps_at_once_and_a_second_epoch():
    model = dense_model()
    model.compile(keras.optimizers.Adam(0.01), "mse", steps_per_execution=3)
    guard = StopOnNonFinite(every_n_steps=3, report=lambda text: None)
    calls = []

    class Poison(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            calls.append(epoch)
            if epoch == 1:
                x[:] = np.nan

    x, y = vectors(6)

    def batches():
        while True:
            for first in range(0, len(x), BATCH):
                yield x[first : first + BATCH], y[first : first + BATCH]

    model.fit(
        batches(), epochs=5, steps_per_epoch=6, verbose=0, callbacks=[guard, Poison()]
    )
    assert calls == [0, 1]
    assert guard.diverged_at in (9, 12)  # batches of before may wait in a queue
    assert guard.restored_step == guard.diverged_at - 6
    assert int(model.optimizer.iterations) == guard.restored_step


def test_error_is_raised_after_the_weights_are_back():
    model = dense_model()
    before = state_of(model)[:2]
    with pytest.raises(FloatingPointError, match="`loss` is nan at step 1"):
        train(model, vectors(3, bad=1), error=True)
    assert_same([np.array(w) for w in model.get_weights()], before)


@pytest.mark.parametrize(
    "options", [{"every_n_steps": 0}, {"every_n_steps": 1.5}, {"monitors": "loss"}]
)
def test_bad_arguments(options):
    with pytest.raises(ValueError, match="must be a"):
        StopOnNonFinite(**options)
