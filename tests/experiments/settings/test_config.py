"""Recipes and flags: what a command resolves to, and what is refused."""

import json

import keras
import numpy as np
import pytest

from experiments.settings.choices import PROFILES
from experiments.settings.config import RunConfig, resolve
from experiments.settings.hyperparameters import (
    parse_assignment,
    resolve_schedules,
)
from experiments.settings.recipes import recipe
from experiments.sweeps.engines import check_engine
from experiments.sweeps.plan import parse_grid, parse_seeds, plan_sweep
from models import METHODS


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("method", METHODS)
def test_every_method_has_a_recipe_of_known_hyperparameters(method, profile):
    given = {"supervision_weight": 1.0} if method == "supervised_vae" else {}
    dataset = "balls" if method == "additive" else "mini_shapes3d"
    config = resolve(method, dataset, profile, hyperparameters=given)
    assert set(config.hyperparameters) <= set(METHODS[method].hyperparameters())
    assert RunConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config


# (method, dataset) -> numbers read in the papers' tables.
@pytest.mark.parametrize(
    ("method", "dataset", "expected"),
    [
        ("qlae", "shapes3d", {"weight_decay": 0.1, "learning_rate": 1e-3}),
        ("qlae", "mpi3d", {"weight_decay": 1e-3, "beta_2": 0.99}),
        ("beta_vae", "falcor3d", {"beta": 10.0}),
        ("factor_qvae", "isaac3d", {"kl_weight": 5e-5, "tc_weight": 5e-5}),
        ("tripod", "falcor3d", {"klm_weight": 1e-10, "nhp_weight": 1e-2}),
        ("cliff", "shapes3d", {"univariate_weight": 0.5, "uniform_weight": 0.7}),
        ("cliff", "grid2d", {"univariate_weight": 0.0, "learning_rate": 2e-3}),
    ],
)
def test_papers_values(method, dataset, expected):
    _, hyperparameters = recipe(method, dataset)
    assert {name: hyperparameters[name] for name in expected} == expected


def test_papers_sizes():
    config = resolve("qlae", "isaac3d")
    assert (config.num_latents, config.batch_size, config.steps) == (18, 128, 200_000)
    assert resolve("tripod", "mpi3d").psnr_threshold == 42.0
    assert resolve("tripod", "mpi3d").select == "infom"
    assert resolve("d_vae", "dsprites").num_latents == 10
    assert resolve("infowgan_gp", "shapes3d").psnr_threshold is None
    assert resolve("infowgan_gp", "shapes3d").select == "last"


def test_the_cpu_profile_scores_all_methods_alike():
    names = ("evaluation_size", "test_size", "reconstruction_size", "scores")
    names += ("dci_resamples", "metrics", "protocol", "scored_as", "gap_loss")
    names += ("evaluation_sample", "psnr_variant")
    found = set()
    for method in METHODS:
        given = {"supervision_weight": 1.0} if method == "supervised_vae" else {}
        dataset = "balls" if method == "additive" else "mini_shapes3d"
        config = resolve(method, dataset, "cpu", hyperparameters=given)
        found.add(str([getattr(config, name) for name in names]))
    assert len(found) == 1


def test_options_stand_beside_those_of_the_recipe():
    row = "friede:table1:factor_vae/mpi3d"
    options = {"dataset_options": {"manual_dir": "/downloads"}}
    plain = resolve("factor_vae", "mpi3d", row)
    config = resolve("factor_vae", "mpi3d", row, options=options)
    assert plain.dataset_options == {"variant": "toy"}
    assert config.dataset_options == {"variant": "toy", "manual_dir": "/downloads"}
    small = resolve("qlae", profile="cpu").decoder_options
    options = {"decoder_options": {"variant": "code"}}
    both = resolve("qlae", profile="cpu", options=options).decoder_options
    assert both == {**small, "variant": "code"} and small
    trial = plan_sweep(
        ["qlae"], ["mini_shapes3d"], [0], profile="cpu", options=options
    )[0]
    assert trial.config.decoder_options == both


