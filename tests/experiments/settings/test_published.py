"""The published rows: complete, as printed, and each of them trains."""

import json
import math
from collections import Counter
from types import SimpleNamespace

import keras
import numpy as np
import pytest

from experiments.reporting.comparison import compare_with_papers
from experiments.running.setup import build_model
from experiments.settings.config import resolve
from experiments.settings.published import (
    PAPERS,
    find,
    paper_recipe,
    profile_of,
    published_rows,
    row_of_profile,
)
from experiments.settings.published.record import Cell
from experiments.settings.published.registry import home
from experiments.settings.published.tables import parse_cell
from experiments.settings.recipes import recipe
from experiments.settings.run_flags import recipe_from_flags, row_from_flags
from experiments.sweeps.plan import grid_of_row, plan_sweep
from models import METHODS
from qlayers import datasets

ROWS = published_rows()
RUNNABLE = [row for row in ROWS if row.runs]

# Printed lines of each table times its datasets, counted in the papers.
PRINTED = {
    ("qlae", "table1"): 7 * 5,
    ("qlae", "table2"): 7 * 5,
    ("qlae", "table12"): 12,
    ("qlae", "table13"): 12,
    ("qlae", "table14"): 12,
    ("qlae", "table15"): 12,
    ("qlae", "table16"): 12,
    ("qlae", "appendixB.4"): 5 + 6,  # without a number; two methods
    ("tripod", "table1"): 7 * 5,
    ("tripod", "table6"): 4,
    ("factor_qvae", "table1"): 9 * 3,
    ("factor_qvae", "table2"): 10,
    ("friede", "table1"): 9 * 6 - 5 * 2,  # ten cells are n.a.
    ("friede", "table5"): 8 * 6 - 5 * 2,
    ("friede", "table6"): 6,  # a column is a row here
    ("friede", "table7"): 4 * 6,
    ("cliff", "table2"): 3,
    ("cliff", "table3"): 3,
    ("cliff", "section3.1"): 2,
    ("cliff", "appendixF.5"): 3,  # without a number
}


def test_every_printed_row_has_a_record():
    assert Counter((row.paper, row.table) for row in ROWS) == PRINTED
    assert len({row.address for row in ROWS}) == len(ROWS)


# Read in the papers: address, score, value, lower and upper end, kind of interval.
CELLS = """
qlae:table1:qlae/shapes3d infomec/modularity 0.91 - - none
qlae:table1:ae/isaac3d infomec/compactness 0.15 - - none
qlae:table2:vq_vae_no_decay/falcor3d infomec/explicitness 0.07 - - none
qlae:table12:ql_infowgan_gp/aggregated psnr/psnr 22 20 24 95 %
qlae:table13:qlae_no_decay/shapes3d infomec/explicitness 0.985 0.976 0.994 95 %
tripod:table1:tripod/mpi3d infomec/compactness 0.53 - - none
tripod:table1:tripod_finer/isaac3d dci/completeness 0.63 - - none
tripod:table1:beta_tcvae/aggregated infomec/explicitness 0.77 - - none
factor_qvae:table1:qlae/mpi3d dci_gradient_boosting/informativeness 0.76 - - none
factor_qvae:table1:dvae/isaac3d psnr/mse 0.00036 - - none
factor_qvae:table2:factor_qvae-64x16/shapes3d infomec/modularity 0.51 - - none
friede:table1:selection/dsprites mig/mig 0.395 - - none
friede:table5:factor_vae/mpi3d mig/mig - 0.069 0.313 quartiles
friede:table6:d_vae/shapes3d dci_gradient_boosting/disentanglement 0.728 0.681 0.782 quartiles
friede:table6:d_vae/cars3d sap/sap 0.014 0.008 0.022 quartiles
friede:table7:factor_d_vae_masked/smallnorb mig/mig 0.336 0.268 0.373 quartiles
cliff:table2:ioss/balls mcc/mcc 0.6051 0.5493 0.6609 standard error
cliff:table3:beta_vae/shapes3d mig/mig 0.246 0.2295 0.2625 standard error
cliff:section3.1:cliff/grid2d mcc/mcc 0.941 0.932 0.95 not stated
"""  # noqa: E501


@pytest.mark.parametrize("line", CELLS.strip().splitlines())
def test_printed_cells(line):
    address, score, *numbers, kind = line.split(maxsplit=5)
    cell = find(address).cells[score]
    assert cell.kind == kind
    for found, text in zip((cell.value, cell.low, cell.high), numbers, strict=True):
        assert found == (None if text == "-" else pytest.approx(float(text)))


