"""Two replicas see the batches, and learn, as one device does."""

import numpy as np
import pytest
import tensorflow as tf

from experiments.running.setup import load_dataset, make_stream
from experiments.running.strategies import check_replicas, distribute, make_strategy
from experiments.running.training_loop import FINISHED
from experiments.storage.checkpoints import CheckpointStore
from tests.experiments.runs import read_rows, tiny_config, tiny_run


def supervised_config():
    weight = {"supervision_weight": 1.0}
    return tiny_config("d_vae", num_labels=20, num_latents=6, hyperparameters=weight)


def test_replicas_share_out_each_batch():
    config = tiny_config("ae")
    dataset = load_dataset(config)
    strategy = make_strategy("mirrored")
    assert strategy.num_replicas_in_sync == 2
    whole = iter(make_stream(config, dataset, start=3))
    parts = iter(distribute(make_stream(config, dataset, start=3), strategy))
    for _ in range(3):
        pieces = strategy.experimental_local_results(next(parts))
        joined = np.concatenate([piece.numpy() for piece in pieces])
        np.testing.assert_array_equal(joined, next(whole).numpy())


def test_labelled_batches_are_shared_out_alike():
    config = supervised_config()
    dataset = load_dataset(config)
    strategy = make_strategy("mirrored")
    images, (labelled, labels) = next(iter(make_stream(config, dataset, 0)))
    batch = next(iter(distribute(make_stream(config, dataset, 0), strategy)))
    parts = [strategy.experimental_local_results(x) for x in tf.nest.flatten(batch)]
    for found, wanted in zip(parts, (images, labelled, labels), strict=True):
        np.testing.assert_array_equal(np.concatenate(found), wanted)
    # Labelled images are those of their labels.
    np.testing.assert_array_equal(dataset.images_of(labels.numpy()), labelled)


def test_labelled_stream_resumes():
    config = supervised_config()
    dataset = load_dataset(config)
    *_, (_, (_, wanted)) = make_stream(config, dataset, 0).take(4)
    ((_, (_, found)),) = make_stream(config, dataset, 3).take(1)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.slow
def test_two_replicas_learn_like_one_device(tmp_path):
    settings = {"steps": 4, "select": "last"}
    for name in ("none", "mirrored"):
        run = tiny_run(tmp_path / name, method="ae", strategy=name, **settings)
        assert run.run() == FINISHED
    rows = [read_rows(tmp_path / n / "history.jsonl") for n in ("none", "mirrored")]
    for one, two in zip(*rows, strict=True):
        assert one["loss"] == pytest.approx(two["loss"], rel=1e-5)
    stores = [
        CheckpointStore(tmp_path / n / "checkpoints") for n in ("none", "mirrored")
    ]
    one, two = (store.latest() for store in stores)
    kernels = [
        (a, b) for a, b in zip(one.arrays, two.arrays, strict=True) if a.ndim > 1
    ]
    assert kernels
    for a, b in kernels:
        np.testing.assert_allclose(a, b, atol=2e-4)


def test_batch_must_divide():
    with pytest.raises(ValueError, match="multiple of the 2 replicas"):
        check_replicas(tiny_config(batch_size=7), make_strategy("mirrored"))