def test_words_are_no_switches():
    for value in ("no", "off", "n", 2):
        with pytest.raises(ValueError, match="`two_batches` must be true or false"):
            resolve("factor_vae", hyperparameters={"two_batches": value})
    config = resolve("factor_vae", hyperparameters={"two_batches": False})
    assert config.hyperparameters["two_batches"] is False


def test_a_threshold_needs_a_choice_among_checkpoints():
    with pytest.raises(ValueError, match="choose another `select`"):
        resolve("qlae", settings={"psnr_threshold": 35.0})
    config = resolve("qlae", settings={"psnr_threshold": 35.0, "select": "infom"})
    assert config.psnr_threshold == 35.0
    # The threshold of a recipe goes with its rule.
    assert resolve("tripod", "mpi3d").psnr_threshold == 42.0
    last = resolve("tripod", "mpi3d", settings={"select": "last"})
    assert last.psnr_threshold is None


def test_configs_older_than_a_setting_can_be_read():
    old = resolve("qlae", profile="cpu").to_dict()
    del old["reconstruction_size"]
    assert RunConfig.from_dict(old).reconstruction_size == 1_000
    del old["steps"]
    with pytest.raises(ValueError, match="The config lacks steps"):
        RunConfig.from_dict(old)


def test_schedules_run_over_the_whole_training():
    values = resolve_schedules({"noise_scale": "cosine(0.5, 2.0)", "x": 1}, 300)
    schedule = keras.optimizers.schedules.deserialize(values["noise_scale"])
    steps = np.array([0, 100, 150, 300])
    wanted = 0.5 * (0.5 + 2) + 0.5 * (0.5 - 2) * np.cos(np.pi * steps / 300)
    found = [float(schedule(int(step))) for step in steps]
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
    short = resolve_schedules({"rate": "cosine(1e-3, 1e-5, 50)"}, 100)["rate"]
    schedule = keras.optimizers.schedules.deserialize(short)
    found = [float(schedule(step)) for step in (0, 25, 50, 100)]
    np.testing.assert_allclose(found, [1e-3, 5.05e-4, 1e-5, 1e-5], rtol=1e-5)
    with pytest.raises(ValueError, match="needs positive, finite numbers"):
        resolve_schedules({"rate": "cosine(1e-3, 1e-5, 0)"}, 100)
    decay = resolve_schedules({"t": "exponential(1, 0.25)"}, 100)["t"]
    schedule = keras.optimizers.schedules.deserialize(decay)
    assert float(schedule(50)) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"method": "qlea"}, "Unknown method 'qlea'. Known: additive"),
        ({"dataset": "mnist"}, "Unknown dataset"),
        ({"hyperparameters": {"beta": 1}}, "no hyperparameter beta. It has: beta_1"),
        ({"settings": {"steps": 0}}, "`steps` must be a positive integer"),
        ({"settings": {"width": float("nan")}}, "`width` must be positive"),
        (
            {"settings": {"evaluate_every": 30, "log_every": 20}},
            "must be a multiple of `log_every`",
        ),
        ({"method": "factor_qvae", "settings": {"batch_size": 7}}, "multiple of 2"),
        ({"method": "infowgan_gp", "settings": {"batch_size": 64}}, "multiple of 5"),
        (
            {
                "method": "cliff",
                "dataset": "grid2d",
                "settings": {"network": "style"},
            },
            "Use `network=mlp`",
        ),
        ({"settings": {"network": "mlp"}}, "for grid2d alone"),
        (
            {"dataset": "grid2d", "settings": {"network": "mlp"}},
            "needs a decoder",
        ),
        ({"method": "additive", "settings": {"network": "style"}}, "resnet_additive"),
        ({"method": "d_vae", "settings": {"num_labels": 10}}, "Supervision needs both"),
        (
            {"method": "supervised_vae", "settings": {"num_latents": 4}},
            "6 factors of mini_shapes3d",
        ),
        (
            {"method": "ae", "settings": {"select": "straight_through_gap"}},
            "needs a quantizer",
        ),
        ({"settings": {"jit": "maybe"}}, "Unknown jit"),
        (
            {"settings": {"encoder_options": {"depth": 3}}},
            "encoder 'style' has no option depth. It has: .*preserving_layers",
        ),
        ({"settings": {"network": "quux"}}, "Unknown network 'quux'. Known: dalle"),
        ({"method": "ae", "dataset": "grid2d"}, "grid2d is for the methods"),
        (
            {"hyperparameters": {"learning_rate": "fast"}},
            "`learning_rate` must be a positive number or a schedule, received 'fast'",
        ),
        ({"hyperparameters": {"learning_rate": 0}}, "must be a positive number"),
        ({"hyperparameters": {"weight_decay": -1}}, "must be a number >= 0"),
        ({"seed": -1}, "`seed` must not be negative"),
    ],
)
def test_impossible_settings_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        resolve(**{"method": "qlae", "profile": "cpu", **arguments})


