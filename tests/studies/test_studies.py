"""Each study, tiny: its record, its pictures, and that a second start only reads."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from experiments.reporting.summary import FinishedRun
from studies import (
    balls,
    circles,
    claims,
    cliff_optimum,
    cliff_synthetic,
    dsprites,
    leaderboard,
    leaderboard_confirmation,
    leaderboard_pictures,
    leaderboard_plan,
    leaderboard_tuning,
    penalty_noise,
    second_dataset,
    second_dataset_reasons,
    study,
    vector_quantizers,
)
from studies.claims import load_claims
from studies.leaderboard_entries import ENTRIES, SHORT_ENTRIES, Entry
from studies.leaderboard_plan import LONG, plan_entry, settings_of
from tests.studies.test_study import check_record


def run_twice(module, folder, monkeypatch, *arguments):
    """The record of a quick study, whose second start must train nothing."""
    arguments = ["--quick", f"--workdir={folder}", *arguments]
    module.main(arguments)
    (path,) = folder.glob("*.json")
    first = json.loads(path.read_text())

    def refuse(*given, **named):
        raise AssertionError("trained again")

    monkeypatch.setattr(study, "run_here", refuse)
    monkeypatch.setattr(module, "run_here", refuse, raising=False)
    module.main(arguments)
    second = json.loads(path.read_text())
    assert second["groups"] == first["groups"]
    assert second["findings"] == first["findings"]
    check_record(first)
    return first


def check_claims(record):
    """The rows that the study's claims name are there; tiny runs decide none."""
    claimed = load_claims(record["study"])
    named = {label for claim in claimed for label in (claim.first, claim.second)}
    assert named
    assert named <= {group["label"] for group in record["groups"]}
    assert record["findings"]["claims"] == []


def is_picture(path):
    """A PNG file with coloured marks, not grey axes alone."""
    with Image.open(path) as image:
        pixels = np.asarray(image.convert("RGB")).reshape(-1, 3).astype(int)
        return image.format == "PNG" and (np.ptp(pixels, axis=1) > 30).sum() > 20


@pytest.mark.slow
def test_cliff_synthetic(tmp_path, monkeypatch):
    record = run_twice(cliff_synthetic, tmp_path, monkeypatch)
    groups = {group["label"]: group for group in record["groups"]}
    assert list(groups) == ["Cliff", "IOSS"]
    for group in record["groups"]:
        assert [row["seed"] for row in group["runs"]] == [0, 1]
        for row in group["runs"]:
            assert 0 <= row["scores"]["mcc/pearson"] <= 1
    truths = [
        [row["scores"]["criterion/true_sources"] for row in group["runs"]]
        for group in record["groups"]
    ]
    assert truths[0] == truths[1]  # both methods see the same datasets
    assert truths[0][0] != truths[0][1]  # each seed has its own
    difference = record["findings"]["cliff_minus_ioss/mcc"]["mean"]
    means = [group["scores"]["mcc/mcc"]["mean"] for group in record["groups"]]
    assert difference == pytest.approx(means[0] - means[1])
    check_claims(record)
    assert is_picture(tmp_path / "cliff_synthetic.png")
    check_preferred(record, groups["Cliff"], tmp_path)
    check_best_of_starts(record, tmp_path)


def check_best_of_starts(record, folder):
    """Each row has the start with the least loss; losses are read from the runs."""
    best = record["findings"]["best_of_starts"]
    labels = [group["label"] for group in best["groups"]]
    assert labels == ["Cliff, best of 3 starts", "IOSS, best of 3 starts"]
    for method, group in zip(("cliff", "ioss"), best["groups"], strict=True):
        for row in group["runs"]:
            losses = {
                row["seed"] + start: last_loss(folder, method, row["seed"] + start)
                for start in (0, *cliff_synthetic.FURTHER_STARTS)
            }
            assert row["start"] == min(losses, key=losses.get)
    means = [group["scores"]["mcc/mcc"]["mean"] for group in best["groups"]]
    assert best["difference"]["mean"] == pytest.approx(means[0] - means[1])


