"""Edits of a quantizer whose decoder is known, so that each price can be computed."""

import keras
import numpy as np
import pytest

import qlayers
from qlayers.callbacks import SizeAdaptation

GRID = np.array([-1.5, -0.5, 0.5, 1.5])


def sample(size=400, seed=0):
    """Codes of three latents; the images are what the decoder makes of them."""
    return GRID[np.random.default_rng(seed).integers(0, 4, (size, 3))]


def make(scale, target, **options):
    """Pixels are the latents times `scale`: latent j costs scale_j² of its error."""
    quantizer = qlayers.SelfSizingQuantizer(4, init_range=1.5)
    quantizer.build((None, 3))
    latents = sample()
    scale = np.asarray(scale)
    adaptation = SizeAdaptation(
        quantizer,
        latents * scale,
        encode=lambda images: (
            images / np.where(scale == 0, 1, scale) if scale.all() else latents
        ),
        decode=lambda z: z * scale,
        target=target,
        **options,
    )
    return quantizer, adaptation


def test_a_latent_that_the_decoder_ignores_is_dropped_first():
    quantizer, adaptation = make([1.0, 0.0, 1.0], target=1e-3, max_edits=1)
    while True:
        before = quantizer.sizes()
        adaptation.adapt()
        if quantizer.sizes() == before:
            break
    assert quantizer.sizes() == [4, 1, 4]
    assert adaptation.history[-1]["distortion"] < 1e-9


def test_edits_have_the_price_that_can_be_computed():
    quantizer, adaptation = make([1.0, 0.3, 1.0], target=1.0)
    look = adaptation._look()
    codes, latents = look.codes, look.latents
    np.testing.assert_allclose(look.errors, 0.0, atol=1e-12)
    unpriced = [
        edit for latent in range(3) for edit in adaptation._edits_of(latent, look)
    ]
    edits = adaptation._priced(unpriced, look)
    assert len(edits) == 3 * 4  # three merges and an end for each latent
    for edit in edits:
        column = latents[:, edit.latent]
        inside = np.isin(codes[:, edit.latent], edit.codes)
        share = [1.0, 0.3, 1.0][edit.latent] ** 2 / 3  # of three pixels
        expected = share * (inside * (column - column[inside].mean()) ** 2).mean()
        assert edit.added == pytest.approx(expected, rel=1e-5)
        assert edit.value == pytest.approx(column[inside].mean())
        before = entropy(column)
        after = entropy(np.where(inside, 99.0, column))
        assert edit.bits == pytest.approx(before - after)
    prices = [edit.price for edit in edits]
    assert prices == sorted(prices)
    assert edits[0].latent == 1
    assert quantizer.sizes() == [4, 4, 4]  # pricing changes nothing


def entropy(values):
    _, counts = np.unique(values, return_counts=True)
    p = counts / counts.sum()
    return -(p * np.log2(p)).sum()


@pytest.mark.parametrize("target", [0.01, 0.05, 0.2, 0.6])
def test_the_target_holds_after_every_look(target):
    quantizer, adaptation = make([1.0, 0.5, 0.7], target)
    for _ in range(20):
        adaptation.adapt()
        assert adaptation._look().distortion <= target
    # Nothing more that the target allows is left.
    assert adaptation.history[-1]["edits"] == 0
    assert sum(quantizer.sizes()) < 12


def test_a_reconstruction_above_the_target_is_left_alone():
    quantizer, adaptation = make([1.0, 1.0, 1.0], target=0.1)
    adaptation.inputs = adaptation.inputs + 1.0
    adaptation.encode = lambda images: images - 1.0
    adaptation.adapt()
    assert quantizer.sizes() == [4, 4, 4]
    assert adaptation.history == [
        {
            "step": 0,
            "distortion": pytest.approx(1.0),
            "sizes": [4, 4, 4],
            "edits": 0,
        }
    ]


