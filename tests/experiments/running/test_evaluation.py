"""What is scored."""

import functools
import json

import numpy as np
import pytest

import models
from experiments.reporting.summary import load_run
from experiments.running import scoring
from experiments.running.evaluation import (
    Sample,
    evaluate_model,
    final_sample,
    selection_sample,
)
from experiments.running.latents import latents_of, measure_gap
from experiments.running.setup import load_dataset
from experiments.settings.config import resolve
from experiments.storage.run_directory import RunDirectory
from qlayers import datasets
from qlayers.metrics import factor_vae_score, mig
from qlayers.metrics.evaluate import FAST
from tests.experiments.runs import tiny_config
from tests.models.tiny import tiny_model


def build(method, **hyperparameters):
    return models.build(
        method, (32, 32, 3), 4, network="locatello", width=0.125, **hyperparameters
    )


@pytest.fixture(scope="module")
def images():
    return load_dataset(tiny_config()).sample(70, seed=1, dtype="uint8")[1]


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def bce(images, logits):
    return np.mean(np.logaddexp(0, logits) - images * logits)


def test_psnr_is_taken_on_as_many_images_as_asked(images):
    config = tiny_config(reconstruction_size=40)
    sample = Sample(np.zeros((70, 6), int), images)
    sample.sources[:, 0] = np.arange(70) % 10
    model = build("qlae")
    found = evaluate_model(config, model, sample, metrics=("mig",))
    unit = images[:40] / 255.0
    errors = ((unit - model.reconstruct(images[:40])) ** 2).mean(axis=(1, 2, 3))
    wanted = np.mean(-10 * np.log10(errors))
    assert found.scores["psnr/psnr"] == pytest.approx(wanted, abs=1e-3)


def test_the_overflowing_psnr_stands_beside_the_true_one(images):
    config = tiny_config(psnr_variant="uint8_overflow", psnr_threshold=20.0)
    sample = Sample(np.zeros((70, 6), int), images)
    sample.sources[:, 0] = np.arange(70) % 10
    model = build("qlae")
    found = evaluate_model(config, model, sample, metrics=("mig",))
    again = (255 * model.reconstruct(images)).astype("uint8").astype(int)
    # In whole numbers, with the remainder taken by hand.
    wrapped = ((images.astype(int) - again) % 256) ** 2 % 256
    errors = wrapped.mean(axis=(1, 2, 3)) / 255**2
    wanted = np.mean(-10 * np.log10(errors))
    assert found.scores["psnr_uint8_overflow/psnr"] == pytest.approx(wanted, abs=1e-6)
    assert found.scores["psnr/psnr"] < wanted


def test_trees_are_tested_on_images_of_their_own(tmp_path, monkeypatch):
    """MIG sees 120 images; what is trained on them is tested on 60 more."""
    monkeypatch.setattr(scoring, "PROFILES", {"fast": ("mig",)})  # the others take long
    config = tiny_config(
        evaluation_size=120,
        test_size=60,
        reconstruction_size=10,
        scores=["sap", "factor_vae_score"],
        metrics="fast",
    )
    dataset = load_dataset(config)
    model = build("qlae")
    sizes = {"num_train": 20, "num_eval": 10, "num_variance": 30, "batch_size": 4}
    small = functools.partial(scoring.sampled_scores, **sizes)
    monkeypatch.setattr(scoring, "sampled_scores", small)
    with RunDirectory(tmp_path) as directory:
        found = scoring.score_run(
            config, directory, model, dataset, {"step": 12}, lambda text: None
        )
    sources, images = dataset.evaluation_set(180, dtype="uint8")
    latents = latents_of(model, images)[0]
    machines = found.results["sap"].settings
    assert (machines["samples"], machines["test_size"]) == (180, round(1 / 3, 4))
    wanted = mig(sources[:120], latents[:120]).mig
    assert found.scores["mig/mig"] == pytest.approx(wanted)
    score = factor_vae_score(
        dataset, lambda x: latents_of(model, x)[0], verbose=False, **sizes
    )
    assert found.scores["factor_vae_score/score"] == score.score
    written = json.loads((tmp_path / "metrics.json").read_text())
    assert written["settings"]["test_samples"] == 60
    assert written["settings"]["samples"] == 120