def test_cells_as_text():
    assert str(parse_cell("0.91±0.02", "95 %")) == "0.91 ± 0.02"
    assert str(parse_cell("80.33±2.60", "standard error", 0.01)) == (
        "0.8033 ± 0.026 (s.e.)"
    )
    assert str(parse_cell("17.4[13.2,20.0]", "quartiles")) == "17.4 [13.2, 20]"
    assert str(parse_cell("[13.2,20.0]", "quartiles")) == "[13.2, 20]"
    assert parse_cell("0.5") == Cell(0.5)
    for text in ("", "0.5+-0.1", "n.a."):
        with pytest.raises(ValueError, match="Expected a number"):
            parse_cell(text)


def test_aggregated_rows_are_the_means_of_their_datasets():
    """The papers' own averages, to the rounding of two digits."""
    for row in ROWS:
        if not row.row.endswith("/aggregated") or row.table == "table12":
            continue
        name = row.row.partition("/")[0]
        for score, cell in row.cells.items():
            parts = [
                find(f"{row.paper}:{row.table}:{name}/{dataset}").cells[score].value
                for dataset in ("shapes3d", "mpi3d", "falcor3d", "isaac3d")
            ]
            assert cell.value == pytest.approx(np.mean(parts), abs=0.0151), (
                row.address,
                score,
            )


def test_tables_of_one_paper_agree():
    """Tables 1 and 2 of QLAE are the rounded means of tables 13 to 16."""
    tables = {"shapes3d": 13, "mpi3d": 14, "falcor3d": 15, "isaac3d": 16}
    for row in ROWS:
        if row.paper != "qlae" or row.table not in ("table1", "table2") or not row.runs:
            continue
        full = find(f"qlae:table{tables[row.dataset]}:{row.row}")
        assert full.recipe() == row.recipe()
        for score, cell in row.cells.items():
            printed = full.cells[score]
            half = printed.high - printed.value
            # An interval has one digit, and its mean ends with that digit.
            digit = 10.0 ** math.floor(math.log10(half)) if half else 0.01
            assert cell.value == pytest.approx(printed.value, abs=digit / 2 + 0.0051)


def test_negative_results_have_no_cell_and_stand_beside_nothing():
    """Appendix B.4 of Hsu et al. 2023 lists modifications without a number."""
    rows = [row for row in ROWS if not row.cells and row.paper == "qlae"]
    assert {row.table for row in rows} == {"appendixB.4"}
    base = {
        name: find(f"qlae:table1:{name}/shapes3d").recipe()
        for name in ("qlae", "ql_infowgan_gp")
    }
    changed = {
        row.row.partition("/")[0]: {
            name: value
            for name, value in row.recipe().items()
            if base[row.method].get(name) != value
        }
        for row in rows
    }
    for name, decay in (("qlae", 0.1), ("ql_infowgan_gp", 1e-3)):
        assert changed[f"{name}_vq_weights"] == {
            "quantize_weight": 1.0,
            "commit_weight": 0.25,
        }
        assert changed[f"{name}_late_decay"] == {"weight_decay": f"step(0, {decay:g})"}
        assert changed[f"{name}_l1"].keys() == {"l1_weight"}
        assert changed[f"{name}_l1_no_decay"].keys() == {"l1_weight", "weight_decay"}
        annealed = changed[f"{name}_annealed_codebook"]
        assert set(annealed.values()) == {"linear(0, 0.01)"}
        assert annealed.keys() == {"quantize_weight", "commit_weight"}
    assert changed["ql_infowgan_gp_encoder_codebook"] == {"codebook_side": "encoder"}
    late = resolve("qlae", "shapes3d", "qlae:appendixB.4:qlae_late_decay/shapes3d")
    schedule = late.hyperparameters["weight_decay"]["config"]
    assert schedule["boundaries"] == [99_999] and schedule["values"] == [0.0, 0.1]
    found = compare_with_papers(late, ["infomec/modularity"])
    assert all(not comparison.cells for comparison in found)
    assert all("appendix" not in comparison.source for comparison in found)


def test_rows_of_appendix_f5_differ_in_the_dimensions_alone():
    rows = [row for row in ROWS if row.table == "appendixF.5"]
    tables = {"shapes3d": "table3", "balls": "table2", "grid2d": "section3.1"}
    for row in rows:
        one = find(f"cliff:{tables[row.dataset]}:cliff/{row.dataset}").recipe()
        assert row.recipe() == {**one, "uniform_dimensions": 2}
        assert not row.cells and row.left_open[-1].name == "uniform_dimensions"


