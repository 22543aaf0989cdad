"""The study that makes the models which ship with the project, tiny."""

import json

import pytest

import models
from experiments.storage.run_directory import RunDirectory
from studies import pretrained
from studies.study import ROOT


@pytest.mark.slow
def test_quick_model_has_a_card_and_loads(tmp_path):
    name = pretrained.name_of("qlae")
    pretrained.main(["--quick", f"--names={name}", f"--workdir={tmp_path}"])
    folder = tmp_path / "models" / name
    card = models.read_card(folder)
    assert card["recipe"]["steps"] == 2
    assert card["largest_change_by_rounding"] <= pretrained.TOLERANCE
    page = (folder / "README.md").read_text()
    assert card["checksum"] in page and card["command"] in page
    model = models.load_pretrained(folder)
    assert model.build_arguments["num_values"] == 4
    scores = json.loads((tmp_path / "qlae" / "metrics.json").read_text())["scores"]
    assert card["scores"]["psnr/psnr"] == pytest.approx(scores["psnr/psnr"], abs=0.05)


@pytest.mark.parametrize("method", pretrained.ROWS)
def test_models_of_the_leaderboard_are_its_own_runs(method):
    path = ROOT / "studies" / "results" / "leaderboard.json"
    tuned = json.loads(path.read_text())["findings"]["tuning"]
    trial = pretrained.plan_row(method, tuned)
    kept = RunDirectory(path.parent / "runs" / "leaderboard" / trial.name)
    assert kept.load_config() == trial.config
    card = models.read_card(models.pretrained.SHIPPED / pretrained.name_of(method))
    assert card["recipe"]["steps"] == trial.config.steps
    recorded = json.loads(kept.metrics_file.read_text())["scores"]
    changes = pretrained.largest_change(recorded, card["scores"])
    assert changes == pytest.approx(card["largest_change_by_rounding"], abs=1e-9)


def test_largest_change_counts_scores_in_their_units():
    before = {"infomec/modularity": 0.5, "psnr/psnr": 20.0, "dci/completeness": 0.1}
    after = {"infomec/modularity": 0.501, "psnr/psnr": 20.04, "dci/completeness": 0.104}
    assert pretrained.largest_change(before, after) == pytest.approx(0.004)
    assert pretrained.largest_change(
        before, {"dci/completeness": 0.104}
    ) == pytest.approx(0.002)


def test_unknown_names_are_refused(capsys):
    with pytest.raises(SystemExit):
        pretrained.main(["--names=qlae-unknown-32"])
    assert "qlae-mini_shapes3d-32" in capsys.readouterr().err