def last_loss(folder, method, seed):
    path = folder / f"grid2d-{method}-seed{seed}" / "history.jsonl"
    return json.loads(path.read_text().splitlines()[-1])["loss"]


def check_preferred(record, cliff, folder):
    """Every solution of a dataset is there; of starts the least loss is the best."""
    found = record["findings"]["preferred"]
    assert [row["dataset"] for row in found] == [0, 1]
    starts = (0, *cliff_synthetic.FURTHER_STARTS)
    for row, run in zip(found, cliff["runs"], strict=True):
        solutions = row["solutions"]
        names = {f"start {start}" for start in starts}
        assert set(solutions) == {*names, "Cliff, annealed", "from the truth"}
        first = solutions["start 0"]
        assert first["criterion"] == run["scores"]["criterion/reached"]
        assert first["mcc"] == run["scores"]["mcc/mcc"]
        least = min(solution["criterion"] for solution in solutions.values())
        assert solutions[row["least"]]["criterion"] == least
        losses = {
            f"start {start}": last_loss(folder, "cliff", row["dataset"] + start)
            for start in starts
        }
        assert row["best_start"] == min(losses, key=losses.get)


def test_cliff_plan_has_the_papers_settings():
    trials = cliff_synthetic.plan()
    assert [len(found) for found in trials.values()] == [10, 10]
    claimed = json.loads(claims.FILE.read_text())["seeds"]["cliff_synthetic"]
    for found in trials.values():
        assert [trial.config.seed for trial in found] == claimed
        for trial in found:
            config = trial.config
            assert (config.steps, config.batch_size) == (1000, 5000)
            assert config.hyperparameters["learning_rate"] == 2e-3
            assert config.dataset_options == {"data_seed": config.seed}
    again = cliff_synthetic.plan(rows=["Cliff, annealed"], datasets=[3, 7])
    other = cliff_synthetic.plan(start=1_000, rows=["Cliff"], datasets=[3])
    for planned in (again, other):
        trials |= {f"{label} again": found for label, found in planned.items()}
    names = [trial.name for found in trials.values() for trial in found]
    assert len(set(names)) == len(names) == 23


def test_criterion_is_least_where_steps_are_aligned():
    points = np.random.default_rng(0).uniform(size=(4000, 2))
    turned = points @ np.array([[1.0, -1.0], [1.0, 1.0]])
    assert cliff_optimum.criterion(points) < cliff_optimum.criterion(turned) - 0.3


def test_ranks_are_uniform_and_keep_the_order():
    sources = np.array([[3.0, -1.0], [1.0, 5.0], [2.0, 0.0], [9.0, 9.0]])
    expected = [[0.625, 0.125], [0.125, 0.625], [0.375, 0.375], [0.875, 0.875]]
    np.testing.assert_allclose(cliff_optimum.ranks_of(sources), expected)


@pytest.mark.slow
def test_the_start_at_the_truth_is_at_the_truth():
    """The inversion finds the sources, and the criterion goes on from there."""
    from qlayers import datasets

    dataset = datasets.load("grid2d", num_images=500, max_condition=2.0)
    weights = {"univariate_weight": 0.0, "uniform_weight": 1.0}
    steps = {"inversion": 300, "criterion": 30}
    found = cliff_optimum.from_the_truth(dataset, 500, weights, steps, seed=0)
    assert found["inversion/mcc"] > 0.97
    assert found["criterion/criterion"] < found["inversion/criterion"]


def square(lines=21):
    axis = np.linspace(-1, 1, lines)
    return np.stack([part.ravel() for part in np.meshgrid(axis, axis)], axis=1)


def turned(points, degrees):
    angle = np.radians(degrees)
    cos, sin = np.cos(angle), np.sin(angle)
    return points @ np.array([[cos, -sin], [sin, cos]])


