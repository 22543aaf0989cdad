"""Which score goes with sample efficiency."""

import pytest

from experiments.reporting.efficiency import efficiency_correlations, efficiency_table
from experiments.reporting.summary import find_runs
from tests.experiments.reporting.handwritten_runs import make_run

LR = "sample_efficiency/logistic_regression_efficiency"
# Seed -> efficiency, MIG, SAP: MIG swaps two neighbours, SAP is the reverse.
RUNS = [(0.2, 0.1, 0.9), (0.4, 0.3, 0.7), (0.6, 0.2, 0.5), (0.8, 0.4, 0.3)]


def study(folder, rows, method="ae"):
    for seed, (efficiency, mig, sap) in enumerate(rows):
        scores = {LR: efficiency, "mig/mig": mig, "sap/sap": sap}
        make_run(folder / f"{method}-{seed}", scores, method, seed=seed, select="last")
    return find_runs([folder])[0]


def test_rank_correlations_over_all_runs_of_a_dataset(tmp_path):
    # Half of the runs are of another method.
    study(tmp_path, RUNS[:2])
    runs = study(tmp_path, RUNS[2:], "beta_vae")
    found = efficiency_correlations(runs)
    # 1 - 6 * 2 / (4 * 15) for one neighbouring swap of four.
    key = ("mini_shapes3d", "LR")
    assert found["mig/mig"][key] == (pytest.approx(0.8), 4)
    assert found["sap/sap"][key] == (pytest.approx(-1.0), 4)
    assert set(found) == {"mig/mig", "sap/sap"}
    table = efficiency_table(runs)
    assert "mini_shapes3d (LR)" in table
    assert "| MIG" in table and "+0.80 (4)" in table


def test_two_runs_have_no_ranks_to_speak_of(tmp_path):
    assert efficiency_table(study(tmp_path, RUNS[:2])) is None