def test_a_run_that_copies_an_image_exactly_is_finished(tmp_path, monkeypatch):
    """Black images, and outputs that are cut off at 0: the PSNR is infinite."""
    monkeypatch.setattr(scoring, "PROFILES", {"fast": ("mig",)})
    config = tiny_config(evaluation_size=60, metrics="fast", select="last")
    model = build("ae", reconstruction="mse")
    model.decoder.layers[-1].bias.assign(np.full(3, -100.0))
    black = np.zeros((60, 32, 32, 3), "uint8")
    dataset = datasets.from_arrays(black, np.arange(60).reshape(-1, 1) % 3)
    with RunDirectory(tmp_path) as directory:
        directory.start(config)
        found = scoring.score_run(
            config, directory, model, dataset, {"step": 12}, lambda text: None
        )
    assert found.scores["psnr/psnr"] == np.inf
    assert directory.is_finished()
    assert directory.load_metrics()["scores"]["psnr/psnr"] is None
    assert load_run(tmp_path).metrics["scores"]["mig/mig"] == found.scores["mig/mig"]


def test_scores_on_request_join_a_set_of_metrics():
    names = scoring._names("fast", ["dci_gradient_boosting", "mig", "beta_vae_score"])
    assert names == (*FAST, "dci_gradient_boosting")


def test_quantized_values_are_scored_as_codes_values(images):
    model = build("qlae")
    latents, discrete = latents_of(model, images)
    assert discrete
    table = np.asarray(model.quantizer.value_table())
    codes = model.codes(images)
    wanted = np.stack([table[j][codes[:, j]] for j in range(4)], axis=1)
    np.testing.assert_array_equal(latents, wanted)


def test_unordered_codes_are_scored_as_indices(images):
    latents, discrete = latents_of(build("qvae"), images)
    assert discrete
    assert np.issubdtype(latents.dtype, np.integer)
    assert latents.shape == (70, 4)


def test_indices_and_samples_on_request(images):
    """Baykal et al.'s code gives trees the indices of QLAE, and draws of VAEs."""
    model = build("qlae")
    latents, discrete = latents_of(model, images, "codes")
    assert discrete
    np.testing.assert_array_equal(latents, model.codes(images))
    gaussian = build("beta_vae")
    zeros = [0 * w for w in gaussian.encoder.get_weights()]
    zeros[-1][:4] = 3.0  # means
    zeros[-1][4:] = 2 * np.log(0.5)  # logarithms of variances
    gaussian.encoder.set_weights(zeros)
    many = np.tile(images, (10, 1, 1, 1))
    latents, discrete = latents_of(gaussian, many, "samples")
    assert not discrete
    np.testing.assert_allclose(latents.mean(axis=0), 3.0, atol=0.1)
    np.testing.assert_allclose(latents.std(axis=0), 0.5, atol=0.06)
    np.testing.assert_array_equal(latents, latents_of(gaussian, many, "samples")[0])


def test_relaxed_categories_are_scored_as_expected_values(images):
    model = build("d_vae")
    latents, discrete = latents_of(model, images)
    assert not discrete
    logits = np.asarray(model.quantizer_inputs(images / np.float32(255)))
    values = np.linspace(-1, 1, 64)
    wanted = softmax(logits.reshape(70, 4, 64).astype("float64")) @ values
    np.testing.assert_allclose(latents, wanted, atol=1e-5)


def test_gap_of_categories_against_numpy(images):
    model = build("d_vae", reduction="mean")
    pixels = images / np.float32(255)
    logits = np.asarray(model.quantizer_inputs(pixels)).reshape(70, 4, 64)
    values = np.linspace(-1, 1, 64)
    soft, hard = softmax(logits) @ values, values[logits.argmax(axis=-1)]
    losses = []
    for z in (soft, hard):
        outputs = np.asarray(model.decoder(z.astype("float32")))
        # Batches of 64 and 6 images count alike.
        parts = [bce(pixels[p], outputs[p]) for p in (slice(64), slice(64, None))]
        losses.append(np.mean(parts))
    found = measure_gap(model, images)
    assert found.soft_loss == pytest.approx(losses[0], rel=1e-5)
    assert found.hard_loss == pytest.approx(losses[1], rel=1e-5)
    assert found.gap > 0


