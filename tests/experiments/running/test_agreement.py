"""UDR of trained runs."""

import keras
import numpy as np
import pytest
from scipy import stats

import models
from experiments.running.agreement import SAMPLE_SEED, representation, run_agreement
from experiments.running.export import export
from experiments.running.setup import build_model, load_dataset
from experiments.storage.checkpoints import CheckpointStore, take_snapshot
from experiments.storage.run_directory import RunDirectory
from tests.experiments.runs import tiny_config


@pytest.fixture(scope="module")
def images():
    return load_dataset(tiny_config()).sample(64, seed=1, dtype="uint8")[1]


def strength(table):
    """Equation 3 of Duan et al. for one pair of models."""
    rows = [max(row) ** 2 / sum(row) for row in table]
    columns = [max(column) ** 2 / sum(column) for column in table.T]
    return (sum(rows) + sum(columns)) / sum(table.shape)


def untrained_run(folder, seed):
    """A run whose last checkpoint is its first: all that UDR reads."""
    config = tiny_config("ae", seed=seed, select="last")
    model = build_model(config, load_dataset(config))
    with RunDirectory(folder) as directory:
        directory.start(config)
        store = CheckpointStore(directory.checkpoints)
        store.save(take_snapshot(model, config.steps))
        store.wait()
        export(model, directory)
    return folder


def test_udr_of_runs_from_their_exported_encoders(tmp_path):
    folders = [untrained_run(tmp_path / str(seed), seed) for seed in range(3)]
    found = run_agreement(folders, num_images=100)
    # Without a prior, latents with an eighth of the largest range take part.
    pixels = load_dataset(tiny_config()).sample(100, SAMPLE_SEED)[1]
    latents = []
    for folder in folders:
        encoder = keras.saving.load_model(folder / "encoder.keras")
        z = np.asarray(encoder(pixels))
        sizes = z.max(axis=0) - z.min(axis=0)
        latents.append(z[:, sizes >= sizes.max() / 8])
    for i, folder in enumerate(folders):
        pairs = []
        for j in range(3):
            if j != i:
                table = [
                    [abs(stats.spearmanr(a, b).statistic) for b in latents[j].T]
                    for a in latents[i].T
                ]
                pairs.append(strength(np.array(table)))
        assert found[folder] == pytest.approx(np.median(pairs), abs=1e-3)


def build(method, **hyperparameters):
    return models.build(
        method, (32, 32, 3), 4, network="locatello", width=0.125, **hyperparameters
    )


def test_latents_near_their_prior_take_no_part(images):
    model = build("beta_vae")
    zeros = [np.zeros_like(w) for w in model.encoder.get_weights()]
    # Means first: latent 0 always has mean 1, half a nat; the others are the prior.
    zeros[-1][0] = 1.0
    model.encoder.set_weights(zeros)
    found = representation(model, images)
    assert found.active.tolist() == [True, False, False, False]


def test_excluded_categories_are_no_information(images):
    model = build("d_vae", active_values=[2, 64, 64, 64])
    model.encoder.set_weights([0 * w for w in model.encoder.get_weights()])
    assert not representation(model, images).active.any()


def test_codes_enter_by_their_values(images):
    model = build("qvae")
    table = np.asarray(model.quantizer.value_table())
    codes = model.codes(images)
    wanted = np.stack([table[j][codes[:, j]] for j in range(4)], axis=1)
    np.testing.assert_array_equal(representation(model, images).latents, wanted)
    with pytest.raises(ValueError, match="vectors of 64 numbers"):
        representation(build("vq_vae"), images)