def test_alignment_of_known_rotations():
    z = square()
    assert circles.alignment(z, z * [3.0, -0.5]) == pytest.approx(1)
    assert circles.alignment(z, z[:, ::-1]) == pytest.approx(1)
    assert circles.alignment(z, turned(z, 45)) == pytest.approx(0, abs=1e-9)
    assert np.isnan(circles.alignment(z, z * [1.0, 0.0]))
    assert np.isnan(circles.rotation(z, z * [1.0, 0.0]))
    # |correlations| are cos 30 and sin 30 degrees.
    p = np.cos(np.pi / 6) / (np.cos(np.pi / 6) + np.sin(np.pi / 6))
    entropy = -(p * np.log(p) + (1 - p) * np.log(1 - p))
    expected = 1 - entropy / np.log(2)
    assert circles.alignment(z, turned(z, 30)) == pytest.approx(expected)


@pytest.mark.parametrize("degrees", [0, 10, 30, 45, 80])
def test_rotation_is_measured_in_degrees(degrees):
    z = square()
    expected = min(degrees, 90 - degrees)
    assert circles.rotation(z, turned(z, degrees)) == pytest.approx(expected, abs=1e-6)


@pytest.mark.slow
def test_circles(tmp_path, monkeypatch):
    record = run_twice(circles, tmp_path, monkeypatch)
    assert [g["label"] for g in record["groups"]] == ["Gaussian VAE", "D-VAE"]
    for group in record["groups"]:
        for row in group["runs"]:
            assert 0 <= row["scores"]["alignment/score"] <= 1
            assert 0 <= row["scores"]["alignment/degrees"] <= 45
    assert is_picture(tmp_path / "circles.png")


@pytest.mark.slow
def test_balls(tmp_path, monkeypatch):
    record = run_twice(balls, tmp_path, monkeypatch)
    labels = [group["label"] for group in record["groups"]]
    assert labels == ["Cliff", "IOSS", "HFS", "additive", "AE"]
    for group in record["groups"]:
        assert [row["seed"] for row in group["runs"]] == [3, 4]
        assert 0 <= group["scores"]["mcc/mcc"]["mean"] <= 1
    assert 5 < record["findings"]["psnr_of_the_mean"] < 30


def test_balls_have_one_budget():
    """Only the criterion differs, or the decoder of the additive row."""
    configs = {label: trials[0].config for label, trials in balls.plan().items()}
    names = ("steps", "batch_size", "image_size", "width", "num_latents")
    names += ("dataset_options", "encoder_options")
    assert len({str([getattr(c, n) for n in names]) for c in configs.values()}) == 1
    rates = [c.hyperparameters["learning_rate"] for c in configs.values()]
    assert all(rate == rates[0] for rate in rates)
    networks = {label: config.network for label, config in configs.items()}
    assert networks.pop("additive") == "locatello_additive"
    assert set(networks.values()) == {"locatello"}
    for label in set(networks) - {"AE"}:
        assert configs[label].hyperparameters["beta"] is None  # no VAE
    plain = configs["AE"].hyperparameters
    assert plain == {k: configs["Cliff"].hyperparameters[k] for k in plain}


@pytest.fixture
def sub_grid(tmp_path):
    """A file like the sub-grid's: squares of 2 sizes and shapes at 5 x 5 places."""
    sizes = (2, 2, 2, 5, 5)
    classes = np.stack(np.unravel_index(np.arange(200), sizes), axis=1)
    images = np.zeros((200, 64, 64), np.uint8)
    for image, (shape, scale, turn, x, y) in zip(images, classes, strict=True):
        side = 6 + 6 * scale
        image[9 * y : 9 * y + side, 9 * x : 9 * x + side - 3 * shape] = 1
        image[9 * y + 2 * turn, 9 * x] = 0
    path = tmp_path / "dsprites.npz"
    np.savez(path, imgs=images, latents_classes=classes)
    return path


