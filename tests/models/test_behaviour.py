"""What each paper's method is for, at the smallest scale that shows it."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

import models
import qlayers
from models.supervision import category_table
from qlayers import metrics
from qlayers.quantizers.base import BaseQuantizer
from qlayers.regularizers.base import LatentRegularizer
from tests.models.tiny import BATCH, NUM_LATENTS, fit, tiny_images, tiny_model


def _values(variables):
    return [np.array(v) for v in variables]


def _all_equal(before, after):
    return all(np.array_equal(a, b) for a, b in zip(before, after, strict=True))


def test_gan_steps_leave_the_other_network_alone():
    model = tiny_model("ql_infowgan_gp")
    model.compile()
    images = tf.constant(tiny_images())
    encoder, generator = model.encoder_variables, model.generator_variables
    assert not {id(v) for v in encoder} & {id(v) for v in generator}
    # The codebook is the generator's.
    assert any(v is model.quantizer.codebook for v in generator)

    before = _values(encoder), _values(generator)
    model._encoder_step(images)
    assert _all_equal(before[1], _values(generator))
    assert not _all_equal(before[0], _values(encoder))

    before = _values(encoder), _values(generator)
    model._generator_step(BATCH)
    assert _all_equal(before[0], _values(encoder))
    assert not _all_equal(before[1], _values(generator))


@pytest.mark.parametrize("method", ["factor_vae", "factor_d_vae", "factor_qvae"])
def test_factor_steps_leave_the_other_network_alone(method):
    model = tiny_model(method)
    model.compile()
    images = tf.constant(tiny_images())
    autoencoder = model.autoencoder_variables
    discriminator = model.discriminator.discriminator_variables

    before = _values(autoencoder), _values(discriminator)
    read = model._autoencoder_step(images, None)
    assert _all_equal(before[1], _values(discriminator))
    assert not _all_equal(before[0], _values(autoencoder))

    before = _values(autoencoder), _values(discriminator)
    model._discriminator_step(read, read)
    assert _all_equal(before[0], _values(autoencoder))
    assert not _all_equal(before[1], _values(discriminator))


def test_schedules_count_steps_though_a_step_has_two_batches():
    model = tiny_model("factor_qvae")
    model.compile()
    fit(model, steps=3)
    assert int(model.quantizer.training_step) == 3


def test_schedules_of_a_gan_count_steps_though_a_step_has_many_updates():
    """16 passes through the quantizer and 5 updates of the encoder are one step."""
    rate = keras.optimizers.schedules.PiecewiseConstantDecay([1, 2], [1.0, 2.0, 3.0])
    quarter = keras.optimizers.schedules.PiecewiseConstantDecay([2], [1e-3, 1e-4])
    model = tiny_model(
        "ql_infowgan_gp", commit_weight=rate, learning_rate=quarter, weight_decay=rate
    )
    model.compile(run_eagerly=True)  # three steps: tracing takes longer
    fit(model, steps=3)
    assert int(model.quantizer.training_step) == 3
    assert float(model.quantizer.value_of("commit_weight")) == 3.0
    for optimizer in (model.optimizer, model.generator_optimizer):
        assert float(optimizer.learning_rate) == np.float32(1e-4)
        assert float(optimizer.weight_decay) == 3.0
    assert int(model.optimizer.iterations) == 15
    counter = qlayers.callbacks.StopOnNonFinite()
    counter.set_model(model)
    counter.on_train_begin()
    assert counter._step == 3


def test_a_gans_schedule_has_one_value_within_a_step():
    """The terms of a step's calls are those of one weight, so their sum tells it."""
    rate = keras.optimizers.schedules.PiecewiseConstantDecay([0], [1.0, 100.0])
    losses = []
    for weight in (1.0, rate):
        model = tiny_model("ql_infowgan_gp", commit_weight=weight, quantize_weight=0.0)
        model.compile(run_eagerly=True)
        losses.append(model.train_on_batch(tiny_images(), return_dict=True)["loss"])
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-6)