# Chosen values that are not among those searched, as the papers print both.
_OUTSIDE = {("cliff", "bivariate_weight")}


def test_chosen_values_are_among_those_searched():
    names = set()
    for row in ROWS:
        for name, values in row.searched.items():
            assert name not in row.grid
            if row.recipe()[name] not in values:
                names.add((row.method, name))
    assert names == _OUTSIDE


# Appendix F.3 and F.4 of Barin-Pacela et al.
_SEARCHED = {
    "table3:cliff/shapes3d": {
        "univariate_weight": (0.1, 0.2, 0.5, 0.7, 1.0),
        "bivariate_weight": (10,),
        "uniform_weight": (0.1, 0.2, 0.5, 0.7, 1.0),
        "cliff_weight": (0.1, 0.5, 1.0, 10, 16, 100),
        "bandwidth": (0.1, 0.2, 0.5),
    },
    "table3:hfs/shapes3d": {
        "beta": (1, 2, 4, 8, 10, 16),
        "hfs_weight": (1, 10, 100),
    },
    "table3:beta_vae/shapes3d": {"beta": (1, 2, 4, 8, 10, 16)},
    "table2:cliff/balls": {"cliff_weight": (0.1, 0.5, 1.0)},
    "table2:ioss/balls": {"ioss_weight": (0.1, 0.5, 1.0)},
    "table2:additive/balls": {},
    "section3.1:cliff/grid2d": {},
    "section3.1:ioss/grid2d": {},
}


@pytest.mark.parametrize("row", _SEARCHED)
def test_grids_of_cliff(row):
    assert find(f"cliff:{row}").searched == _SEARCHED[row]


def test_scoring_names_an_estimator_for_every_cell():
    for row in ROWS:
        assert row.scoring.estimators
        for score in row.cells:
            metric = score.partition("/")[0]
            assert row.scoring.estimators.get(metric), (row.address, score)
        if any(score.startswith("infomec") for score in row.cells):
            assert row.scoring.protocol is not None
        boosted = any(score.startswith("dci_gradient") for score in row.cells)
        assert boosted == ("dci_gradient_boosting" in row.scoring.scores) or (
            # Friede et al. print MIG alone in most tables; appendices print nothing.
            row.paper == "friede" or not row.cells
        )


def test_a_row_that_cannot_run_says_why():
    for row in ROWS:
        assert row.status.startswith(("runs", "differs in ", "not here, because "))
        if row.runs:
            assert row.method in METHODS
            assert row.dataset in datasets.names()
        else:
            assert row.status == f"not here, because {row.missing}"
    with pytest.raises(ValueError, match="not here, because it is an average"):
        find("tripod:table1:tripod/aggregated").recipe()


def test_every_method_has_one_home():
    homes = Counter(m for module in PAPERS.values() for m in module.METHODS)
    assert set(homes.values()) == {1}
    assert set(homes) == {name for name, m in METHODS.items() if m.paper}
    assert home("nobody's") is None
    assert paper_recipe("nobody's", "shapes3d") is None


def test_recipes_are_rows():
    for method, dataset, address in (
        ("qlae", "mpi3d", "qlae:table1:qlae/mpi3d"),
        ("tripod", "isaac3d", "tripod:table1:tripod/isaac3d"),
        ("beta_vae", "dsprites", "friede:table1:beta_vae/dsprites"),
        ("factor_vae", "shapes3d", "friede:table1:factor_vae/shapes3d"),
        ("cliff", "balls", "cliff:table2:cliff/balls"),
    ):
        assert recipe(method, dataset) == recipe(method, dataset, address)


def test_addresses_and_profiles():
    assert row_of_profile("paper") is None
    address = "qlae:table1:qlae/shapes3d"
    assert profile_of(address) == address
    row, variant = row_of_profile(profile_of(address, "code"))
    assert (row.address, variant) == (address, "code")
    with pytest.raises(ValueError, match="Near it: qlae:table1:qlae/shapes3d"):
        find("qlae:table1:qlea/shapes3d")
    with pytest.raises(ValueError, match="Unknown variant 'text2'"):
        profile_of(address, "text2")
    with pytest.raises(ValueError, match="is the method 'qlae' on 'shapes3d'"):
        resolve("ae", "shapes3d", address)
    assert resolve("qlae", "mini_shapes3d", address).dataset == "mini_shapes3d"