@pytest.mark.slow
def test_dsprites(tmp_path, monkeypatch, sub_grid):
    monkeypatch.setattr(dsprites, "PREPARED", tmp_path / "prepared")
    monkeypatch.chdir(study.ROOT)
    record = run_twice(dsprites, tmp_path / "runs", monkeypatch, f"--file={sub_grid}")
    labels = [group["label"] for group in record["groups"]]
    further = [f"FactorDVAE, weight {gamma:g}" for gamma in dsprites.GAMMAS]
    assert labels == [*dsprites.METHODS.values(), *further]
    for group in record["groups"]:
        assert group["scores"]["mig/mig"]["count"] == 2
        assert 0 <= group["scores"]["udr/udr"]["mean"] <= 1
    steps = {group["config"]["steps"] for group in record["groups"]}
    batches = {group["config"]["batch_size"] for group in record["groups"]}
    assert len(steps) == len(batches) == 1  # the same budget for all
    found = record["findings"]["rank_correlations"]
    assert found["straight_through_gap/gap"]["runs"] == found["udr/udr"]["runs"] == 8
    check_claims(record)
    assert is_picture(tmp_path / "runs" / "dsprites.png")


def test_dsprites_has_the_frozen_budget_and_twenty_discrete_runs():
    planned = dsprites.plan("file.npz")
    frozen = json.loads(claims.FILE.read_text())
    assert frozen["budget"]["dsprites"] == "20,000 steps of 64 images"
    for trials in planned.values():
        assert [trial.config.seed for trial in trials] == frozen["seeds"]["dsprites"]
        for trial in trials:
            config = trial.config
            assert (config.steps, config.batch_size) == (20_000, 64)
            assert config.encoder_options == {"variant": "code"}
            assert "dci_gradient_boosting" in config.scores
    discrete = [t for trials in planned.values() for t in trials if "d_vae" in t.name]
    assert len(discrete) == len({trial.name for trial in discrete}) == 20
    weights = [t.config.hyperparameters.get("tc_weight") for t in discrete]
    assert set(weights) == {None, 10.0, 30.0, 100.0}


@pytest.mark.slow
def test_second_dataset(tmp_path, monkeypatch, sub_grid):
    monkeypatch.setattr(second_dataset, "PREPARED", tmp_path / "prepared")
    monkeypatch.chdir(study.ROOT)
    folder = tmp_path / "runs"
    record = run_twice(second_dataset, folder, monkeypatch, f"--file={sub_grid}")
    assert [g["label"] for g in record["groups"]] == list(second_dataset.ROWS)
    assert {g["config"]["dataset"] for g in record["groups"]} == {"dsprites"}
    check_claims(record)


def test_second_dataset_has_the_leaderboards_settings():
    weights = dict.fromkeys(second_dataset.ROWS, 0.123)
    planned = second_dataset.plan("file.npz", weights)
    entries = {entry.label: entry for entry in ENTRIES}
    for label, trials in planned.items():
        entry = entries[label]
        settings = settings_of(entry, LONG.steps, 1.0, "last", False)
        trial = plan_entry(entry, [0], settings, 0.123, "final")[0]
        ours, theirs = trials[0].config, trial.config
        assert ours.hyperparameters == theirs.hyperparameters
        assert ours.hyperparameters[entry.key] == 0.123
        for name in ("steps", "batch_size", "image_size", "width", "network"):
            assert getattr(ours, name) == getattr(theirs, name)