def test_masked_categories_are_never_used():
    active = [[1, 4], 3, None, [0]]
    model = tiny_model("d_vae", active_values=active)
    model.compile()
    fit(model, steps=50)
    images = tiny_images()
    codes = model.codes(images)
    assert set(codes[:, 0]) <= {1, 4}
    # 3 of 8 categories, evenly: 0, 3.5 -> 4 (round half to even), 7.
    assert set(codes[:, 1]) <= {0, 4, 7}
    assert set(codes[:, 3]) == {0}
    _, weights = model.quantizer(
        model.quantizer_inputs(images), training=True, return_assignments=True
    )
    weights = np.array(weights)
    assert weights[:, 0, [0, 2, 3, 5, 6, 7]].max() == 0.0
    assert weights[:, 3, 1:].max() == 0.0


def test_labels_beyond_the_categories_are_binned():
    """Cars3D has 183 cars, a latent of D-VAE 64 categories."""
    quantizer = tiny_model("d_vae", num_values=64).quantizer
    table = category_table(quantizer, (4, 183))
    # The bin of a label among 64 of equal width, and 2 or 3 labels in each.
    expected = np.searchsorted(np.arange(1, 65) * 183 / 64, np.arange(183), "right")
    np.testing.assert_array_equal(table[1], expected)
    assert set(np.bincount(table[1], minlength=64)) == {2, 3}
    np.testing.assert_array_equal(table[0, :4], [0, 21, 42, 63])


@pytest.mark.slow
def test_supervision_ties_latents_to_labels():
    labels = np.stack([np.arange(BATCH) % 3, np.arange(BATCH) % 4], axis=1)
    images = tiny_images()
    # The labels show in the image: one in red, one in green.
    images[..., 0] = labels[:, 0, None, None] / 2
    images[..., 1] = labels[:, 1, None, None] / 3
    model = tiny_model(
        "d_vae",
        supervision_weight=100.0,
        label_sizes=(3, 4),
        active_values=[3, 4, None, None],
    )
    model.compile(keras.optimizers.Adam(3e-3))
    stream = tf.data.Dataset.from_tensors((images, (images, labels))).repeat()
    model.fit(stream, steps_per_epoch=300, epochs=1, verbose=0)
    codes = model.codes(images)
    for j in range(2):
        active = np.array(model.quantizer.active_categories[j])
        np.testing.assert_array_equal(codes[:, j], active[labels[:, j]])


@pytest.mark.parametrize(
    "kind", ["cross_entropy", "bce", "l2", "l2_sigmoid", "l2_scaled"]
)
def test_supervised_losses_are_summed_as_in_disentanglement_lib(kind):
    """Over images and factors: its loss of a batch grows with the batch."""
    method = "d_vae" if kind == "cross_entropy" else "supervised_vae"
    options = {} if kind == "cross_entropy" else {"supervision": kind}
    model = tiny_model(
        method,
        supervision_weight=1.0,
        supervision_reduction="sum",
        label_sizes=(3, 4),
        **options,
    )
    labels = np.stack([np.arange(BATCH) % 3, np.arange(BATCH) % 4], axis=1)
    features = model.quantizer_inputs(tiny_images())
    numbers = np.array(features, "float64")
    if kind == "cross_entropy":
        logits = numbers.reshape(BATCH, NUM_LATENTS, -1)[:, :2]
        table = category_table(model.quantizer, (3, 4))
        wanted = 0.0
        for row, label in zip(logits, labels, strict=True):
            for j in range(2):
                probabilities = np.exp(row[j]) / np.exp(row[j]).sum()
                wanted -= np.log(probabilities[table[j, label[j]]])
    else:
        mean, target = numbers[:, :2], labels / np.array([3, 4])
        chance = 1 / (1 + np.exp(-mean))
        entropy = -target * np.log(chance) - (1 - target) * np.log(1 - chance)
        wanted = {
            "bce": entropy.sum(),
            "l2": np.square(mean - target).sum(),
            "l2_sigmoid": np.square(chance - target).sum(),
            "l2_scaled": np.square(1.5 * mean - labels).sum(),
        }[kind]
    scale = 1.5 if kind == "l2_scaled" else 1.0
    found = float(model.supervision(model.quantizer, features, labels, scale))
    assert found == pytest.approx(wanted, rel=1e-4)