class _Flags(dict):
    """Flags as absl holds them: those given are present."""

    def __init__(self, **given):
        values = {"method": "qlae", "dataset": "mini_shapes3d", "profile": "paper"}
        values |= {"methods": ["qlae"]}
        values |= {"reproduce": None, "variant": "text"}
        super().__init__(
            (name, SimpleNamespace(present=name in given)) for name in values
        )
        vars(self).update({**values, **given})


def test_flags_of_reproduce():
    address = "tripod:table1:tripod/mpi3d"
    assert recipe_from_flags(_Flags()) == ("qlae", "mini_shapes3d", "paper")
    given = _Flags(reproduce=address, variant="code")
    assert recipe_from_flags(given) == ("tripod", "mpi3d", f"{address}@code")
    for wrong, message in (
        ({"reproduce": address, "method": "ae"}, "leave out --method"),
        ({"reproduce": address, "profile": "cpu"}, "leave out --profile"),
        ({"reproduce": "tripod:table1:tripod/aggregated"}, "it is an average"),
        ({"reproduce": "tripod"}, "There is no published row 'tripod'"),
        ({"variant": "code"}, "--variant needs --reproduce"),
    ):
        with pytest.raises(ValueError, match=message):
            recipe_from_flags(_Flags(**wrong))


def test_a_sweep_trains_all_values_that_a_row_sums_over():
    row = find("friede:table1:factor_d_vae/dsprites")
    grid = grid_of_row(row)
    assert grid == {"tc_weight": [10, 20, 30, 40, 50, 100]}
    trials = plan_sweep([row.method], [row.dataset], [0, 1], grid, profile=row.address)
    assert len(trials) == 12
    weights = [trial.config.hyperparameters["tc_weight"] for trial in trials]
    assert sorted(set(weights)) == grid["tc_weight"]
    for trial in trials:
        (found,) = compare_with_papers(trial.config, ["mig/mig"])
        assert found.cells["mig/mig"].value == 0.217
    # The number of labels is a setting, not a hyperparameter.
    labelled = grid_of_row(find("friede:table7:d_vae/dsprites"))
    assert labelled.keys() == {"supervision_weight"}
    values = {"methods": ["factor_d_vae"], "reproduce": row.address, "variant": "code"}
    found, profile = row_from_flags(_Flags(**values), "methods")
    assert (found, profile) == (row, f"{row.address}@code")
    with pytest.raises(ValueError, match="leave out --methods"):
        row_from_flags(_Flags(**{**values, "methods": ["ae"]}), "methods")


def test_code_changes_only_what_it_names():
    for row in RUNNABLE:
        text, code = row.recipe(), row.recipe("code")
        named = {name for difference in row.code for name in difference.sets}
        assert {n for n in {*text, *code} if text.get(n) != code.get(n)} == named


@pytest.mark.parametrize("variant", ["text", "code"])
def test_every_record_resolves(variant):
    for row in RUNNABLE:
        config = resolve(row.method, row.dataset, profile_of(row.address, variant))
        assert config.evaluation_size == row.scoring.samples
        assert config.reconstruction_size == row.scoring.reconstructions == 10_000
        assert config.test_size == row.scoring.test_samples
        assert config.select == row.scoring.select
        scoring = row.scoring_of(variant)
        assert config.protocol == (scoring.protocol or "paper")
        assert config.psnr_variant == scoring.psnr_variant
        for name in row.grid:
            value = config.hyperparameters.get(name, getattr(config, name, None))
            assert value in row.grid[name], row.address


# What a record trains at a tiny size: the row's networks with few channels and, through
# smaller images, fewer stages.
_TINY = {"width": 1 / 32, "batch_size": 4, "steps": 2}
_SIDES = {"style": 8, "resnet": 32, "resnet_additive": 32, "spatial_broadcast": 32}
_SIDE = 16
_TINY |= {"evaluate_every": 2, "log_every": 1, "evaluation_size": 20}
_SMALL = {"hidden_units": [4, 4], "num_codes": 8, "code_dim": 2, "num_samples": 20}
_SMALL |= {"encoder_steps": 1}


def _tiny_config(row, variant):
    wanted = resolve(row.method, row.dataset, profile_of(row.address, variant))
    small = {name: _SMALL[name] for name in _SMALL if name in wanted.hyperparameters}
    if wanted.hyperparameters.get("code_dim") == 1:
        del small["code_dim"]
    settings = {**_TINY, "image_size": _SIDES.get(wanted.network, _SIDE)}
    if wanted.network == "style":
        for part in ("encoder_options", "decoder_options"):
            settings[part] = {**getattr(wanted, part), "preserving_layers": 0}
    if wanted.num_labels:
        settings["num_labels"] = 10
    return resolve(
        row.method,
        row.dataset,
        profile_of(row.address, variant),
        settings=settings,
        hyperparameters=small,
    )