def test_assignments():
    assert parse_assignment("a=1e-3") == ("a", 1e-3)
    assert parse_assignment("a = none") == ("a", None)
    assert parse_assignment("distance=l1") == ("distance", "l1")
    assert parse_assignment("units=[3, 4]") == ("units", [3, 4])
    with pytest.raises(ValueError, match="name=value"):
        parse_assignment("a")


def test_sweep_has_all_combinations():
    trials = plan_sweep(
        ["ae", "qlae"],
        ["mini_shapes3d"],
        [0, 1],
        parse_grid(["weight_decay=0,0.1"]),
        profile="cpu",
    )
    assert len({trial.name for trial in trials}) == 8
    last = trials[-1]
    assert last.name == "mini_shapes3d-qlae-weight_decay=0.1-seed1"
    assert last.config.hyperparameters["weight_decay"] == 0.1
    assert last.config.seed == 1


@pytest.mark.parametrize("text", ["beta", "beta=", "3=1"])
def test_bad_grids(text):
    with pytest.raises(ValueError, match="Expected name=value"):
        parse_grid([text])


def test_values_of_a_grid_may_have_commas_within_brackets():
    assert parse_grid(["beta=linear(0,4),1", "num_values=[4,8],[8, 4], 3"]) == {
        "beta": ["linear(0,4)", 1],
        "num_values": [[4, 8], [8, 4], 3],
    }


def test_a_grid_says_everything_once():
    with pytest.raises(ValueError, match="beta twice"):
        parse_grid(["beta=1,3", "beta=10"])
    with pytest.raises(ValueError, match="beta is varied and given a value too"):
        plan_sweep(
            ["beta_vae"],
            ["mini_shapes3d"],
            [0],
            {"beta": [1, 3]},
            profile="cpu",
            hyperparameters={"beta": 2},
        )


def test_sweep_refuses_what_a_method_does_not_have():
    with pytest.raises(ValueError, match="'ae' has no hyperparameter num_values"):
        plan_sweep(["ae"], ["mini_shapes3d"], [0], {"num_values": [5]})
    with pytest.raises(ValueError, match="named twice"):
        plan_sweep(["ae"], ["mini_shapes3d"], [0, 0])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("local", 2, "multiworker"), "is one process"),
        (("ray", 2, "none"), "--workers is for --engine=local"),
    ],
)
def test_engines_refuse_what_they_cannot_do(arguments, message):
    with pytest.raises(ValueError, match=message):
        check_engine(*arguments)


@pytest.mark.parametrize("text", ["a", "-1", "0.5", ""])
def test_seeds_are_numbers(text):
    assert parse_seeds(["0", " 12"]) == [0, 12]
    with pytest.raises(ValueError, match="Seeds are numbers"):
        parse_seeds(["1", text])


def test_scores_on_request_are_those_that_exist():
    """The names are written out, so that flags need not load the metrics."""
    from experiments.settings.choices import SAMPLED_SCORES, SCORES
    from qlayers.metrics.evaluate import ALL

    assert set(SCORES) == {*SAMPLED_SCORES, *ALL, "dci_lightgbm"}
    with pytest.raises(ValueError, match="Unknown score 'dic'"):
        resolve("qlae", profile="cpu", settings={"scores": ["dic"]})
