"""Labelled images: a part to learn from, and a part that chooses."""

import numpy as np
import pytest
import tensorflow as tf

import qlayers
from experiments.running.checkpoint_choice import CheckpointChoice
from experiments.running.evaluation import evaluate_model, selection_sample
from experiments.running.labels import labelled_images, validate_labels
from experiments.running.setup import (
    build_model,
    load_dataset,
    make_stream,
    validation_labels,
)
from experiments.running.strategies import make_strategy
from experiments.storage.run_directory import RunDirectory
from models.supervision import Supervision
from tests.experiments.runs import tiny_config


def config_of(**settings):
    weight = {"supervision_weight": 1.0, "supervision_reduction": "sum"}
    settings = {"num_labels": 20, "label_validation": 0.1, **settings}
    return tiny_config("d_vae", num_latents=6, hyperparameters=weight, **settings)


def test_training_never_sees_the_labels_kept_for_validation():
    config = config_of(num_labels=10, label_validation=0.3)
    dataset = load_dataset(config)
    train, kept = labelled_images(config, dataset)
    assert (len(train), len(kept)) == (7, 3)
    np.testing.assert_array_equal(dataset.images_of(kept.labels), kept.images)
    seen = set()
    for _, (_, labels) in make_stream(config, dataset, 0).take(20):
        seen |= set(map(tuple, labels.numpy().tolist()))
    assert seen == set(map(tuple, train.labels.tolist()))
    assert not seen & set(map(tuple, kept.labels.tolist()))


def test_nine_tenths_are_rounded_up():
    """As disentanglement_lib does; 0.9 x 10 is not 9 in binary."""
    for count, trained in ((10, 9), (15, 14), (100, 90), (1000, 900)):
        config = config_of(num_labels=count)
        assert len(labelled_images(config, load_dataset(config))[0]) == trained


def test_validation_loss_against_numpy():
    config = config_of(evaluation_size=10, reconstruction_size=2)
    dataset = load_dataset(config)
    model = build_model(config, dataset)
    kept = validation_labels(config, dataset)
    logits = np.array(model.quantizer_inputs(kept.images), "float64")
    logits = logits.reshape(2, 6, 64)
    wanted = 0.0
    for row, labels in zip(logits, kept.labels, strict=True):
        for j, size in enumerate(dataset.factor_sizes):
            category = round(labels[j] * 63 / (size - 1))
            probabilities = np.exp(row[j]) / np.exp(row[j]).sum()
            wanted -= np.log(probabilities[category]) / 2
    # A mean over images, whatever the reduction in training.
    assert validate_labels(model, kept).loss == pytest.approx(wanted, rel=1e-4)
    found = evaluate_model(
        config,
        model,
        selection_sample(config, dataset),
        metrics=("mig",),
        labelled=kept,
    )
    assert found.scores["label_validation/loss"] == pytest.approx(wanted, rel=1e-4)


def test_checkpoints_are_chosen_by_the_validation_labels(tmp_path):
    config = config_of(select="label_validation")
    rule = CheckpointChoice(config, RunDirectory(tmp_path)).rule
    assert rule.accepts({"label_validation/loss": 0.1}, 0.2)
    assert not rule.accepts({"label_validation/loss": 0.3}, 0.2)
    with pytest.raises(ValueError, match="label_validation"):
        config_of(select="label_validation", label_validation=0.0)
    with pytest.raises(ValueError, match="at least one"):
        config_of(num_labels=5, label_validation=0.1)


def test_a_sum_over_labels_is_that_of_all_replicas():
    """Replicas' terms are divided by their number before they are added up."""
    layer = qlayers.GaussianLatent()
    numbers = np.random.default_rng(0).normal(size=(4, 4)).astype("float32")
    labels = np.array([[0, 1], [1, 2], [2, 0], [1, 1]])
    layer(numbers)
    loss = Supervision("l2", 1.0, (3, 3), "sum")
    whole = float(loss(layer, numbers, labels))
    strategy = make_strategy("mirrored")

    def part(context):
        rows = slice(2 * context.replica_id_in_sync_group, None)
        return tf.constant(numbers[rows][:2]), tf.constant(labels[rows][:2])

    parts = strategy.experimental_distribute_values_from_function(part)
    terms = strategy.run(
        lambda pair: loss(layer, *pair) / strategy.num_replicas_in_sync, [parts]
    )
    total = strategy.reduce("sum", terms, axis=None)
    assert float(total) == pytest.approx(whole, rel=1e-5)