def test_gap_of_total_losses_holds_the_total_correlation(images):
    """As Friede et al.'s code takes it; the discriminator again in NumPy."""
    model = build(
        "factor_d_vae", reduction="mean", tc_weight=3.0, hidden_units=[6, 5], seed=0
    )
    pixels = images[:64] / np.float32(255)
    logits = np.asarray(model.quantizer_inputs(pixels)).reshape(64, 4, 64)
    values = np.linspace(-1, 1, 64)
    weights = [
        [np.array(v, "float64") for v in part]
        for part in (model.discriminator.kernels, model.discriminator.biases)
    ]
    losses = []
    for z in (softmax(logits) @ values, values[logits.argmax(axis=-1)]):
        x = z
        for depth, (kernel, bias) in enumerate(zip(*weights, strict=True)):
            x = x @ kernel + bias
            x = np.where(x < 0, 0.2 * x, x) if depth < 2 else x
        outputs = np.asarray(model.decoder(z.astype("float32")))
        losses.append(bce(pixels, outputs) + 3.0 * np.mean(x[:, 0] - x[:, 1]))
    found = measure_gap(model, images[:64], "total")
    assert found.soft_loss == pytest.approx(losses[0], rel=1e-4)
    assert found.hard_loss == pytest.approx(losses[1], rel=1e-4)
    of_elbo = measure_gap(model, images[:64])
    assert abs(found.gap - of_elbo.gap) > 1e-4
    plain = build("d_vae", reduction="mean")
    # Without a discriminator there is nothing to add.
    assert measure_gap(plain, images, "total").gap == measure_gap(plain, images).gap


def test_gap_of_a_run_is_that_of_its_settings(images):
    sample = Sample(np.zeros((70, 6), int), images)
    sample.sources[:, 0] = np.arange(70) % 10
    options = {"tc_weight": 3.0, "hidden_units": [6, 5], "seed": 0}
    model = build("factor_d_vae", **options)
    for kind in ("elbo", "total"):
        config = tiny_config("factor_d_vae", gap_loss=kind)
        found = evaluate_model(config, model, sample, metrics=("mig",))
        wanted = measure_gap(model, images, kind).gap
        assert found.scores["straight_through_gap/gap"] == pytest.approx(wanted)


def test_samples_need_a_posterior(images):
    with pytest.raises(ValueError, match="Gaussian posterior, which qlae does not"):
        tiny_config("qlae", scored_as="samples")
    assert tiny_config("beta_vae", scored_as="samples").scored_as == "samples"
    with pytest.raises(ValueError, match="no Gaussian posterior"):
        latents_of(build("qlae"), images, "samples")


def test_methods_with_a_posterior_are_those_whose_quantizer_has_moments():
    for name in ("beta_vae", "factor_vae", "dip_vae_i", "annealed_vae", "ae", "d_vae"):
        has = hasattr(build(name).quantizer, "moments")
        assert models.METHODS[name].gaussian == has, name


def test_first_images_of_the_split_are_scored_if_asked_for():
    class Dataset:
        def split_set(self, n, *, dtype):
            return f"split of {n}", dtype

        def evaluation_set(self, n, *, dtype):
            return f"set of {n}", dtype

        def sample(self, n, seed, *, dtype):
            return f"draw of {n}", dtype

    settings = {"evaluation_size": 50, "test_size": 10}
    address = "qlae:table1:qlae/shapes3d"
    text = resolve("qlae", "shapes3d", address, settings=settings)
    code = resolve("qlae", "shapes3d", f"{address}@code", settings=settings)
    assert final_sample(text, Dataset()).sources == "set of 60"
    assert selection_sample(text, Dataset()).sources == "draw of 50"
    assert final_sample(code, Dataset()).sources == "split of 60"
    # Their codes choose the checkpoint on the same images.
    assert selection_sample(code, Dataset()).sources == "split of 50"
    # What stands for the dataset has no split.
    stand_in = resolve("qlae", "mini_shapes3d", f"{address}@code")
    assert stand_in.evaluation_sample == "random"
    with pytest.raises(ValueError, match="prepared files"):
        tiny_config(evaluation_sample="split")


def test_gap_vanishes_on_the_grid(images):
    model = build("tripod", nhp_weight=0.0, klm_weight=0.0)
    # Zero encoder weights put every latent at tanh(0) = 0; with 13 values that is one.
    assert measure_gap(model, images).gap > 0
    model = build("tripod", nhp_weight=0.0, klm_weight=0.0, num_values=13)
    model.encoder.set_weights([0 * w for w in model.encoder.get_weights()])
    assert measure_gap(model, images).gap == 0


AS_CODES = {"vq_vae", "qvae", "dvae", "factor_qvae", "factor_dvae_learned"}
AS_VALUES = {"qlae", "qlae_global", "tripod", "tripod_naive", "ql_infowgan_gp"}
AS_VALUES |= {"self_sizing"}


@pytest.mark.parametrize("method", sorted(models.METHODS))
def test_every_method_is_scored_as_its_paper_does(method):
    quantizer = tiny_model(method).quantizer
    scored_as = "reals" if quantizer is None else quantizer.scored_as
    wanted = "codes" if method in AS_CODES else "reals"
    assert scored_as == ("values" if method in AS_VALUES else wanted)