@pytest.mark.slow
def test_second_dataset_reasons(tmp_path, monkeypatch, sub_grid):
    monkeypatch.setattr(second_dataset, "PREPARED", tmp_path / "prepared")
    monkeypatch.chdir(study.ROOT)
    arguments = [f"--file={sub_grid}"]
    record = run_twice(
        second_dataset_reasons, tmp_path / "runs", monkeypatch, *arguments
    )
    groups = {group["label"]: group for group in record["groups"]}
    assert len(groups) == len(second_dataset_reasons.ENTRIES) + 2
    modularity = {
        label: np.array([row["scores"]["infomec/modularity"] for row in group["runs"]])
        for label, group in groups.items()
    }
    gaps = record["findings"]["gaps"]
    for label, tripod, qlae in (
        ("Tripod, no NHP", "Tripod", "QLAE, ten values"),
        ("Tripod, 24,000 steps", "Tripod", "QLAE, ten values, 24,000 steps"),
    ):
        for name, other in (("tripod", tripod), ("qlae", qlae)):
            expected = np.mean(modularity[label] - modularity[other])
            assert gaps[label][name]["mean"] == pytest.approx(expected, abs=1e-12)
    assert set(gaps["Tripod"]) == {"qlae"}


def test_reasons_differ_from_the_second_dataset_in_one_thing():
    weights = dict.fromkeys(second_dataset.ROWS, 0.123)
    planned = second_dataset.plan(
        "file.npz", weights, entries=second_dataset_reasons.ENTRIES
    )
    compared = second_dataset.plan("file.npz", weights)

    def change(label, parent):
        ours, theirs = planned[label][0].config, compared[parent][0].config
        before, after = dict(theirs.hyperparameters), dict(ours.hyperparameters)
        return {name: after[name] for name in after if after[name] != before[name]}

    # The very runs of the study, which are not trained again.
    for label in ("Tripod", "QLAE, ten values"):
        assert planned[label] == compared[label]
    assert change("Tripod, no NHP", "Tripod") == {"nhp_weight": 0.0}
    assert change("Tripod, no KLM", "Tripod") == {"klm_weight": 0.0}
    neither = {"nhp_weight": 0.0, "klm_weight": 0.0}
    assert change("Tripod, no penalty", "Tripod") == neither
    assert change("Tripod, rate 2e-4", "Tripod") == {"learning_rate": 2e-4}
    decay = change("QLAE, no weight decay", "QLAE, ten values")
    assert decay == {"weight_decay": 0.0}
    longer = second_dataset.plan(
        "file.npz",
        weights,
        entries=second_dataset_reasons.TRAINED_LONGER,
        steps=second_dataset_reasons.LONGER,
    )
    for label, trials in longer.items():
        trial, usual = trials[0], compared[label][0]
        assert trial.name != usual.name
        assert trial.config.steps == 2 * usual.config.steps
        assert trial.config.hyperparameters == usual.config.hyperparameters


def test_second_dataset_needs_the_leaderboards_record(tmp_path):
    record = tmp_path / "leaderboard.json"
    with pytest.raises(study.StudySkippedError, match="AE, beta-VAE"):
        second_dataset.chosen_weights(record)
    rows = {label: {"chosen": 0.5} for label in second_dataset.ROWS}
    record.write_text(json.dumps({"findings": {"tuning": rows}}))
    assert second_dataset.chosen_weights(record)["AE"] == 0.5


def test_dsprites_without_data_says_what_is_missing(tmp_path, capsys):
    arguments = ["--quick", f"--workdir={tmp_path}", f"--file={tmp_path / 'none.npz'}"]
    dsprites.main(arguments)
    assert "Skipped: The study needs the dSprites sub-grid" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())


def test_rank_correlation_of_the_gap():
    def group(pairs):
        return {
            "runs": [
                {"scores": {"mig/mig": m, "straight_through_gap/gap": g}}
                for m, g in pairs
            ]
        }

    continuous = {"runs": [{"scores": {"mig/mig": 0.9}}]}
    groups = [
        group([(0.1, 9.0), (0.2, 5.0)]),
        continuous,
        group([(0.3, 1.0), (0.4, 2.0)]),
    ]
    found = dsprites.rank_correlations(groups, "straight_through_gap/gap")
    # Ranks of the gap 4 3 1 2 beside 1 2 3 4: 1 - 6 * 18 / 60.
    assert found["mig/mig"]["correlation"] == pytest.approx(-0.8)
    assert found["runs"] == 4