def test_values_that_nothing_uses_go_for_nothing():
    quantizer, adaptation = make([1.0, 1.0, 1.0], target=1e-9)
    few = sample()
    few[:, 0] = np.where(few[:, 0] > 0, 1.5, -1.5)
    adaptation.inputs = few
    adaptation.adapt()
    assert quantizer.sizes() == [2, 4, 4]
    np.testing.assert_allclose(quantizer.values_left()[0], [-1.5, 1.5])


@pytest.mark.backends
def test_in_fit_it_edits_and_leaves_the_history_alone():
    images = sample(64).astype("float32")

    def fitted(callbacks):
        keras.utils.set_random_seed(2)
        quantizer = qlayers.SelfSizingQuantizer(4, init_range=1.5, name="q")
        inputs, latents = keras.Input((3,)), keras.Input((3,))
        encoder = keras.Model(inputs, keras.layers.Identity()(inputs))
        decoder = keras.Model(latents, keras.layers.Identity()(latents))
        model = keras.Model(inputs, decoder(quantizer(encoder(inputs))))
        model.compile(keras.optimizers.SGD(0.0), "mse")
        added = callbacks(quantizer, encoder, decoder)
        history = model.fit(images, images, epochs=2, verbose=0, callbacks=added)
        return quantizer, added, history.history

    def adapting(quantizer, encoder, decoder):
        options = {"target": 0.2, "every_n_steps": 2}
        return [SizeAdaptation(quantizer, images, encoder, decoder, **options)]

    _, _, expected = fitted(lambda *parts: [])
    quantizer, (adaptation,), history = fitted(adapting)
    assert [row["step"] for row in adaptation.history] == [2, 4]
    assert adaptation.history[-1]["sizes"] == quantizer.sizes() != [4, 4, 4]
    # The first epoch ends with the first look: nothing of it is seen in its means.
    assert history["loss"][0] == expected["loss"][0]
    assert history["q_commit_loss"][0] == expected["q_commit_loss"][0]
    # The second epoch trains with fewer values.
    assert history["loss"][1] > expected["loss"][1]
    assert history["q_values_left"][1] < 12


def stretched(start_values, warmup_steps=10):
    """Two latents of uniform numbers; the decoder shows the first only."""
    quantizer = qlayers.SelfSizingQuantizer(8, start_values, init_range=0.5)
    quantizer.build((None, 2))
    inputs = np.random.default_rng(0).uniform(-0.5, 0.5, (400, 1)).astype("float32")
    adaptation = SizeAdaptation(
        quantizer,
        inputs,
        encode=lambda x: np.hstack([x, x[::-1]]),
        decode=lambda z: z[:, :1],
        warmup_steps=warmup_steps,
        every_n_steps=5,
    )
    return quantizer, adaptation, inputs


def test_the_warm_up_splits_values_whose_rounding_costs():
    quantizer, adaptation, inputs = stretched(3)
    np.testing.assert_allclose(quantizer.values_left()[0], [-0.5, 0.0, 0.5])
    adaptation.adapt(step=5)
    # Cells of -0.5 and 0.5 are half as wide as that of 0: it has the largest error.
    own = inputs[np.abs(inputs[:, 0]) <= 0.25, 0]
    upper = own > own.mean()
    expected = [-0.5, own[~upper].mean(), own[upper].mean(), 0.5]
    np.testing.assert_allclose(quantizer.values_left()[0], expected, rtol=1e-5)
    assert quantizer.sizes() == [4, 3]  # nothing is gained by a finer second latent
    for _ in range(9):
        adaptation.adapt(step=5)
    assert quantizer.sizes() == [8, 3]  # there is room for eight
    errors = [row["distortion"] for row in adaptation.history]
    assert errors[-1] < errors[0] / 10
    assert [row["edits"] for row in adaptation.history] == [1] * 5 + [0] * 5


def test_a_quantizer_without_room_is_left_alone_in_the_warm_up():
    quantizer, adaptation, _ = stretched(None)
    before = quantizer.values_left()[0]
    adaptation.adapt(step=5)
    np.testing.assert_array_equal(quantizer.values_left()[0], before)