def _train_two_steps(row, variant):
    config = _tiny_config(row, variant)
    random = np.random.default_rng(0)
    sizes = _factor_sizes(row)
    side = config.image_size
    shape = (2,) if config.network == "mlp" else (side, side, 3)
    dataset = SimpleNamespace(image_shape=shape, factor_sizes=sizes)
    model = build_model(config, dataset)
    # Two steps are not worth a graph.
    model.compile(run_eagerly=True)
    images = random.random((8, *shape), dtype="float32")
    data = (images,)
    if config.num_labels:
        labels = np.stack([random.integers(0, size, 8) for size in sizes], axis=1)
        data = (images, (images, labels))
    before = [np.array(weight) for weight in model.trainable_variables]
    history = model.fit(*data, batch_size=4, epochs=1, verbose=0).history
    losses = [v for name, values in history.items() if "loss" in name for v in values]
    assert losses
    assert np.isfinite(losses).all()
    moved = [
        not np.array_equal(old, np.array(new))
        for old, new in zip(before, model.trainable_variables, strict=True)
    ]
    assert np.mean(moved) > 0.5
    keras.backend.clear_session()


def _factor_sizes(row):
    from experiments.settings.published.friede import FACTOR_SIZES

    return FACTOR_SIZES.get(row.dataset, (3, 3))


def _distinct(rows):
    """One row of all whose models differ in nothing but the size of numbers."""
    found = {}
    for row in rows:
        for variant in ("text", "code"):
            structure = {
                name: _structure(value)
                for name, value in row.recipe(variant).items()
                if name not in _NOT_TRAINED
            }
            key = json.dumps([row.method, structure], sort_keys=True)
            found.setdefault(key, (row, variant))
    return list(found.values())


# Settings of the scores, and of the data that are replaced here.
_NOT_TRAINED = ("evaluation_size", "psnr_threshold", "select", "metrics", "protocol")
_NOT_TRAINED += ("reconstruction_size", "test_size", "psnr_variant", "scores")
_NOT_TRAINED += ("dci_resamples", "scored_as")
_NOT_TRAINED += ("train_fraction", "evaluation_sample", "gap_loss")
_NOT_TRAINED += ("dataset_options", "steps", "batch_size", "num_latents")
_NOT_TRAINED += ("evaluate_every", "log_every", "dataset_size")


def _structure(value):
    """A weight is there or not, a schedule is of a kind; names and lists are kept."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return bool(value)
    return value.partition("(")[0] if isinstance(value, str) else value


# The slow run trains them all.
_FAST = (
    "qlae:table1:qlae/shapes3d",
    "friede:table7:factor_d_vae_masked/dsprites",
    "cliff:section3.1:cliff/grid2d",
)


@pytest.mark.parametrize("address", _FAST)
def test_a_row_trains(address):
    _train_two_steps(find(address), "text")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("row", "variant"),
    _distinct(RUNNABLE),
    ids=lambda value: getattr(value, "address", value),
)
def test_every_row_trains(row, variant):
    _train_two_steps(row, variant)


def test_every_printed_score_is_among_those_of_a_run():
    """Table 6 of Friede et al. prints BetaVAE and FactorVAE scores, for example."""
    from qlayers.metrics.evaluate import PROFILES

    always = {"psnr", "mcc", "straight_through_gap"}
    for row in RUNNABLE:
        computed = {*PROFILES[row.scoring.metrics], *row.scoring.scores, *always}
        printed = {score.partition("/")[0] for score in row.cells}
        assert printed <= computed, row.address


def test_scoring_of_the_papers_that_boosted_trees():
    """10,000 images, and 5,000 more that trees are tested on; no forest in between."""
    for row in RUNNABLE:
        if "dci_gradient_boosting" in row.scoring.scores:
            config = resolve(row.method, row.dataset, row.address)
            assert (config.evaluation_size, config.test_size) == (10_000, 5_000)
            assert config.metrics == "fast"


def test_tripods_filter_can_be_repeated():
    code = resolve("tripod", "shapes3d", "tripod:table1:tripod/shapes3d@code")
    assert (code.psnr_threshold, code.psnr_variant) == (38.0, "uint8_overflow")
    text = resolve("tripod", "shapes3d", "tripod:table1:tripod/shapes3d")
    assert (text.psnr_threshold, text.psnr_variant) == (38.0, "exact")