def test_scale_of_the_latents_is_learned_beside_raw_labels(tmp_path):
    """One number, 1 at first; its gradient is that of the sum of squares."""
    kinds = {"supervision": "l2_scaled", "supervision_reduction": "sum"}
    model = tiny_model("supervised_vae", label_sizes=(3, 4), **kinds)
    assert float(model.supervision_scale) == 1.0
    labels = np.stack([np.arange(BATCH) % 3, np.arange(BATCH) % 4], axis=1)
    mean = np.array(model.quantizer_inputs(tiny_images()), "float64")[:, :2]
    slope = 2 * np.sum(mean * (mean - labels))
    model.compile(keras.optimizers.SGD(1e-3), run_eagerly=True)
    model.train_on_batch(tiny_images(), (tiny_images(), labels))
    moved = 1.0 - 1e-3 * slope
    assert float(model.supervision_scale) == pytest.approx(moved, rel=1e-4)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert float(again.supervision_scale) == float(model.supervision_scale)
    plain = tiny_model("supervised_vae", label_sizes=(3, 4), supervision="l2")
    assert len(plain.trainable_variables) == len(model.trainable_variables) - 1


def _mixed_derivative_share(decoder, latents, step=0.1):
    """Squared mixed second differences over all squared second differences."""
    z = np.asarray(latents, "float32")
    n = z.shape[1]
    base = np.array(decoder(z))

    def shifted(*indices):
        moved = z.copy()
        for j in indices:
            moved[:, j] += step
        return np.array(decoder(moved))

    single = [shifted(j) for j in range(n)]
    mixed = total = 0.0
    for j in range(n):
        for k in range(j, n):
            second = shifted(j, k) - single[j] - single[k] + base
            energy = float(np.square(second).sum()) * (1 if j == k else 2)
            total += energy
            mixed += energy if j != k else 0.0
    return mixed / total


@pytest.mark.slow
def test_normalized_hessian_penalty_lowers_mixed_derivatives():
    shares = {}
    for weight in (0.0, 1e-2):
        model = tiny_model("tripod", nhp_weight=weight, klm_weight=0.0)
        model.compile()
        fit(model, steps=300)
        shares[weight] = _mixed_derivative_share(
            model.decoder, model.encode(tiny_images())
        )
    assert shares[1e-2] < 0.8 * shares[0.0], shares


def _correlated_images(count=256):
    """Brightness and width of a bar, strongly correlated."""
    generator = np.random.default_rng(1)
    first = generator.uniform(size=count)
    second = np.clip(first + 0.1 * generator.normal(size=count), 0, 1)
    column = np.arange(8).reshape(1, 1, 8, 1)
    inside = 1 / (1 + np.exp(2 * (column - 8 * second.reshape(-1, 1, 1, 1))))
    images = np.broadcast_to(inside * first.reshape(-1, 1, 1, 1), (count, 8, 8, 3))
    return images.astype("float32")


def _gaussian_total_correlation(latents):
    """Of Gaussian latents with these correlations: -log det(correlation) / 2."""
    latents = latents + 1e-3 * np.random.default_rng(0).normal(size=latents.shape)
    return -0.5 * np.linalg.slogdet(np.corrcoef(latents.T))[1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("factor_vae", {"tc_weight": 2.0, "kl_weight": 0.1}),
        ("factor_d_vae", {"tc_weight": 100.0, "kl_weight": 0.01}),
    ],
)
def test_total_correlation_falls(method, options):
    images = _correlated_images()
    stream = tf.data.Dataset.from_tensors(images).repeat()
    correlation = {}
    for weight in (1e-6, options["tc_weight"]):
        # The middle of three starts: from one of them FactorVAE's latents come out
        # uncorrelated by chance, from another FactorDVAE does not learn.
        of_starts = []
        for start in (3, 4, 5):
            model = tiny_model(
                method,
                start=start,
                **{**options, "tc_weight": weight, "hidden_units": [64, 64]},
            )
            model.compile(
                keras.optimizers.Adam(1e-3),
                discriminator_optimizer=keras.optimizers.Adam(2e-3),
            )
            model.fit(stream, steps_per_epoch=800, epochs=1, verbose=0)
            # Of samples: that is what the discriminator sees.
            latents = np.array(model.encoder(images, training=True))
            of_starts.append(_gaussian_total_correlation(latents))
        correlation[weight] = np.median(of_starts)
    without, with_penalty = correlation.values()
    assert with_penalty < 0.5 * without, correlation