@pytest.mark.slow
def test_leaderboard(tmp_path, monkeypatch):
    record = run_twice(leaderboard, tmp_path, monkeypatch, "--entries=AE")
    assert [group["label"] for group in record["groups"]] == ["AE"]
    tuning = record["findings"]["tuning"]["AE"]
    assert [entry["value"] for entry in tuning["candidates"]] == [0.0, 1e-3]
    config = record["groups"][0]["config"]
    assert config["hyperparameters"]["weight_decay"] == tuning["chosen"]
    seeds = [row["seed"] for row in record["groups"][0]["runs"]]
    assert len(seeds) == 2 and tuning["seed"] not in seeds
    assert is_picture(tmp_path / "leaderboard.png")
    assert is_picture(tmp_path / "leaderboard_nmi.png")


@pytest.mark.slow
def test_more_runs_of_one_row_leave_the_others_in_the_record(tmp_path):
    common = ["--quick", "--no_tune", f"--workdir={tmp_path}"]
    leaderboard.main([*common, "--seeds=0,1,2", "--entries=AE;BioAE"])
    leaderboard.main([*common, "--seeds=0,1,2,3", "--entries=BioAE"])
    record = json.loads((tmp_path / "leaderboard.json").read_text())
    counts = {group["label"]: len(group["runs"]) for group in record["groups"]}
    assert counts == {"AE": 3, "BioAE": 4}


def test_matrices_are_those_of_the_middle_run_sorted_by_factor():
    def run(value):
        scores = {"infomec/modularity": value}
        return FinishedRun(Path(str(value)), None, {"scores": scores})

    runs = [run(value) for value in (0.9, 0.1, 0.5, 0.6)]
    assert leaderboard_pictures.middle_run(runs) is runs[2]
    assert leaderboard_pictures.middle_run(runs[:3]) is runs[2]
    nmi = [[0.1, 0.9, 0.3, 0.0], [0.8, 0.0, 0.2, 0.9]]
    expected = [[0.9, 0.0], [0.3, 0.2], [0.0, 0.9], [0.1, 0.8]]
    np.testing.assert_allclose(leaderboard_pictures.by_factor(nmi), expected)


@pytest.mark.slow
def test_confirmation_takes_seeds_that_no_choice_has_seen(tmp_path, monkeypatch):
    arguments = ["--entries=AE", "--no_tune"]
    record = run_twice(leaderboard_confirmation, tmp_path, monkeypatch, *arguments)
    assert record["study"] == "leaderboard_confirmation"
    seeds = [row["seed"] for row in record["groups"][0]["runs"]]
    assert seeds == list(leaderboard_confirmation.SEEDS[:2])
    used = {*leaderboard_plan.SHORT.seeds, leaderboard_tuning.TUNING_SEED}
    assert not used & set(leaderboard_confirmation.SEEDS)
    labels = {entry.label for entry in SHORT_ENTRIES}
    assert set(leaderboard_confirmation.ROWS) <= labels


def test_ablations_differ_from_their_method_in_one_thing():
    entries = {entry.label: entry for entry in ENTRIES}

    def weights(label, value):
        settings = settings_of(entries[label], 8000, 1.0, "recipe", False)
        trials = plan_entry(entries[label], [0], settings, value, "final")
        return dict(trials[0].config.hyperparameters)

    tripod, qlae = weights("Tripod", 0.01), weights("QLAE, ten values", 0.1)
    assert qlae["num_values"] == tripod["num_values"] == 10
    assert weights("QLAE, four values", 0.1) == {**qlae, "num_values": 4}
    finer = weights("Tripod, finer quantization", 0.01)
    assert finer == {**tripod, "num_values": 144}
    steady = weights("Tripod, steps along latents", 0.01)
    assert steady == {**tripod, "directions": "coordinates"}
    assert weights("Tripod, no NHP", None) == {**tripod, "nhp_weight": 0.0}
    assert weights("Tripod, no KLM", 0.01) == {**tripod, "klm_weight": 0.0}
    assert weights("QLAE, no weight decay", None) == {**qlae, "weight_decay": 0.0}
    assert weights("QLAE, global codebook", 0.1)["weight_decay"] == 0.1