def test_without_a_target_the_first_look_after_the_warm_up_sets_it():
    quantizer, adaptation, inputs = stretched(None)
    adaptation.tolerance = 3.0
    for step in (4, 5, 9, 11):  # too early, or no step to look at
        adaptation.after_step(step)
    assert float(quantizer.target) == 0.0
    grid = np.linspace(-0.5, 0.5, 8)
    nearest = grid[np.abs(inputs[:, :1] - grid).argmin(axis=1)]
    error = ((inputs[:, 0] - nearest) ** 2).mean()
    adaptation.after_step(15)
    assert float(quantizer.target) == pytest.approx(3 * error, rel=1e-4)
    assert quantizer.sizes() == [8, 1]  # the second latent costs nothing
    adaptation.after_step(20)
    assert float(quantizer.target) == pytest.approx(3 * error, rel=1e-4)
    assert adaptation.history[-1]["distortion"] <= 3 * error


def test_what_was_gained_is_kept_when_latents_no_longer_end():
    quantizer, adaptation, inputs = stretched(None)
    decode = adaptation.decode
    adaptation.decode = lambda z: 0.5 * decode(z)  # an untrained decoder
    adaptation.after_step(10)
    first = float(quantizer.target)
    assert first > 0.01 and quantizer.sizes() == [8, 1]
    adaptation.decode = decode
    adaptation.after_step(30)
    grid = np.linspace(-0.5, 0.5, 8)
    nearest = grid[np.abs(inputs[:, :1] - grid).argmin(axis=1)]
    error = ((inputs[:, 0] - nearest) ** 2).mean()
    assert error < first / 5
    assert float(quantizer.target) == pytest.approx(error, rel=1e-4)
    # Any merge would cost more than that.
    assert quantizer.sizes() == [8, 1]
    # Later looks do not set it: here one that is worse, and one that is better.
    for scale in (0.5, 1.0):
        adaptation.decode = lambda z, scale=scale: scale * decode(z)
        adaptation.adapt(step=34)
        assert float(quantizer.target) == pytest.approx(error, rel=1e-4)


@pytest.mark.parametrize("step, sizes", [(30, False), (34, False), (35, True)])
def test_sizes_stay_while_training_settles(step, sizes):
    quantizer, adaptation, _ = stretched(None)
    adaptation.target = 1.0
    adaptation.adapt(step=step)
    assert (quantizer.sizes() == [8, 8]) is sizes


def test_the_weakest_latent_ends_while_the_others_get_finer():
    """Pixels are latents times a scale: the third matters least, the first most."""
    scale = np.array([1.0, 0.7, 0.3])
    quantizer = qlayers.SelfSizingQuantizer(6, start_values=4, init_range=1.5)
    quantizer.build((None, 3))
    images = np.random.default_rng(1).uniform(-1.5, 1.5, (256, 3)) * scale
    adaptation = SizeAdaptation(
        quantizer,
        images,
        encode=lambda x: x / scale,
        decode=lambda z: z * scale,
        target=0.05,
        warmup_steps=100,
    )
    sizes = []
    for _ in range(6):
        adaptation.adapt(step=150)
        assert adaptation._look().distortion <= 0.05
        sizes.append(quantizer.sizes())
    # The third loses values, then ends; finer values of the others make up for it.
    third = [row[2] for row in sizes]
    assert third[0] < 4 and third[-1] == 1 and third == sorted(third, reverse=True)
    # What was left of the target goes to the next weakest, not to the strongest.
    assert sizes[-1][0] == 6 and sizes[-1][1] < 6
    before = quantizer.sizes()
    adaptation.target = 1e-4
    adaptation.adapt(step=150)
    assert quantizer.sizes() == before


def test_mistakes_are_named():
    quantizer = qlayers.SelfSizingQuantizer(3)
    wrong = {"target": 0.0, "tolerance": 0.0, "max_edits": 0, "every_n_steps": 0}
    for name, value in wrong.items():
        options = {"target": 0.1, name: value}
        with pytest.raises(ValueError, match=name):
            SizeAdaptation(quantizer, [], None, None, **options)
