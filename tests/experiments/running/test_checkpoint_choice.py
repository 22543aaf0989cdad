"""Which checkpoint a run reports, and on which images it is chosen."""

import json

import keras
import numpy as np
import pytest

from experiments.running import scoring, training_run
from experiments.running.checkpoint_choice import CheckpointChoice
from experiments.running.setup import load_dataset
from experiments.storage.run_directory import RunDirectory
from tests.experiments.runs import tiny_config, tiny_run


def rule_of(tmp_path, **settings):
    return CheckpointChoice(tiny_config(**settings), RunDirectory(tmp_path)).rule


def test_reconstruction_filter_then_best_infom(tmp_path):
    rule = rule_of(tmp_path, psnr_threshold=30.0)
    good = {"psnr/psnr": 31.0, "infomec/modularity": 0.5}
    assert rule.accepts(good, None)
    assert rule.accepts(good, 0.4)
    assert not rule.accepts(good, 0.6)
    assert not rule.accepts({"psnr/psnr": 29.9, "infomec/modularity": 0.9}, None)


def test_the_filter_takes_the_psnr_that_its_threshold_is_for(tmp_path):
    rule = rule_of(tmp_path, psnr_threshold=38.0, psnr_variant="uint8_overflow")
    scores = {"psnr/psnr": 30.0, "infomec/modularity": 0.5}
    assert rule.accepts({**scores, "psnr_uint8_overflow/psnr": 39.0}, None)
    assert not rule.accepts({**scores, "psnr_uint8_overflow/psnr": 37.0}, None)


def test_smallest_gap_without_labels(tmp_path):
    rule = rule_of(tmp_path, select="straight_through_gap")
    assert rule.accepts({"straight_through_gap/gap": 0.1}, 0.2)
    assert not rule.accepts({"straight_through_gap/gap": 0.3}, 0.2)
    assert rule_of(tmp_path, select="last") is None


@pytest.mark.parametrize(
    ("select", "scores"),
    [
        ("straight_through_gap", {"straight_through_gap/gap": 0.0}),
        ("infom", {"infomec/modularity": 1.0}),
    ],
)
def test_an_untrained_model_is_never_chosen(tmp_path, select, scores):
    """However well it scores: section 6.3 chooses among trained models."""
    directory = RunDirectory(tmp_path)
    choice = CheckpointChoice(tiny_config(select=select), directory)
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    choice.offer(model, 0, scores)
    assert choice.rule.best() is None
    choice.offer(model, 2, scores)
    assert choice.rule.best() is not None


@pytest.mark.slow
def test_no_checkpoint_passes_the_filter(tmp_path):
    said = []
    tiny_run(tmp_path, said.append, steps=2, psnr_threshold=99.0).run()
    checkpoint = json.loads((tmp_path / "metrics.json").read_text())["checkpoint"]
    assert checkpoint["step"] == 2
    assert "99.0 dB" in checkpoint["note"]
    assert f"Reporting {checkpoint['note']}." in said


def test_checkpoints_are_not_chosen_on_the_images_that_are_reported(
    tmp_path, monkeypatch
):
    """Of the best of many checkpoints, the score that chose it is too good."""
    used = {training_run: [], scoring: []}
    for module, samples in used.items():

        def spy(config, model, sample, evaluate=module.evaluate_model, to=samples, **k):
            to.append(sample.sources)
            return evaluate(config, model, sample, **k)

        monkeypatch.setattr(module, "evaluate_model", spy)
    run = tiny_run(tmp_path, steps=4, evaluate_every=2)
    run.run()
    choosing, (reported,) = used[training_run], used[scoring]
    assert len(choosing) == 3  # before the first step, at 2 and at 4
    expected, _ = load_dataset(run.config).evaluation_set(200)
    np.testing.assert_array_equal(reported, expected)
    for sources in choosing:
        assert sources.shape == reported.shape
        # 480,000 images: two independent samples of 200 share none, or one by chance.
        shared = set(map(tuple, sources)) & set(map(tuple, reported))
        assert len(shared) <= 2


@pytest.mark.parametrize("select", ["last", "infom"])
def test_the_last_checkpoint_is_loaded_if_none_was_chosen(tmp_path, select):
    choice = CheckpointChoice(tiny_config(select=select), RunDirectory(tmp_path))
    loaded, said = [], []
    record = choice.load(None, lambda: loaded.append("last"), said.append)
    assert loaded == ["last"]
    assert record["step"] == tiny_config().steps
    assert len(said) == (select != "last")