def test_factor_qvae_has_the_divergence_weight_of_qvae():
    (entry,) = (e for e in ENTRIES if e.label == "FactorQVAE")
    settings = settings_of(entry, 10, 1.0, "last", False)
    tuned = {"QVAE": {"key": "kl_weight", "chosen": 0.123}}
    shared = leaderboard_tuning.shared_weight(entry, tuned)
    trials = plan_entry(entry, [0], settings, 1e-5, "final", shared)
    weights = trials[0].config.hyperparameters
    assert (weights["kl_weight"], weights["tc_weight"]) == (0.123, 1e-5)


@pytest.mark.parametrize("regime", leaderboard_plan.REGIMES)
def test_all_rows_have_one_budget(regime):
    entries = leaderboard_plan.REGIMES[regime].entries
    assert len({entry.label for entry in entries}) == len(entries) >= 20
    for entry in entries:
        settings = settings_of(entry, 8000, 1.0, "recipe", False)
        for value in entry.candidates or (None,):
            trials = plan_entry(entry, [0], settings, value, "final")
            config = trials[0].config
            assert config.steps == (4000 if entry.is_adversarial else 8000)
            if value is not None:
                assert config.hyperparameters[entry.key] == value


def test_gans_of_the_long_regime_see_as_many_images():
    images = set()
    for entry in ENTRIES:
        settings = leaderboard_plan.final_settings(entry, LONG)
        # The factor models take a batch for each of their two networks.
        halves = 2 if entry.label in ("FactorVAE", "FactorQVAE") else 1
        images.add(settings["steps"] * settings["batch_size"] // halves)
    assert images == {768_000}


def test_factor_models_of_dsprites_train_all_networks_at_one_rate(tmp_path):
    planned = dsprites.plan(tmp_path / "dsprites.npz")
    for label in ("FactorVAE", "FactorDVAE", "FactorDVAE, weight 10"):
        (weights, *_) = (trial.config.hyperparameters for trial in planned[label])
        rates = weights["learning_rate"], weights["discriminator_learning_rate"]
        assert rates == (1e-3, 1e-3)


def test_rows_of_claims_have_five_seeds_and_others_three():
    seeds = {
        entry.label: leaderboard_plan.seeds_of(entry, LONG.claims, LONG.seeds)
        for entry in ENTRIES
    }
    assert seeds["AE"] == seeds["QLAE, ten values"] == [0, 1, 2, 3, 4]
    assert seeds["Cliff"] == seeds["dVAE"] == [0, 1, 2, 3, 4]
    assert seeds["QLAE, four values"] == [0, 1, 2]


def made_run(modularity, psnr):
    scores = {"infomec/modularity": modularity, "psnr/psnr": psnr}
    return FinishedRun(None, None, {"scores": scores})


def test_tuning_asks_for_reconstructions_first():
    entry = Entry("X", "ae", "weight_decay", (0.0, 0.1, 1.0))
    good, poor = 21.0, 19.0
    runs = {
        0.0: made_run(0.3, good),
        0.1: made_run(0.5, good),
        1.0: made_run(0.9, poor),
    }
    assert leaderboard_tuning.choose(entry, runs, 20.0) == 0.1
    blurred = {0.0: made_run(0.3, poor), 1.0: made_run(0.9, poor - 5)}
    assert leaderboard_tuning.choose(entry, blurred, 20.0) == 0.0
    gan = Entry("Y", "infowgan_gp", "weight_decay", (0.0, 1.0))
    assert leaderboard_tuning.choose(gan, blurred, 20.0) == 1.0


@pytest.mark.slow
def test_penalty_noise(tmp_path, monkeypatch):
    record = run_twice(penalty_noise, tmp_path, monkeypatch)
    (group,) = record["groups"]
    for count in record["findings"]["directions"]:
        assert group["scores"][f"length/{count}"]["mean"] > 0
        assert group["scores"][f"signal/{count}"]["mean"] <= 1
    assert 0 <= group["scores"]["value/coordinates/2"]["mean"] <= 1


def test_signal_share_is_that_of_the_distribution():
    rng = np.random.default_rng(0)
    mean, noise = np.full(50, 0.5), 2.0
    rows = mean + noise * rng.normal(size=(4_000, 50))
    expected = 0.5**2 / (0.5**2 + noise**2)
    assert penalty_noise.signal_share(rows) == pytest.approx(expected, rel=0.05)
    # Pairs of few rows: unbiased, where |mean of the rows|^2 would be 0.25 too large.
    few = [penalty_noise.signal_share(part) for part in rows.reshape(1_000, 4, 50)]
    assert np.mean(few) == pytest.approx(expected, abs=0.01)
    assert penalty_noise.signal_share(np.ones((3, 5))) == pytest.approx(1.0)


@pytest.mark.slow
def test_vector_quantizers(tmp_path, monkeypatch):
    pytest.importorskip("vector_quantize_pytorch")
    record = run_twice(vector_quantizers, tmp_path, monkeypatch)
    labels = [group["label"] for group in record["groups"]]
    assert labels == [*vector_quantizers.OURS, *vector_quantizers.PEERS]
    for group in record["groups"]:
        scores = group["runs"][0]["scores"]
        assert 0 < scores["codes/used"] <= 1
        assert 1 <= scores["codes/perplexity"] <= 128
        assert 0 < scores["error/mse"] < 1


def test_the_peers_network_is_our_network():
    """The PyTorch twin computes what the Keras network computes."""
    torch = pytest.importorskip("torch")
    import keras

    settings = {**vector_quantizers.SETTINGS, "image_size": 16, "channels": [4, 6]}
    keras.utils.set_random_seed(0)
    ours = vector_quantizers.network(settings)
    keras.utils.set_random_seed(0)
    theirs = vector_quantizers.torch_twin(settings)
    images = np.random.default_rng(0).random((2, 16, 16, 3), dtype="float32")
    with torch.no_grad():
        latents = theirs[0](torch.tensor(images).permute(0, 3, 1, 2))
        outputs = theirs[1](latents).permute(0, 2, 3, 1).numpy()
    expected = keras.ops.convert_to_numpy(ours[1](ours[0](images)))
    np.testing.assert_allclose(outputs, expected, rtol=1e-4, atol=1e-5)


def test_choices_on_record_hold_for_the_same_row_only(tmp_path, monkeypatch):
    same = Entry("A", "ae", "weight_decay", (0.0, 0.1))
    monkeypatch.setattr(leaderboard_tuning, "SHORT_ENTRIES", (same,))
    tried = [{"value": value} for value in (0.0, 0.1)]
    row = {"key": "weight_decay", "chosen": 0.1, "candidates": tried}
    record = tmp_path / "leaderboard_short.json"
    record.write_text(json.dumps({"findings": {"tuning": {"A": row, "B": row}}}))
    renamed = dataclasses.replace(same, label="A, four values")
    others = [
        Entry("A", "ae", "weight_decay", (0.0, 0.2)),
        Entry("A", "ae", "learning_rate", (0.0, 0.1)),
        Entry("A", "ae", "weight_decay", (0.0, 0.1), {"num_values": 10}),
        Entry("A", "qlae", "weight_decay", (0.0, 0.1)),
        Entry("A", "ae", "weight_decay", (0.0, 0.1), shares="B"),
    ]
    for entry in (same, renamed):
        found = leaderboard_tuning.recorded_choices(record, [entry])
        assert found[entry.label]["chosen"] == 0.1
        assert found[entry.label]["record"] == "leaderboard_short"
    for other in others:
        assert leaderboard_tuning.recorded_choices(record, [other]) == {}
    assert leaderboard_tuning.recorded_choices(tmp_path / "none.json", [same]) == {}
