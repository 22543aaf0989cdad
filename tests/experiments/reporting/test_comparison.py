"""Which published numbers stand beside a run, and what keeps the others apart."""

import pytest

from experiments.reporting.comparison import compare_with_papers
from experiments.settings.config import resolve
from experiments.settings.published import find, profile_of, published_rows

INFOM = "infomec/modularity"
FOREST = "dci/disentanglement"
BOOSTED = "dci_gradient_boosting/disentanglement"
ALL_SCORES = {score for row in published_rows() for score in row.cells}


def compared(method, dataset, scores=ALL_SCORES, protocols=(), **arguments):
    """The comparisons of a run by the paper's recipe, by paper."""
    config = resolve(method, dataset, **arguments)
    found = compare_with_papers(config, scores, protocols)
    return {comparison.paper: comparison for comparison in found}


def test_all_papers_of_a_pair_are_shown():
    found = compared("qlae", "shapes3d")
    assert list(found) == ["qlae", "tripod", "factor_qvae"]
    own = found["qlae"]
    assert own.source == "Hsu et al. 2023 (table 1, table 2, table 13)"
    # The mean of tables 1 and 13, with the interval that only table 13 prints.
    assert str(own.cells[INFOM]) == "0.91 ± 0.02"
    assert own.cells[INFOM].kind == "95 %"
    assert own.note() is None
    for other in ("tripod", "factor_qvae"):
        names = {difference.name for difference in found[other].differences}
        assert "network" in names
        assert not found[other].cells
        assert found[other].note().startswith(("Hsu et al. 2024", "Baykal"))


@pytest.mark.parametrize(
    ("hyperparameters", "title", "infom"),
    [
        ({}, "Tripod (ours)", 0.94),
        ({"nhp_weight": 0.0}, "Tripod w/o NHP", 0.85),
        ({"klm_weight": 0.0}, "Tripod w/o KLM", 0.89),
        ({"num_values": 144}, "Tripod w/ finer quantization", 0.69),
    ],
)
def test_ablations_of_tripod_find_their_own_rows(hyperparameters, title, infom):
    found = compared("tripod", "shapes3d", hyperparameters=hyperparameters)["tripod"]
    assert (found.title, found.cells[INFOM].value) == (title, infom)


def test_settings_between_two_rows_have_no_number():
    both = {"nhp_weight": 0.0, "klm_weight": 0.0}
    found = compared("tripod", "shapes3d", hyperparameters=both)["tripod"]
    assert not found.stands_beside
    assert not found.cells
    assert len(found.differences) == 1


def test_qlae_without_weight_decay_is_not_qlae():
    none = compared("qlae", "shapes3d", hyperparameters={"weight_decay": 0.0})["qlae"]
    assert none.title == "QLAE w/o weight decay"
    assert none.cells[INFOM].value == 0.68
    other = compared("qlae", "shapes3d", hyperparameters={"weight_decay": 0.5})["qlae"]
    assert [str(d) for d in other.differences] == ["weight_decay 0.5 (there 0.1)"]
    assert not other.cells


def test_a_forest_never_stands_beside_boosted_trees():
    own = compared("factor_qvae", "shapes3d")["factor_qvae"]
    assert own.cells[BOOSTED].value == 0.86
    assert FOREST not in own.cells
    forest = compared("factor_qvae", "shapes3d", {INFOM, FOREST})["factor_qvae"]
    assert set(forest.cells) == {INFOM}
    assert "dci_gradient_boosting (gradient_boosting)" in forest.note()
    tripod = compared("tripod", "shapes3d")["tripod"]
    assert (tripod.cells[FOREST].value, BOOSTED in tripod.cells) == (0.80, False)


def test_boosted_papers_print_no_forest():
    for row in published_rows():
        if row.paper in ("factor_qvae", "friede", "cliff"):
            assert not any(score.startswith("dci/") for score in row.cells)


def test_infomec_needs_the_protocol():
    again = compared("tripod", "shapes3d", protocols={"paper"})["tripod"]
    assert again.stands_beside
    assert FOREST in again.cells
    assert INFOM not in again.cells
    assert "InfoMEC by protocol paper (there tripod)" in again.note()
    assert INFOM in compared("tripod", "shapes3d", protocols={"tripod"})["tripod"].cells


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"dataset_options": {"variant": "toy"}}, "dataset_option variant"),
        ({"steps": 100}, "steps"),
        ({"num_latents": 10}, "num_latents"),
        ({"evaluation_size": 1000}, "evaluation_size"),
        ({"mixed_precision": "float16"}, "mixed_precision"),
        ({"psnr_variant": "uint8_overflow"}, "psnr_variant"),
    ],
)
def test_the_setting_that_differs_is_named(settings, name):
    found = compared("qlae", "mpi3d", settings=settings)["qlae"]
    assert [difference.name for difference in found.differences] == [name]
    assert name in found.note()


def test_mini_shapes3d_is_another_dataset():
    found = compared("qlae", "mini_shapes3d")["qlae"]
    assert [str(d) for d in found.differences] == [
        "dataset mini_shapes3d (there shapes3d)"
    ]


def test_a_median_over_gammas_stands_for_each_of_them():
    for gamma in (10.0, 100.0):
        chosen = {"tc_weight": gamma}
        found = compared("factor_d_vae", "cars3d", hyperparameters=chosen)["friede"]
        assert str(found.cells["mig/mig"]) == "0.149"
    found = compared("factor_d_vae", "cars3d", hyperparameters={"tc_weight": 15.0})
    assert not found["friede"].cells


def test_cliffs_beta_vae_is_its_own():
    config = resolve("beta_vae", "shapes3d", "cliff:table3:beta_vae/shapes3d")
    assert config.hyperparameters["beta"] == 16.0
    found = {c.paper: c for c in compare_with_papers(config, ALL_SCORES)}
    assert str(found["cliff"].cells[BOOSTED]) == "0.6972 ± 0.0354 (s.e.)"
    assert not found["qlae"].cells


def test_the_codes_settings_stand_beside_as_the_code():
    row = find("qlae:table1:qlae/shapes3d")
    config = resolve("qlae", "shapes3d", profile_of(row.address, "code"))
    found = compare_with_papers(config, ALL_SCORES)[0]
    assert (found.variant, found.cells[INFOM].value) == ("code", 0.91)


def test_pairs_that_nobody_printed_have_no_comparison():
    assert compared("qlae", "circles") == {}


def test_where_files_lie_is_no_setting():
    options = {"dataset_options": {"variant": "toy", "manual_dir": "/downloads"}}
    with_place = compared("factor_vae", "mpi3d", settings=options)
    options = {"dataset_options": {"variant": "toy"}}
    assert with_place == compared("factor_vae", "mpi3d", settings=options)