@pytest.mark.slow
def test_cliff_aligns_a_rotated_grid():
    """Cells on a grid, rotated by 25 degrees; a linear encoder finds the axes."""
    generator = np.random.default_rng(0)
    cells = generator.integers(0, 3, size=(2000, 2))
    # No two gaps alike, so that the axes are told apart by nothing but cliffs.
    edges = np.array([[0.0, 1.0, 2.5], [0.0, 1.5, 2.2]])
    widths = np.array([[0.6, 1.0, 0.7], [1.0, 0.4, 0.9]])
    uniform = generator.uniform(size=cells.shape)
    sources = np.stack(
        [
            edges[j][cells[:, j]] + widths[j][cells[:, j]] * uniform[:, j]
            for j in (0, 1)
        ],
        axis=1,
    )
    sources = (sources - sources.mean(0)) / sources.std(0)
    angle = np.deg2rad(25)
    rotation = np.array(
        [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
    )
    observed = (sources @ rotation.T).astype("float32")

    keras.utils.set_random_seed(0)
    inputs = keras.Input((2,))
    encode = keras.layers.Dense(2, kernel_initializer="identity", use_bias=False)
    z = encode(inputs)
    outputs = qlayers.Cliff(
        1.0, univariate_weight=0.0, bivariate_weight=1.0, uniform_weight=1.0, seed=0
    )(z)
    model = keras.Model(inputs, outputs)
    rate = keras.optimizers.schedules.CosineDecay(1e-2, decay_steps=400)
    model.compile(keras.optimizers.Adam(rate))
    before = float(metrics.mcc(sources, observed))
    # The whole sample at once: densities of 500 points leave the angle less sharp.
    model.fit(observed, batch_size=2000, epochs=400, verbose=0)
    after = float(metrics.mcc(sources, np.array(encode(observed))))
    # A rotation by 25 degrees has correlations of about cos(25) = 0.906 at best.
    assert before < 0.92, before
    assert after > 0.99, (before, after)


def test_traversal_takes_the_values_of_the_codebook():
    model = tiny_model("qlae", num_values=5)
    image = tiny_images()[0]
    rows = models.traverse(model, image, num_steps=5)
    assert rows.shape == (4, 5, 8, 8, 3)
    z = model.encode(image[None])[0]
    table = np.sort(np.array(model.quantizer.value_table()), axis=1)
    for j in range(4):
        values = models.traversal_values(model, j, 5)
        np.testing.assert_array_equal(values, table[j])
    moved = z.copy()
    moved[2] = table[2, 3]
    np.testing.assert_allclose(rows[2, 3], model.decode(moved[None])[0], atol=1e-6)


@pytest.mark.parametrize("method", ["ae", "beta_vae"])
def test_traversal_of_continuous_latents_follows_the_data(method):
    """An autoencoder's latents may lie between 10 and 11: -2 to 2 is far away."""
    model = tiny_model(method)
    weights = model.encoder.get_weights()
    weights[-1][: model.encode(tiny_images()[:1]).shape[1]] += 10.0
    model.encoder.set_weights(weights)
    images = tiny_images()
    z = model.encode(images)
    ranges = models.latent_ranges(model, images)
    for j in range(z.shape[1]):
        values = models.traversal_values(model, j, 5, ranges)
        wanted = np.linspace(z[:, j].min(), z[:, j].max(), 5)
        np.testing.assert_allclose(values, wanted, rtol=1e-5)
    rows = models.traverse(model, images[0], num_steps=5, ranges=ranges)
    moved = z[0].copy()
    moved[1] = z[:, 1].max()
    np.testing.assert_allclose(rows[1, 4], model.decode(moved[None])[0], atol=1e-5)


def test_interventions_go_linearly_through_the_empirical_range():
    """Figure 4 of QLAE: between the values of its codes, not from code to code."""
    model = tiny_model("qlae", num_values=5)
    images = tiny_images()
    z = model.encode(images)
    ranges = models.latent_ranges(model, images)
    np.testing.assert_array_equal(ranges, [z.min(axis=0), z.max(axis=0)])
    shown = models.intervene(model, images[:2], ranges, latents=[3, 1], num_steps=4)
    assert shown.shape == (2, 2, 4, 8, 8, 3)
    low, high = z[:, 1].min(), z[:, 1].max()
    for i in range(2):
        moved = z[i].copy()
        moved[1] = low + (high - low) * 2 / 3
        wanted = model.decode(moved[None])[0]
        np.testing.assert_allclose(shown[i, 1, 2], wanted, atol=1e-5)
    with pytest.raises(ValueError, match="vectors"):
        models.latent_ranges(tiny_model("vq_vae"), images)


def test_swapping_all_of_one_latent_model_gives_the_other_image():
    model = tiny_model("qlae")
    first, second = tiny_images()[:2]
    rows = models.swap_latents(model, first, second)
    ours, theirs = model.encode(np.stack([first, second]))
    mixed = ours.copy()
    mixed[1] = theirs[1]
    np.testing.assert_allclose(rows[1], model.decode(mixed[None])[0], atol=1e-6)


@pytest.mark.parametrize(
    ("quantizer", "regularizer", "message"),
    [
        (
            lambda: qlayers.FiniteScalarQuantizer(5),
            lambda: qlayers.MinibatchTotalCorrelation(1.0, dataset_size=10),
            "MinibatchTotalCorrelation reads the signal 'mean'",
        ),
        (
            lambda: qlayers.OrderedCategoricalQuantizer(5),
            lambda: qlayers.Cliff(1.0),
            "Cliff reads the signal 'continuous'",
        ),
        (
            lambda: qlayers.LatentQuantizer(5),
            lambda: qlayers.TotalCorrelationDiscriminator(1.0, one_hot=True),
            "TotalCorrelationDiscriminator reads the signal 'assignments'",
        ),
    ],
)
def test_combinations_without_sense_say_so(quantizer, regularizer, message):
    networks = models.Networks("style", (8, 8, 3), width=0.1)
    with pytest.raises(ValueError, match=message):
        models.assemble(
            networks, 3, quantizer=quantizer(), regularizers=[regularizer()]
        )


def test_unknown_names_list_the_known_ones():
    with pytest.raises(ValueError, match="qlae_global"):
        models.build("qlea", (8, 8, 3), 4)
    with pytest.raises(ValueError, match="residual"):
        models.build("qlae", (8, 8, 3), 4, network="resudial")
    with pytest.raises(TypeError, match="num_values"):
        models.build("qlae", (8, 8, 3), 4, num_vales=10)


def test_loss_of_the_user_is_refused():
    model = tiny_model("ae")
    with pytest.raises(ValueError, match="reconstruction"):
        model.compile(loss="mse")


class TwoInputs(BaseQuantizer):
    """The sign of the difference of two inputs."""

    inputs_per_latent = 2

    def build(self, input_shape):
        n = input_shape[-1] // 2
        self.build_codes([2] * n, 2 * n)

    def call(self, inputs, training=None):
        return self._finish(self._values_of(self._codes(inputs)), None, training)

    def value_table(self):
        return np.broadcast_to(np.float32([-1.0, 1.0]), (self.num_latents, 2))

    def _codes(self, x):
        first, second = ops.split(x, 2, axis=-1)
        return ops.cast(first > second, "int32")

    def _values_of(self, codes):
        return 2.0 * ops.cast(codes, "float32") - 1.0


def test_a_quantizer_of_ones_own_gets_the_inputs_that_it_says():
    networks = models.Networks("style", (8, 8, 3), width=0.1)
    parts = models.assemble(networks, 4, quantizer=TwoInputs(name="two"))
    assert parts.encoder.output.shape == (None, 4)
    assert parts.encoder.get_layer("two").input.shape == (None, 8)
    x = np.random.default_rng(0).normal(size=(3, 8)).astype("float32")
    wanted = np.where(x[:, :4] > x[:, 4:], 1.0, -1.0)
    np.testing.assert_array_equal(parts.quantizer.soft_values(x), wanted)


class Watcher(LatentRegularizer):
    """Has the signature of KernelMultiinformation and keeps what it was given."""

    may_read = ("continuous",)
    weight = 1.0

    def add_terms(self, z, continuous=None):
        self.seen = (np.array(z), np.array(continuous))


class CallWatcher(Watcher):
    """The same with a call of its own."""

    def call(self, z, continuous=None, training=None):
        if training:
            self.seen = (np.array(z), np.array(continuous))
        return z


@pytest.mark.parametrize("kind", [Watcher, CallWatcher])
def test_a_regularizer_of_ones_own_gets_the_signals_that_it_declares(kind):
    networks = models.Networks("style", (8, 8, 3), width=0.1)
    watcher = kind(name="watcher")
    parts = models.assemble(
        networks,
        4,
        quantizer=qlayers.FiniteScalarQuantizer(5, name="quantizer"),
        regularizers=[watcher],
    )
    images = tiny_images()[:6]
    parts.graph(images, training=True)
    z, continuous = watcher.seen
    head = keras.Model(parts.encoder.input, parts.encoder.get_layer("quantizer").input)
    np.testing.assert_allclose(continuous, np.tanh(head(images)), rtol=1e-5)
    np.testing.assert_allclose(z, np.round(2 * continuous) / 2, atol=1e-6)


def test_a_wrapper_of_the_decoder_needs_one():
    networks = models.Networks("style", (8, 8, 3), width=0.1)

    def curvature(decoder):
        return qlayers.HessianPenalty(decoder, 1.0)

    with pytest.raises(ValueError, match="curvature reads the signal 'decoder'"):
        models.assemble(networks, 4, regularizers=[curvature], with_decoder=False)
    with pytest.raises(ValueError, match="One regularizer can wrap"):
        models.assemble(networks, 4, regularizers=[curvature, curvature])


def test_wrong_call_arguments_of_a_regularizer_are_named():
    layer = qlayers.MinibatchTotalCorrelation(1.0, dataset_size=10)
    z = np.zeros((4, 2), "float32")
    with pytest.raises(TypeError, match=r"MinibatchTotalCorrelation.*'scale'"):
        layer(z, z)
    with pytest.raises(TypeError, match=r"Cliff.*'continuous'"):
        qlayers.Cliff(1.0)(z, continuous=z)


@pytest.mark.parametrize(
    "run_eagerly", [True, pytest.param(False, marks=pytest.mark.slow)]
)
def test_gans_log_no_reconstruction_that_training_does_not_measure(run_eagerly):
    """A NaN in every row of the history looks like a run that diverges."""
    model = tiny_model("infowgan_gp", encoder_steps=1)
    model.compile(run_eagerly=run_eagerly)
    images = tiny_images()
    history = model.fit(images, batch_size=20, epochs=2, verbose=0).history
    assert "reconstruction" not in history
    assert all(np.isfinite(values).all() for values in history.values())
    found = model.evaluate(images, batch_size=20, verbose=0, return_dict=True)
    assert found["reconstruction"] == pytest.approx(found["loss"])
    history = model.fit(
        images, validation_data=(images,), batch_size=20, verbose=0
    ).history
    assert "reconstruction" not in history and "val_reconstruction" in history
